//! Pages, subscriptions, and systemd's pressure protocol.

use crate::common::{Broker, PATIENCE, Program, until};
use plimsoll_unit::MIB;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;

#[test]
fn numbers_are_on_the_page_before_the_reply_and_the_heart_beats() {
    let broker = Broker::start();
    let program = Program::register(&broker, "p", json!({}));
    let first = program.read_page().expect("numbers");
    assert_eq!(first.id, program.id);
    assert!(first.numbers.share > 0 && first.numbers.limit > 0);
    until("it beats", || {
        program
            .read_page()
            .is_some_and(|now| now.heartbeat > first.heartbeat)
    });
}

/// By this a client knows whether the numbers show what it gave back.
#[test]
fn a_release_is_answered_with_numbers_that_were_read_after_it() {
    let broker = Broker::start();
    let mut program = Program::register(&broker, "p", json!({"adapter": "self"}));
    let mut subscriber = broker.connect();
    subscriber
        .subscribe("Subscribe", json!({"id": program.id}))
        .expect("it may");
    // Nothing changes, so that nothing else would be told.
    for _ in 0..3 {
        let at = plimsoll_kernel::clock::now().0;
        let released = json!({"id": program.id, "bytes": 1});
        program.client.call("Released", released).expect("it may");
        until("it is told", || {
            let told = subscriber.reply().expect("a change");
            told["parameters"]["numbers"]["sensed"].as_u64() > Some(at)
        });
        let page = program.read_page().expect("numbers");
        assert!(page.numbers.sensed > at);
    }
}

#[test]
fn a_subscriber_hears_of_each_change_that_matters_and_of_the_end() {
    let broker = Broker::with_config("budget = \"256M\"\n");
    let mut program = Program::register(&broker, "p", json!({"adapter": "self"}));
    let mut subscriber = broker.connect();
    let first = subscriber
        .subscribe("Subscribe", json!({"id": program.id}))
        .expect("it may");
    assert_eq!(first["id"], json!(program.id));
    let _rival = Program::register(&broker, "rival", json!({"weight": 300, "adapter": "self"}));
    program
        .client
        .call(
            "Report",
            json!({"id": program.id, "demand": 1u64 << 30, "live": 50 << 20}),
        )
        .expect("it may");
    let next = subscriber.reply().expect("a change");
    assert_eq!(next["continues"], json!(true));
    assert!(next["parameters"]["generation"].as_u64() > first["generation"].as_u64());
    drop(program.sleeper);
    let mut last = next;
    until("the end is told", || {
        last = subscriber.reply().expect("a word");
        !last["error"].is_null()
    });
    assert_eq!(last["error"], "io.plimsoll.NoSuchPrincipal");
    // The connection is free again.
    assert!(subscriber.list()["budget"].is_u64());
}

#[test]
fn a_subscriber_that_never_reads_costs_nothing_and_hears_the_last_word() {
    let broker = Broker::with_config("budget = \"256M\"\n");
    let mut program = Program::register(&broker, "p", json!({"adapter": "self"}));
    let mut slow = broker.connect();
    slow.subscribe("Subscribe", json!({"id": program.id}))
        .expect("it may");
    let mut rival = Program::register(&broker, "rival", json!({"adapter": "self"}));
    for (who, demand) in [(&mut program, 1u64 << 30), (&mut rival, 1 << 30)] {
        let id = who.id;
        who.client
            .call("Report", json!({"id": id, "demand": demand}))
            .expect("it may");
    }
    let mut control = broker.connect();
    for round in 0..2000u64 {
        let weight = if round % 2 == 0 { 1 } else { 10_000 };
        control
            .call("Set", json!({"id": rival.id, "weight": weight}))
            .expect("it may");
    }
    control
        .call("Set", json!({"id": rival.id, "weight": 100}))
        .expect("it may");
    let id = program.id;
    let page = || program.read_page().expect("numbers").numbers;
    until("the last weight counts", || {
        let other = rival.read_page().expect("numbers").numbers.share;
        page().share.abs_diff(other) <= other / 64
    });
    let mut heard: Value = json!(null);
    until("the newest numbers are heard", || {
        heard = slow.reply().expect("a change")["parameters"].clone();
        let (limit, now) = (heard["numbers"]["limit"].as_u64(), page().limit);
        // The change of a limit that is not published.
        limit.expect("a limit").abs_diff(now) <= (now / 64).max(MIB)
    });
    assert_eq!(heard["id"], json!(id));
    program.assert_unharmed();
    rival.assert_unharmed();
}

#[test]
fn watchers_get_listings_again_and_again() {
    let broker = Broker::start();
    let mut watcher = broker.connect();
    watcher
        .subscribe("Watch", json!({"interval_ms": 100}))
        .expect("it may");
    for _ in 0..3 {
        let reply = watcher.reply().expect("another listing");
        assert_eq!(reply["continues"], json!(true));
    }
}

#[test]
fn programs_that_speak_systemds_protocol_are_woken_when_they_owe() {
    let broker = Broker::with_config("budget = \"256M\"\nrevoke = false\n");
    let mut program = Program::register(&broker, "p", json!({}));
    let mut listener = UnixStream::connect(&program.pressure).expect("it takes connections");
    // Another client that leaves at once, and one that only sends: neither does harm.
    drop(UnixStream::connect(&program.pressure).expect("it takes connections"));
    let mut talker = UnixStream::connect(&program.pressure).expect("it takes connections");
    talker.set_nonblocking(true).expect("it can");
    while matches!(std::io::Write::write(&mut talker, &[b'x'; 4096]), Ok(1..)) {}
    listener.set_nonblocking(true).expect("it can");
    let mut byte = [0; 16];
    assert_eq!(
        listener.read(&mut byte).map_err(|error| error.kind()),
        Err(ErrorKind::WouldBlock)
    );
    // From now on less is shared out than it holds.
    std::fs::write(
        broker.config(),
        "budget = 4096\nreserve = 0\nrevoke = false\n",
    )
    .expect("it can");
    program.client.call("Reload", json!({})).expect("it may");
    listener.set_nonblocking(false).expect("it can");
    listener.set_read_timeout(Some(PATIENCE)).expect("it can");
    assert!(listener.read(&mut byte).expect("it is woken") > 0);
    let level = program.read_page().expect("numbers").numbers.level;
    assert!(level > plimsoll_wire::page::Level::Normal, "{level:?}");
}
