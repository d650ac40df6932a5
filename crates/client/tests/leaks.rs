//! Principals that open and close leave nothing behind. This test is alone in its file, because it counts the
//! descriptors of the process.

mod fake;

use fake::{Fake, Script, directory, eventually};
use plimsoll_client::{Principal, Socket};
use std::time::Duration;

fn entries(of: &str) -> usize {
    std::fs::read_dir(of).unwrap().count()
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .count()
}

#[test]
fn a_hundred_principals_leave_nothing_behind() {
    let directory = directory();
    let before = entries("/proc/self/fd");
    let fake = Fake::start(directory.path(), Script::Good);
    let socket = Socket::at(fake.socket());
    let come_and_go = || {
        let principal = Principal::builder("leaks")
            .socket(socket.clone())
            .timeout(Duration::from_secs(60))
            .open()
            .unwrap();
        principal.notify_fd().unwrap();
        assert!(principal.id().is_some());
    };
    // Mappings that a process makes only once (caches of threads, arenas) are made here.
    (0..10).for_each(|_| come_and_go());
    let maps = mappings();
    (0..100).for_each(|_| come_and_go());
    fake.until("all ended", |state| state.gone.len() == 110);
    // The scripted broker in this process holds duplicates of its streams.
    fake.kill();
    eventually("all descriptors are closed", || {
        entries("/proc/self/fd") <= before
    });
    // The kernel may list a thread for a short time after it was joined.
    eventually("only the test's own two threads are left", || {
        entries("/proc/self/task") == 2
    });
    eventually("what they had mapped is gone", || mappings() <= maps + 10);
}
