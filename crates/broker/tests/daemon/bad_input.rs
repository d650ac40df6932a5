//! Every bad message that we could think of: a clear answer, and nothing for others to notice.

use crate::common::{Broker, Client, Program, until};
use serde_json::json;
use std::io::Write;

#[test]
fn bad_parameters_are_answered_with_what_to_do() {
    let broker = Broker::start();
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    let mut client = broker.connect();
    for (parameters, error, says) in [
        (
            json!({"name": "a", "weight": 0}),
            "BadWeight",
            "give 1 to 10000",
        ),
        (
            json!({"name": "a", "weight": 10001}),
            "BadWeight",
            "give 1 to 10000",
        ),
        (json!({"name": "a", "weight": -5}), "BadWeight", "weight"),
        (json!({"name": "a", "weight": 1e300}), "BadWeight", "weight"),
        (
            json!({"name": "a", "weight": "heavy"}),
            "BadWeight",
            "weight",
        ),
        (
            json!({"name": "a", "priority": 101}),
            "BadPriority",
            "give -100 to 100",
        ),
        (
            json!({"name": "a", "priority": -101}),
            "BadPriority",
            "give -100 to 100",
        ),
        (json!({"name": ""}), "BadName", "1 to 64 bytes"),
        (json!({"name": "x".repeat(65)}), "BadName", "1 to 64 bytes"),
        (json!({"name": "two\nlines"}), "BadName", "leave it out"),
        (json!({"name": "bell\u{7}"}), "BadName", "leave it out"),
        (json!({"name": "\u{202e}turned"}), "BadName", "leave it out"),
        (json!({"name": "c1\u{9b}2J"}), "BadName", "leave it out"),
        (json!({"weight": 1}), "BadName", "missing"),
        (
            json!({"name": "a", "adapter": "x".repeat(60_000)}),
            "BadName",
            "1 to 32 bytes",
        ),
        (json!({"name": "a", "adapter": "Self"}), "BadName", "a to z"),
        (json!({"name": "a", "max": 0}), "BadMax", "give bytes from"),
        (json!({"name": "a", "max": -1}), "BadMax", "max"),
        (
            json!({"name": "a", "max": u64::MAX}),
            "BadMax",
            "give bytes from",
        ),
        (
            json!({"name": "a", "pid": 0}),
            "NoSuchProcess",
            "give the number",
        ),
        (
            json!({"name": "a", "pid": 4_294_967_295u32}),
            "NoSuchProcess",
            "give the number",
        ),
        (
            json!({"name": "a", "pid": 2_147_483_647}),
            "NoSuchProcess",
            "may have exited",
        ),
        (json!({"name": "a", "pid": -1}), "InvalidParameter", "pid"),
        (
            json!({"name": "a", "parent": 999}),
            "NoSuchPrincipal",
            "plimsoll ps",
        ),
        (json!({"name": "a", "wait": 5}), "InvalidParameter", "wait"),
        (
            json!({"name": "g", "kind": "group", "pid": 1}),
            "InvalidParameter",
            "leave pid out",
        ),
        (
            json!({"name": "g", "kind": "herd"}),
            "InvalidParameter",
            "herd",
        ),
        (
            json!({"name": "p", "cgroup": "/x"}),
            "BadCgroup",
            "only a group",
        ),
        (
            json!({"name": "g", "kind": "group", "cgroup": "x"}),
            "BadCgroup",
            "root",
        ),
        (
            json!({"name": "g", "kind": "group", "cgroup": "/../../etc"}),
            "BadCgroup",
            "without ..",
        ),
        (
            json!({"name": "g", "kind": "group", "cgroup": "/no/such/group"}),
            "BadCgroup",
            "no/such/group",
        ),
        (
            json!({"name": "g", "kind": "group", "cgroup": "/etc"}),
            "BadCgroup",
            "etc",
        ),
    ] {
        client.refuses("Register", parameters, error, says);
    }
    // A pipe in the place of a kernel file would stop whoever opens it.
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
    client.refuses(
        "Adapt",
        json!({"id": neighbour.id, "adapter": "\u{202e}"}),
        "BadName",
        "1 to 32 bytes",
    );
    client.refuses("Subscribe", json!({"id": 1}), "ExpectedMore", "\"more\"");
    client.refuses(
        "Nonsense",
        json!({}),
        "MethodNotFound",
        "GetInterfaceDescription",
    );
    client.refuses(
        "com.example.Other",
        json!({}),
        "InterfaceNotFound",
        "GetInfo",
    );
    client.refuses(
        "Report",
        json!({"id": neighbour.id, "live": -1}),
        "InvalidParameter",
        "live",
    );
    client.refuses(
        "Report",
        json!({"id": neighbour.id, "collector": {"heap": "much"}}),
        "InvalidParameter",
        "much",
    );
    client.refuses(
        "Attach",
        json!({"id": neighbour.id, "pid": std::process::id()}),
        "AlreadyRegistered",
        "already",
    );
    client.refuses(
        "Attach",
        json!({"id": 77, "pid": 1}),
        "NoSuchPrincipal",
        "77",
    );
    let refused = client
        .subscribe("Watch", json!({"interval_ms": 1}))
        .expect_err("too often");
    assert!(refused.message.contains("give 100 to 60000"), "{refused:?}");
    assert_eq!(
        client.list()["principals"].as_array().map(Vec::len),
        Some(1)
    );
    neighbour.assert_unharmed();
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

/// Sends bytes that are no call; the broker says why and closes.
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
    let before = resident(broker.pid());
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
    assert!(
        resident(broker.pid()) < before + (4 << 20),
        "its memory grew"
    );
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
    // The rest of half a message is as good as the whole.
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
    client.send(b"{\"method\":\"io.plimsoll.List\",\"oneway\":true}\0{\"method\":\"org.varlink.service.GetInfo\"}\0");
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

/// Resident bytes of a process.
fn resident(pid: u32) -> u64 {
    let process = plimsoll_kernel::process::Process::open(pid as i32).expect("it runs");
    process.memory().expect("its memory").resident()
}
