//! A cache with a real broker: it fills what it may, gives back what it owes, and says what memory is worth.

use plimsoll_cache::Cache;
use plimsoll_client::messages::{Max, Set};
use plimsoll_client::{Bytes, Connection, Socket, Source};
use plimsoll_testbed::cargo;
use plimsoll_unit::MIB;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait for an answer, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of an object.
const OBJECT: u64 = 256 << 10;

/// A broker for this test; killed when this is dropped.
struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Broker {
    fn start(directory: &Path) -> (Broker, Socket) {
        let program = cargo::profile().join("plimsolld");
        if !program.exists() {
            let what = ["-p", "plimsoll-broker", "--bin", "plimsolld"];
            cargo::build(Path::new(env!("CARGO_MANIFEST_DIR")), &what);
        }
        let mut command = Command::new(program);
        command.arg("--directory").arg(directory);
        command.args(["--budget", "256M"]);
        let broker = Broker(command.spawn().unwrap());
        let socket = Socket::at(directory.join("broker.sock"));
        eventually("the broker answers", || {
            Connection::open(&socket, PATIENCE)
                .and_then(|mut connection| connection.info())
                .is_ok()
        });
        (broker, socket)
    }
}

fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

type Objects = Cache<u64, Arc<[u8]>>;

fn open(socket: &Socket) -> Objects {
    let socket = socket.clone();
    Cache::builder("objects", |_: &u64, object: &Arc<[u8]>| object.len() as u64)
        .expected(500)
        .principal(move |principal| principal.socket(socket))
        .open()
        .unwrap()
}

/// Asks for an object, which takes a millisecond to make.
fn ask(cache: &Objects, key: u64) {
    let object = cache.get_or_insert_with(&key, || {
        std::thread::sleep(Duration::from_millis(1));
        vec![key as u8; OBJECT as usize].into()
    });
    assert_eq!((object.len() as u64, object[0]), (OBJECT, key as u8));
}

#[test]
fn it_fills_what_it_may_and_gives_back_what_it_owes() {
    let directory = tempfile::tempdir().unwrap();
    let (_broker, socket) = Broker::start(directory.path());
    let cache = open(&socket);
    let read = || cache.principal().read();
    assert_eq!(read().source, Source::Broker);
    let mut key = 0;
    eventually("it fills most of what it may use", || {
        key += 1;
        ask(&cache, key);
        cache.size() > 150 * MIB
    });
    // More keys than there is room for: it stays within its limit.
    for key in 0..3000 {
        ask(&cache, key);
        assert!(cache.size() < 256 * MIB);
    }
    let mut control = Connection::open(&socket, PATIENCE).unwrap();
    let id = cache.principal().id().unwrap();
    let max = Max::new(Bytes::mib(96)).unwrap();
    let set = Set {
        id,
        max: Some(max),
        ..Set::default()
    };
    control.set(&set).unwrap();
    eventually("it gives back", || {
        read().limit <= 96 * MIB && read().owed == 0 && cache.size() < 96 * MIB
    });
    // It goes on in what it has, and misses what it had to drop. Keys come in no order.
    let mut random = 1_u64;
    eventually("memory is worth something to it", || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ask(&cache, (random >> 33) % 600);
        let listing = control.list().unwrap();
        assert_eq!(listing.principals.len(), 1);
        assert!(cache.size() < 96 * MIB);
        cache.worth().is_some_and(|worth| worth > 0)
    });
    drop(cache);
    eventually("its principal ends with it", || {
        control.list().unwrap().principals.is_empty()
    });
}

#[test]
fn without_a_broker_it_works_too() {
    let directory = tempfile::tempdir().unwrap();
    let cache = open(&Socket::at(directory.path().join("none.sock")));
    for key in 0..64 {
        ask(&cache, key);
    }
    ask(&cache, 7);
    assert_eq!(cache.principal().read().source, Source::Local);
    assert!(cache.get(&7).is_some());
    cache.remove(&7);
    assert!(cache.get(&7).is_none());
}
