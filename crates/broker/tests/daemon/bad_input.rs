//! Bad messages of every known kind: each gets a clear error, and other clients notice nothing.

use crate::common::{Broker, Client, Program, until};
use serde_json::{Value, json};
use std::io::Write;

/// Parameters of `Register`, the error that answers them, and what its message says.
type Refused = (Value, &'static str, &'static str);

fn bad_numbers() -> Vec<Refused> {
    let with = |field: &str, value: Value| json!({"name": "a", field: value});
    vec![
        (with("weight", json!(0)), "BadWeight", "give 1 to 10000"),
        (with("weight", json!(10001)), "BadWeight", "give 1 to 10000"),
        (with("weight", json!(-5)), "BadWeight", "weight"),
        (with("weight", json!(1e300)), "BadWeight", "weight"),
        (with("weight", json!("heavy")), "BadWeight", "weight"),
        (
            with("priority", json!(101)),
            "BadPriority",
            "give -100 to 100",
        ),
        (
            with("priority", json!(-101)),
            "BadPriority",
            "give -100 to 100",
        ),
        (with("max", json!(0)), "BadMax", "give bytes from"),
        (with("max", json!(-1)), "BadMax", "max"),
        (with("max", json!(u64::MAX)), "BadMax", "give bytes from"),
        (with("pid", json!(0)), "NoSuchProcess", "give the number"),
        (
            with("pid", json!(u32::MAX)),
            "NoSuchProcess",
            "give the number",
        ),
        (
            with("pid", json!(i32::MAX)),
            "NoSuchProcess",
            "may have exited",
        ),
        (with("pid", json!(-1)), "InvalidParameter", "pid"),
        (with("parent", json!(999)), "NoSuchPrincipal", "plimsoll ps"),
        (with("wait", json!(5)), "InvalidParameter", "wait"),
    ]
}

fn bad_texts() -> Vec<Refused> {
    let name = |name: &str| json!({"name": name});
    let adapter = |adapter: &str| json!({"name": "a", "adapter": adapter});
    let group = |cgroup: &str| json!({"name": "g", "kind": "group", "cgroup": cgroup});
    vec![
        (name(""), "BadName", "1 to 64 bytes"),
        (name(&"x".repeat(65)), "BadName", "1 to 64 bytes"),
        (name("two\nlines"), "BadName", "leave it out"),
        (name("bell\u{7}"), "BadName", "leave it out"),
        (name("\u{202e}turned"), "BadName", "leave it out"),
        (name("c1\u{9b}2J"), "BadName", "leave it out"),
        (json!({"weight": 1}), "BadName", "missing"),
        (adapter(&"x".repeat(60_000)), "BadName", "1 to 32 bytes"),
        (adapter("Self"), "BadName", "a to z"),
        (group("x"), "BadCgroup", "root"),
        (group("/../../etc"), "BadCgroup", "without .."),
        (group("/no/such/group"), "BadCgroup", "no/such/group"),
        (group("/etc"), "BadCgroup", "etc"),
        (
            json!({"name": "p", "cgroup": "/x"}),
            "BadCgroup",
            "only a group",
        ),
        (
            json!({"name": "g", "kind": "herd"}),
            "InvalidParameter",
            "herd",
        ),
        (
            json!({"name": "g", "kind": "group", "pid": 1}),
            "InvalidParameter",
            "leave pid out",
        ),
    ]
}

#[test]
fn a_bad_registration_is_answered_with_what_to_do() {
    let broker = Broker::start();
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    let mut client = broker.connect();
    for (parameters, error, says) in bad_numbers().into_iter().chain(bad_texts()) {
        client.refuses("Register", parameters, error, says);
    }
    // A pipe in place of a kernel file would block a process that opens it.
    let trap = tempfile::tempdir().expect("a directory");
    let pipe = trap.path().join("memory.limit_in_bytes");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    client.refuses(
        "Register",
        json!({"name": "g", "kind": "group", "cgroup": trap.path()}),
        "BadCgroup",
        "below the memory controller",
    );
    client.refuses(
        "Register",
        json!({"name": "a", "pid": neighbour.sleeper.pid()}),
        "AlreadyRegistered",
        "use that one",
    );
    assert_alone(&mut client);
    neighbour.assert_unharmed();
}

