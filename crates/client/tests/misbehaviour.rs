//! Principals of brokers that hang, send nonsense, cut connections off, or lose their pages.

mod fake;

use fake::{
    Fake, SOON, Script, await_event, builder, directory, eventually, is_joined, is_lost, numbers,
};
use plimsoll_client::messages::{Report, Set, Weight};
use plimsoll_client::{Error, Source};
use plimsoll_unit::{Bytes, MIB};
use std::time::{Duration, Instant};

#[test]
fn a_broker_that_hangs_is_left_after_a_while_and_blocks_nobody() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let timeout = Duration::from_millis(200);
    let principal = builder(&fake).timeout(timeout).open().unwrap();
    await_event(&principal, is_joined);
    fake.freeze();
    let refused = principal.set(&Set {
        weight: Weight::new(5).ok(),
        ..Set::default()
    });
    assert!(refused.is_ok(), "kept for the next join: {refused:?}");
    let event = await_event(&principal, is_lost);
    assert_eq!(event.reading().source, Source::Local);
    let begin = Instant::now();
    principal.report(&Report::default());
    principal.released(Bytes(1));
    principal.read();
    drop(principal);
    assert!(begin.elapsed() < SOON);
}

#[test]
fn a_broker_whose_heart_stops_is_noticed_without_a_call() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake)
        .timeout(Duration::from_millis(300))
        .open()
        .unwrap();
    await_event(&principal, is_joined);
    fake.freeze();
    await_event(&principal, is_lost);
    assert_eq!(principal.read().source, Source::Local);
}

#[test]
fn a_page_that_grows_old_under_a_living_broker_is_replaced_by_the_stream() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake).open().unwrap();
    await_event(&principal, is_joined);
    fake.state(|state| state.frozen = true);
    let first = principal.read().heartbeat;
    eventually("the heartbeat is fresh again", || {
        principal.read().heartbeat > first + plimsoll_unit::Nanos::seconds(2)
    });
    eventually("the numbers are the broker's", || {
        principal.read().source == Source::Broker
    });
    assert_eq!(principal.limit(), Bytes::mib(100));
    fake.publish(1, numbers(50 * MIB));
    eventually("the stream tells", || principal.limit() == Bytes::mib(50));
}

#[test]
fn bad_brokers_cost_a_timeout_at_the_most() {
    for script in [
        Script::Silent,
        Script::Late(2000),
        Script::Truncated,
        Script::DiesAfterRegister,
    ] {
        let directory = directory();
        let fake = Fake::start(directory.path(), script);
        let principal = builder(&fake)
            .timeout(Duration::from_millis(100))
            .open()
            .unwrap();
        // A broker that dies may have published numbers before.
        eventually(&format!("{script:?}: alone, and it is said why"), || {
            let error = principal.last_error().unwrap_or_default();
            let said = error.contains("did not answer") || error.contains("closed");
            said && principal.read().source == Source::Local
        });
        // Then the broker behaves well.
        fake.state(|state| state.script = Script::Good);
        let joined = await_event(&principal, is_joined);
        assert_eq!(joined.reading().limit, 100 * MIB, "{script:?}");
    }
}

#[test]
fn brokers_that_talk_nonsense_are_named() {
    for script in [Script::Garbage, Script::Endless, Script::Refuses] {
        let directory = directory();
        let fake = Fake::start(directory.path(), script);
        let error = builder(&fake).open().unwrap_err();
        match script {
            Script::Refuses => assert!(error.to_string().contains("raise max_principals")),
            _ => assert!(matches!(error, Error::Protocol { .. }), "{error}"),
        }
    }
}

#[test]
fn a_late_answer_in_time_is_taken() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Late(100));
    let principal = builder(&fake).open().unwrap();
    assert_eq!(principal.read().source, Source::Broker);
}

#[test]
fn without_a_usable_page_the_stream_tells_the_numbers() {
    for script in [
        Script::NoPage,
        Script::ShortPage,
        Script::PipeForPage,
        Script::WrongVersion,
        Script::WrongId,
    ] {
        let directory = directory();
        let fake = Fake::start(directory.path(), script);
        let principal = builder(&fake).open().unwrap();
        assert_eq!(principal.read().numbers, numbers(100 * MIB), "{script:?}");
        assert_eq!(principal.read().source, Source::Broker);
        let error = principal.last_error().unwrap();
        assert!(error.contains("page"), "{script:?}: {error}");
        fake.publish(1, numbers(30 * MIB));
        eventually("the stream tells", || principal.limit() == Bytes::mib(30));
        await_event(&principal, |event| event.reading().limit == 30 * MIB);
    }
}

#[test]
fn a_replaced_page_changes_nothing() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake).open().unwrap();
    std::fs::remove_file(fake.page(1)).unwrap();
    std::fs::write(fake.page(1), [0xFFu8; 4096]).unwrap();
    fake.publish(1, numbers(40 * MIB));
    assert_eq!(
        principal.limit(),
        Bytes::mib(40),
        "the mapping is of the file that was there"
    );
    assert_eq!(principal.read().source, Source::Broker);
}
