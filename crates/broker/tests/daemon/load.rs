//! Many simultaneous callers, slow readers, and no free descriptor: the broker goes on, and
//! neighbours notice nothing.

use crate::common::{Broker, Program, until};
use plimsoll_kernel::process::Process;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

fn connect(path: &Path) -> UnixStream {
    UnixStream::connect(path).expect("there is room in the queue")
}

/// Sets the broker's limit of open files, which it raised when it started.
fn limit_descriptors(broker: &Broker, most: Option<u64>) {
    let pid = Pid::from_raw(broker.pid() as i32).expect("a number");
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: most.or(maximum),
        maximum,
    };
    prlimit(Some(pid), Resource::Nofile, limit).expect("it is ours");
}

/// The number of its next descriptor; it may have inherited higher ones.
fn next_descriptor(broker: &Broker) -> u64 {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).expect("it runs");
    let numbers = descriptors
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let open: HashSet<u64> = numbers.collect();
    (0..)
        .find(|number| !open.contains(number))
        .expect("one is free")
}

/// Processor time that the broker used.
fn spent(broker: &Broker) -> Duration {
    let process = Process::open(broker.pid() as i32).expect("it runs");
    let ticks = process.stat().expect("it runs").cpu_ticks;
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

#[test]
fn without_descriptors_it_neither_spins_nor_floods_its_log_and_comes_back() {
    let broker = Broker::start();
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    limit_descriptors(&broker, Some(next_descriptor(&broker) + 4));
    // More connections than fit; the rest waits to be accepted.
    let callers: Vec<UnixStream> = (0..40).map(|_| connect(&broker.socket())).collect();
    let listeners: Vec<UnixStream> = (0..4).map(|_| connect(&neighbour.pressure)).collect();
    let told = || broker.log().matches("could not be accepted").count();
    until("it is told", || told() > 0);
    let (before, began) = (spent(&broker), Instant::now());
    for _ in 0..20 {
        neighbour.assert_unharmed();
        std::thread::sleep(Duration::from_millis(100));
    }
    // A broker that spins would use all of the time.
    let (used, passed) = (spent(&broker) - before, began.elapsed());
    assert!(used < passed / 2, "{used:?} of {passed:?}");
    assert_eq!(told(), 1);
    limit_descriptors(&broker, None);
    assert!(broker.connect().list()["budget"].is_u64());
    drop((callers, listeners));
    neighbour.assert_unharmed();
}

/// A client that calls as often as the broker permits.
struct Caller {
    stream: UnixStream,
    /// Bytes sent of the current round of calls.
    sent: usize,
    heard: usize,
}

impl Caller {
    fn new(broker: &Broker) -> Caller {
        let stream = connect(&broker.socket());
        stream.set_nonblocking(true).expect("it can");
        Caller {
            stream,
            sent: 0,
            heard: 0,
        }
    }

    fn go_on(&mut self, calls: &[u8]) {
        if let Ok(count) = self.stream.write(&calls[self.sent..]) {
            self.sent = (self.sent + count) % calls.len();
        }
        if let Ok(count) = self.stream.read(&mut [0; 65536]) {
            self.heard += count;
        }
    }
}

#[test]
fn a_flood_from_many_connections_keeps_neither_ticks_nor_neighbours_waiting() {
    let broker = Broker::start();
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    let first = neighbour.read_page().expect("numbers").heartbeat;
    let calls = b"{\"method\":\"io.plimsoll.List\"}\0".repeat(64);
    let mut callers: Vec<Caller> = (0..200).map(|_| Caller::new(&broker)).collect();
    for _ in 0..50 {
        callers.iter_mut().for_each(|caller| caller.go_on(&calls));
        neighbour.assert_unharmed();
    }
    until("everybody had a turn, and the heart beats", || {
        callers.iter_mut().for_each(|caller| caller.go_on(&calls));
        let beats = neighbour.read_page().expect("numbers").heartbeat > first;
        beats && callers.iter().all(|caller| caller.heard > 0)
    });
    drop(callers);
    neighbour.assert_unharmed();
}

#[test]
fn a_listing_shows_at_once_what_a_call_changed() {
    let broker = Broker::start();
    let mut program = Program::register(&broker, "p", json!({}));
    let id = program.id;
    let mut control = broker.connect();
    for number in 1..=100u64 {
        program
            .client
            .call("Set", json!({"id": id, "weight": number}))
            .expect("it may");
        let shown = control.find(id).expect("listed");
        assert_eq!(shown["weight"], json!(number));
        program
            .client
            .call("Report", json!({"id": id, "live": number}))
            .expect("it may");
        let shown = control.find(id).expect("listed");
        assert_eq!(shown["live"], json!(number));
        let collector = json!({"last_pause_us": number, "retained": u64::MAX});
        program
            .client
            .call("Report", json!({"id": id, "collector": collector}))
            .expect("it may");
        let shown = &control.find(id).expect("listed");
        assert_eq!(shown["live"], json!(number), "what is absent stays");
        let shown = &shown["collector"];
        assert_eq!(
            shown["longest_pause_us"],
            json!(number),
            "no shorter than the last"
        );
        assert_eq!(shown["heap"], json!(null));
        assert_eq!(
            shown["retained"],
            json!(1u64 << 50),
            "absurd numbers are cut"
        );
    }
    let mut life = broker.connect();
    let group = life
        .call("Register", json!({"name": "g", "kind": "group"}))
        .expect("a group")["id"]
        .as_u64()
        .expect("a number");
    assert!(control.find(group).is_some());
    drop(life);
    until("it ended", || control.find(group).is_none());
}

#[test]
fn numbers_are_on_each_page_before_its_reply_however_many_come_at_once() {
    let broker = Broker::start();
    let come = |thread: u32| {
        let programs: Vec<Program> = (0..16)
            .map(|n| {
                let name = format!("p{thread}-{n}");
                let program = Program::register(&broker, &name, json!({}));
                assert!(program.read_page().is_some(), "{name} has no numbers");
                program
            })
            .collect();
        programs.len()
    };
    let come = &come;
    let registered: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| scope.spawn(move || come(thread)))
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().expect("all have numbers"));
        joined.sum()
    });
    assert_eq!(registered, 64);
}

#[test]
fn the_state_is_written_once_a_second_after_a_few_times_and_at_a_clean_end() {
    let mut broker = Broker::start();
    let mut program = Program::register(&broker, "p", json!({}));
    let id = program.id;
    let path = broker.directory().join("state.json");
    let mut set = |weight: u64| {
        program
            .client
            .call("Set", json!({"id": id, "weight": weight}))
            .expect("it may");
    };
    let began = Instant::now();
    let mut versions = HashSet::new();
    for round in 0..500 {
        set(1 + round);
        let status = std::fs::metadata(&path).ok();
        versions.extend(status.map(|status| (status.ino(), status.mtime(), status.mtime_nsec())));
    }
    let seconds = began.elapsed().as_secs() as usize;
    // One earlier write, a burst of a few, and one per second.
    assert!(
        versions.len() <= seconds + 9,
        "{} in {seconds} s",
        versions.len()
    );
    set(7777);
    assert!(broker.leave());
    let state = std::fs::read_to_string(&path).expect("a state");
    assert!(state.contains("\"weight\":7777"), "{state}");
}