#[test]
fn bad_calls_are_answered_with_what_to_do() {
    let broker = Broker::start();
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    let mut client = broker.connect();
    let id = neighbour.id;
    let own = std::process::id();
    let much = json!({"heap": "much"});
    for (method, parameters, error, says) in [
        (
            "Adapt",
            json!({"id": id, "adapter": "\u{202e}"}),
            "BadName",
            "1 to 32 bytes",
        ),
        ("Subscribe", json!({"id": 1}), "ExpectedMore", "\"more\""),
        (
            "Nonsense",
            json!({}),
            "MethodNotFound",
            "GetInterfaceDescription",
        ),
        (
            "com.example.Other",
            json!({}),
            "InterfaceNotFound",
            "GetInfo",
        ),
        (
            "Report",
            json!({"id": id, "live": -1}),
            "InvalidParameter",
            "live",
        ),
        (
            "Report",
            json!({"id": id, "collector": much}),
            "InvalidParameter",
            "much",
        ),
        (
            "Attach",
            json!({"id": id, "pid": own}),
            "AlreadyRegistered",
            "already",
        ),
        (
            "Attach",
            json!({"id": 77, "pid": 1}),
            "NoSuchPrincipal",
            "77",
        ),
    ] {
        client.refuses(method, parameters, error, says);
    }
    let refused = client
        .subscribe("Watch", json!({"interval_ms": 1}))
        .expect_err("too often");
    assert!(refused.message.contains("give 100 to 60000"), "{refused:?}");
    assert_alone(&mut client);
    neighbour.assert_unharmed();
}

/// Checks that the neighbour is the only principal.
#[track_caller]
fn assert_alone(client: &mut Client) {
    let listing = client.list();
    assert_eq!(listing["principals"].as_array().map(Vec::len), Some(1));
}

#[test]
fn set_refuses_cycles_depth_and_nonsense_and_changes_nothing() {
    let broker = Broker::start();
    let mut line = vec![Program::register(&broker, "p0", json!({}))];
    for depth in 1..8 {
        let parent = line[depth - 1].id;
        line.push(Program::register(
            &broker,
            &format!("p{depth}"),
            json!({"parent": parent}),
        ));
    }
    let mut client = broker.connect();
    let (top, bottom) = (line[0].id, line[7].id);
    client.refuses(
        "Set",
        json!({"id": top, "parent": bottom}),
        "Cycle",
        "its own descendants",
    );
    client.refuses(
        "Set",
        json!({"id": top, "parent": top}),
        "Cycle",
        "cannot move under",
    );
    client.refuses(
        "Register",
        json!({"name": "deep", "parent": bottom}),
        "TooDeep",
        "at most 8",
    );
    client.refuses(
        "Set",
        json!({"id": top, "weight": 0}),
        "BadWeight",
        "give 1 to 10000",
    );
    client.refuses(
        "Set",
        json!({"id": top, "own_priority": 1000}),
        "BadPriority",
        "give -100 to 100",
    );
    client.refuses(
        "Set",
        json!({"id": 4242, "weight": 3}),
        "NoSuchPrincipal",
        "4242",
    );
    client
        .call(
            "Set",
            json!({"id": top, "weight": 7, "priority": -3, "max": 1 << 30}),
        )
        .expect("it may");
    let shown = client.find(top).expect("it is listed");
    assert_eq!(
        (&shown["weight"], &shown["priority"], &shown["max"]),
        (&json!(7), &json!(-3), &json!(1 << 30))
    );
    client
        .call("Set", json!({"id": top, "max": 0}))
        .expect("the bound is taken away");
    assert_eq!(client.find(top).expect("listed")["max"], json!(null));
}

/// Sends bytes that are no call; checks that the broker says why and closes.
#[track_caller]
fn cut_off(broker: &Broker, bytes: &[u8], says: &str) {
    let mut client = broker.connect();
    client.send(bytes);
    let reply = client.reply().expect("a word before it is closed");
    assert_eq!(reply["error"], "org.varlink.service.InvalidParameter");
    let message = reply["parameters"]["message"].as_str().expect("a message");
    assert!(message.contains(says), "{message}");
    assert!(client.reply().is_none(), "it stays open");
}

#[test]
fn what_is_no_call_is_told_so_and_cut_off() {
    let broker = Broker::start();
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    cut_off(&broker, b"\0", "empty message");
    cut_off(&broker, b"hello\0", "not a JSON object");
    cut_off(&broker, b"{\"method\":\"io.plimsoll.List\"\0", "not a call");
    cut_off(&broker, b"{\"parameters\":{}}\0", "not a call");
    cut_off(&broker, b"{\"method\":\"\xff\xfe\"}\0", "not UTF-8");
    cut_off(&broker, b"[1,2]\0", "not a JSON object");
    let deep = "[".repeat(20_000) + &"]".repeat(20_000);
    cut_off(
        &broker,
        format!("{{\"method\":{deep}}}\0").as_bytes(),
        "not a call",
    );
    let mut client = broker.connect();
    client.send(
        format!("{{\"method\":\"io.plimsoll.Set\",\"parameters\":{{\"id\":{deep}}}}}\0").as_bytes(),
    );
    let reply = client.reply().expect("an answer");
    assert_eq!(reply["error"], "org.varlink.service.InvalidParameter");
    neighbour.assert_unharmed();
}

