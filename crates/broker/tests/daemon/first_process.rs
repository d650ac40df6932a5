//! A broker that is the first process of a container.

use crate::common::{Broker, until};
use plimsoll_kernel::process::descendants;
use plimsoll_testbed::skip;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;

/// Processes whose parents end before them.
const ORPHANS: usize = 100;

/// The first process of the container, killed when this is dropped: `unshare` itself ignores requests to end.
struct First(Pid);

impl Drop for First {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// It takes away the zombies of others, lives on after signals that mean nothing to it, and ends well.
#[test]
fn it_is_an_init_that_can_be_told_to_end() {
    let spaces = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"].map(str::to_owned);
    let tried = Command::new("unshare")
        .args(&spaces[1..])
        .arg("true")
        .output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return skip("no pid namespace of our own here");
    }
    let own = tempfile::tempdir().expect("a directory");
    let directory = own.path().join("run");
    let mut broker = Broker::start_by(&directory, Vec::new(), spaces.into());
    let unshare = broker.pid() as i32;
    let below = || {
        let mut found = Vec::new();
        descendants(unshare, 1000, &mut found).expect("unshare runs");
        found
    };
    let number = *below().first().expect("the broker");
    let first = First(Pid::from_raw(number).expect("a number"));
    let script = format!("for n in $(seq {ORPHANS}); do (sleep 0.1 & exit 0); done");
    let made = Command::new("nsenter")
        .args([&format!("--pid=/proc/{number}/ns/pid"), "sh", "-c", &script])
        .status();
    assert!(made.expect("nsenter runs").success());
    until("no orphan is left, nor its zombie", || below().len() == 1);
    let harmless = [
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
        Signal::WINCH,
        Signal::HUP,
    ];
    for signal in harmless {
        kill_process(first.0, signal).expect("it runs");
    }
    assert!(broker.connect().list()["budget"].is_u64());
    kill_process(first.0, Signal::TERM).expect("it runs");
    until("it ends", || broker.left().is_some());
    assert_eq!(broker.left(), Some(true));
    assert!(!broker.socket().exists());
}
