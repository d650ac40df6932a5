//! The client with the real broker: it joins, gets its share, survives the broker's death by SIGKILL, and
//! joins again.

mod neighbour;

use plimsoll_client::{Connection, Event, Principal, Socket, Source};
use plimsoll_testbed::cargo;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const BUDGET: u64 = 256 << 20;
/// The longest wait for an answer. The broker gives one; any delay comes from a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Path of a program that cargo built beside this test. Builds it if it is not there.
fn built(path: &str, what: &[&str]) -> PathBuf {
    let program = cargo::profile().join(path);
    if !program.exists() {
        cargo::build(Path::new(env!("CARGO_MANIFEST_DIR")), what);
    }
    program
}

fn plimsolld() -> PathBuf {
    let what = ["-p", "plimsoll-broker", "--bin", "plimsolld"];
    built("plimsolld", &what)
}

/// A process of this test. It is killed when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A broker that serves this test only.
struct Broker(#[expect(dead_code, reason = "held until it is to end")] Ended);

impl Broker {
    fn start(directory: &Path) -> Broker {
        let mut command = Command::new(plimsolld());
        command
            .arg("--directory")
            .arg(directory)
            .args(["--budget", "256M"]);
        let broker = Broker(Ended(command.spawn().unwrap()));
        let socket = Socket::at(directory.join("broker.sock"));
        await_that("the broker answers", || {
            Connection::open(&socket, PATIENCE)
                .and_then(|mut c| c.info())
                .is_ok()
        });
        broker
    }
}

fn await_that(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn await_event(principal: &Principal, wanted: impl Fn(&Event) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !wanted(&principal.wait(Duration::from_secs(1))) {
        assert!(Instant::now() < deadline, "{:?}", principal.last_error());
    }
}

/// Waits until all of them have the broker's numbers.
fn await_joined(principals: [&Principal; 2]) {
    for principal in principals {
        await_event(principal, |event| matches!(event, Event::Joined(_)));
        await_that("the numbers are the broker's", || {
            principal.read().source == Source::Broker
        });
    }
}

/// The sum of both limits at one moment.
fn sum(one: &Principal, other: &Principal) -> u64 {
    loop {
        let before = one.limit();
        let sum = before + other.limit();
        // The broker raises one of them only after it lowered the other.
        if one.limit() == before {
            return sum.0;
        }
    }
}

/// Checks what a connection of another process can ask while there are two principals.
fn assert_shown(socket: &Socket) {
    let mut control = Connection::open(socket, PATIENCE).unwrap();
    assert_eq!(control.list().unwrap().principals.len(), 2);
    let interface = control.describe("io.plimsoll").unwrap();
    assert!(interface.contains("method Register("));
    let mut watch = control.watch(100).unwrap();
    let watched = watch.next(PATIENCE).unwrap().unwrap();
    assert_eq!(watched.principals.len(), 2);
}

#[test]
fn joins_survives_and_rejoins_the_real_broker() {
    let directory = tempfile::Builder::new()
        .prefix("plimsoll-test-client-")
        .tempdir()
        .unwrap();
    let socket = Socket::at(directory.path().join("broker.sock"));
    let broker = Broker::start(directory.path());
    let builder = || {
        Principal::builder("real")
            .socket(socket.clone())
            .adapter("self")
            .timeout(PATIENCE)
    };
    // Neither process descends from the other.
    let sleeper = || Ended(Command::new("sleep").arg("600").spawn().unwrap());
    let (one, other) = (sleeper(), sleeper());
    let light = builder().weight(10).pid(one.0.id()).open().unwrap();
    let heavy = builder().weight(30).pid(other.0.id()).open().unwrap();
    await_joined([&light, &heavy]);
    await_that("shares are by weight", || {
        let (light, heavy) = (light.read().share, heavy.read().share);
        light > 0 && heavy.abs_diff(light * 3) <= 4096 * 3
    });
    await_that("the budget is never exceeded", || {
        let sum = sum(&light, &heavy);
        assert!(sum <= BUDGET, "{sum}");
        sum > 0
    });
    light
        .set(&plimsoll_client::messages::Set {
            weight: plimsoll_client::messages::Weight::new(30).ok(),
            ..Default::default()
        })
        .unwrap();
    await_that("a new weight counts", || {
        light.read().share.abs_diff(heavy.read().share) <= 4096
    });
    assert_shown(&socket);

    // The broker dies by SIGKILL. All that clients notice is other numbers.
    drop(broker);
    for principal in [&light, &heavy] {
        await_event(principal, |event| matches!(event, Event::BrokerLost(_)));
        assert_eq!(principal.read().source, Source::Local);
    }
    assert!(light.read().uses > 0);

    let _broker = Broker::start(directory.path());
    await_joined([&light, &heavy]);
    let listing = Connection::open(&socket, PATIENCE).unwrap().list().unwrap();
    let weights: Vec<_> = listing
        .principals
        .iter()
        .map(|principal| principal.weight)
        .collect();
    assert_eq!(weights, [30, 30], "with what they were given last");
}

#[test]
fn the_example_of_the_book_pays_a_debt_once_and_keeps_its_limit() {
    let directory = tempfile::Builder::new()
        .prefix("plimsoll-test-client-")
        .tempdir()
        .unwrap();
    let _broker = Broker::start(directory.path());
    let example = ["-p", "plimsoll-client", "--example", "cache"];
    let example = built("examples/cache", &example);
    neighbour::keeps_its_limit(&example, &directory.path().join("broker.sock"));
}