#[test]
fn an_oversized_or_endless_message_is_cut_off_within_its_bound() {
    let broker = Broker::start();
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    let before = broker.memory();
    for _ in 0..20 {
        let mut client = broker.connect();
        let mut sent = 0;
        while sent < 64 << 20 {
            match client.stream.write(&[b'x'; 65536]) {
                Ok(count) => sent += count,
                Err(_) => break,
            }
        }
        assert!(sent < 2 << 20, "it took {sent} bytes of one message");
    }
    assert!(broker.memory() < before + (4 << 20), "its memory grew");
    neighbour.assert_unharmed();
}

#[test]
fn half_messages_silent_peers_and_floods_cost_others_nothing() {
    let broker = Broker::start();
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    let half = |client: &mut Client| client.send(b"{\"method\":\"io.pl");
    let mut halves: Vec<Client> = (0..50).map(|_| broker.connect()).collect();
    halves.iter_mut().for_each(half);
    let mut flood = broker.connect();
    flood.stream.set_nonblocking(true).expect("it can");
    let call = b"{\"method\":\"io.plimsoll.List\"}\0".repeat(64);
    // Never reads: the broker stops reading from it once a reply waits.
    let sent: usize = (0..10_000)
        .map_while(|_| flood.stream.write(&call).ok())
        .sum();
    assert!(sent < 10_000 * call.len(), "it took everything");
    for _ in 0..20 {
        neighbour.assert_unharmed();
    }
    // Completing a half message makes it a good message.
    let mut late = broker.connect();
    half(&mut late);
    neighbour.assert_unharmed();
    late.send(b"imsoll.List\"}\0");
    assert!(late.reply().expect("an answer")["parameters"]["budget"].is_u64());
    // Half a message is waited for 10 seconds.
    let reply = halves[1].reply().expect("a word before it is closed");
    assert!(
        reply["parameters"]["message"]
            .as_str()
            .is_some_and(|message| message.contains("within 10 seconds")),
        "{reply}"
    );
    assert!(halves[1].reply().is_none());
    neighbour.assert_unharmed();
}

#[test]
fn pipelined_calls_are_answered_in_order_and_oneway_ones_not_at_all() {
    let broker = Broker::start();
    let mut client = broker.connect();
    let calls = [
        &b"{\"method\":\"io.plimsoll.List\",\"oneway\":true}\0"[..],
        b"{\"method\":\"org.varlink.service.GetInfo\"}\0",
    ];
    client.send(&calls.concat());
    assert_eq!(
        client.reply().expect("an answer")["parameters"]["product"],
        "plimsolld"
    );
    let described = client
        .call(
            "org.varlink.service.GetInterfaceDescription",
            json!({"interface": "io.plimsoll"}),
        )
        .expect("it is served");
    assert!(
        described["description"]
            .as_str()
            .is_some_and(|text| text.contains("method Register"))
    );
    for _ in 0..5000 {
        client.send(b"{\"method\":\"org.varlink.service.GetInfo\"}\0");
        assert!(client.reply().expect("an answer")["error"].is_null());
    }
}

#[test]
fn one_user_cannot_take_all_connections_or_principals() {
    let broker = Broker::with_config("max_per_user = 5\nmax_principals = 3\n");
    let programs: Vec<Program> = (0..3)
        .map(|n| Program::register(&broker, &format!("p{n}"), json!({})))
        .collect();
    let mut client = broker.connect();
    client.refuses(
        "Register",
        json!({"name": "one too many"}),
        "TooMany",
        "max_principals",
    );
    let _fifth = broker.connect();
    let refused = broker.connect().reply().expect("a word");
    assert!(
        refused["parameters"]["message"]
            .as_str()
            .is_some_and(|message| message.contains("max_per_user")),
        "{refused}"
    );
    drop(programs);
    until("room is free again", || {
        client.list()["principals"]
            .as_array()
            .is_some_and(Vec::is_empty)
    });
    client
        .call("Register", json!({"name": "now it fits"}))
        .expect("there is room");
}
