//! The machine with a real broker: stalls within a grant, a machine that dies or hangs in the middle of a
//! collection, limits below what lives.

use super::pressure::TRIES;
use super::{machine, number, output, told};
use plimsoll_client::{Connection, Socket};
use plimsoll_testbed::{SwapFile, TestCgroup, cargo, children, skip};
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::messages::Principal;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that ends only when it is ended.
const FOREVER: &str = "2000000000";
const PATIENCE: Duration = Duration::from_secs(60);

/// A process of this test. It is killed when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A broker that serves this test only.
struct Broker {
    _process: Ended,
    directory: tempfile::TempDir,
}

impl Broker {
    /// A broker that shares out `budget` bytes.
    fn start(budget: u64) -> Broker {
        let program = cargo::profile().join("plimsolld");
        if !program.exists() {
            let what = ["-p", "plimsoll-broker", "--bin", "plimsolld"];
            cargo::build(Path::new(env!("CARGO_MANIFEST_DIR")), &what);
        }
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(program);
        command.arg("--directory").arg(directory.path());
        command.arg("--budget").arg(budget.to_string());
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let process = Ended(command.spawn().expect("the broker starts"));
        let broker = Broker {
            _process: process,
            directory,
        };
        until("the broker answers", || {
            Connection::open(&broker.socket(), PATIENCE).is_ok()
        });
        broker
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("broker.sock")
    }

    fn socket(&self) -> Socket {
        Socket::at(self.path())
    }

    /// The machine with these arguments, as a principal of this broker.
    fn machine(&self, arguments: &str) -> Command {
        let mut command = machine(arguments);
        command.env("PLIMSOLL_SOCKET", self.path());
        command
    }

    /// Starts the machine itself, without `timeout`.
    fn run(&self, arguments: &str) -> Ended {
        let mut command = self.direct(arguments);
        Ended(command.spawn().expect("the machine starts"))
    }

    /// The machine itself, without `timeout`, so that its number is known.
    fn direct(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll-bench-vm"));
        command.args(arguments.split_whitespace());
        command
            .env_remove("PLIMSOLL_PAGE")
            .env_remove("PLIMSOLL_ID");
        command.env("PLIMSOLL_SOCKET", self.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// The principal with this process; `None` if there is none.
    fn shows(&self, pid: u32) -> Option<Principal> {
        let mut connection = Connection::open(&self.socket(), PATIENCE).ok()?;
        find(connection.list().ok()?.principals, pid)
    }
}

/// The principal with this process, anywhere in the tree: a group with a limit is one too.
fn find(principals: Vec<Principal>, pid: u32) -> Option<Principal> {
    principals.into_iter().find_map(|one| match one.pid {
        Some(its) if its == pid => Some(one),
        _ => find(one.children, pid),
    })
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The room of the program's group shrinks, again and again. Each time the broker's picture is too old
/// for a moment: the program keeps to its limit and waits for memory all the same.
#[test]
fn stalls_within_a_grant_are_told_to_the_broker() {
    let Ok(_swap) = SwapFile::new(Path::new(env!("CARGO_TARGET_TMPDIR")), Bytes::mib(384)) else {
        return skip("no swap of our own here");
    };
    let broker = Broker::start(1024 * MIB);
    for _ in 0..TRIES {
        let Ok(group) = TestCgroup::new("mmtk-trust", Some(Bytes::mib(192))) else {
            return skip("no memory cgroup of our own here");
        };
        if tells_its_stalls(&broker, &group) {
            return;
        }
    }
    skip("the kernel found no memory in the group and killed the program, each time");
}

/// Whether the broker hears of a program's stalls. False if the kernel kills the program before.
fn tells_its_stalls(broker: &Broker, group: &TestCgroup) -> bool {
    let heap = "--plan SemiSpace --heap isla-vista:160m --broker --threads 1 --workers 1";
    let mut command = broker.direct(&format!("{heap} live 12m {FOREVER}"));
    if children::enter(&mut command, group.cgroup()).is_err() {
        skip("a group of our own takes no processes");
        return true;
    }
    let program = Ended(command.spawn().expect("the machine starts"));
    let shown = || broker.shows(program.0.id());
    let killed = || group.killed() > 0;
    // Less than a stall in a second is shown as none, but the grant is doubted.
    let stalled = |one: &Principal| one.stall_rate > Some(0) || one.doubted;
    until("it fills its heap", || {
        killed() || shown().is_some_and(|one| one.uses > 100 * MIB)
    });
    let mut told = None;
    let mut room = [64 * MIB, 192 * MIB].into_iter().cycle();
    until("it reports stalls", || {
        // The kernel may refuse while it cannot page fast enough.
        let _ = group.cgroup().set_limit(room.next().map(Bytes));
        std::thread::sleep(Duration::from_millis(700));
        told = shown();
        killed() || told.as_ref().is_some_and(stalled)
    });
    let Some(told) = told.filter(stalled) else {
        return false;
    };
    assert_eq!(told.adapter.as_deref(), Some("mmtk"));
    true
}

#[test]
fn a_program_without_stalls_says_that_it_has_none() {
    let broker = Broker::start(256 * MIB);
    let program = broker.run(&format!("--heap isla-vista:64m --broker live 8m {FOREVER}"));
    until("it reports", || {
        let shown = broker.shows(program.0.id());
        shown.is_some_and(|one| one.collections > Some(0) && one.stall_rate == Some(0))
    });
}

#[test]
fn what_a_program_had_that_dies_in_a_collection_is_another_ones() {
    for plan in ["SemiSpace", "GenImmix"] {
        let broker = Broker::start(256 * MIB);
        let arguments = format!("--plan {plan} --heap isla-vista:256m --broker");
        let other = broker.run(&format!("{arguments} live 16m {FOREVER}"));
        let mut dying = broker.direct(&format!("{arguments} --die 20 live 16m {FOREVER}"));
        dying.stderr(Stdio::null());
        let mut dying = Ended(dying.spawn().expect("the machine starts"));
        let limit = |of: &Ended| broker.shows(of.0.id()).map_or(0, |one| one.limit);
        let status = dying.0.wait().expect("it is ours");
        assert!(!status.success(), "{plan}: {status}");
        until("it is gone", || broker.shows(dying.0.id()).is_none());
        until("the other one has all", || limit(&other) > 200 * MIB);
    }
}

/// It cannot give anything back; so the other one gets what is left, until it is killed.
#[test]
fn a_program_that_hangs_in_a_collection_keeps_what_it_has_and_no_more() {
    let broker = Broker::start(256 * MIB);
    let arguments = "--plan Immix --heap isla-vista:256m --broker";
    let mut command = broker.direct(&format!("{arguments} --hang 3 live 16m {FOREVER}"));
    command.stdout(Stdio::piped());
    let mut hanging = Ended(command.spawn().expect("the machine starts"));
    let mut said = String::new();
    let output = hanging.0.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut said).expect("a line");
    assert_eq!(said, "hangs\n");
    let uses = || broker.shows(hanging.0.id()).map_or(0, |one| one.uses);
    until("it uses more than its half", || uses() > 128 * MIB);
    let other = broker.run(&format!("{arguments} live 16m {FOREVER}"));
    let shown = |of: &Ended| broker.shows(of.0.id());
    until("the one that hangs owes", || {
        shown(&hanging).is_some_and(|one| one.owed > 0)
    });
    until("the other one works", || {
        shown(&other).is_some_and(|one| one.collections > Some(5))
    });
    let (one, two) = (shown(&hanging), shown(&other));
    let both = one.map_or(0, |one| one.uses) + two.map_or(0, |one| one.uses);
    assert!(both < 256 * MIB + 16 * MIB, "{both}");
    assert!(hanging.0.try_wait().expect("it is ours").is_none());
    hanging.0.kill().expect("it is ours");
    hanging.0.wait().expect("it is ours");
    until("the other one has all", || {
        shown(&other).is_some_and(|one| one.limit > 200 * MIB)
    });
}

#[test]
fn a_grant_below_what_lives_slows_a_program_and_does_not_stop_it() {
    for plan in ["SemiSpace", "GenCopy", "Immix", "StickyImmix"] {
        let broker = Broker::start(40 * MIB);
        let arguments = format!("--plan {plan} --heap isla-vista:256m --broker live 48m 60000");
        let told = told(&output(broker.machine(&arguments)), &arguments);
        assert_eq!(number(&told, "/said/checked"), 60_000 * 4 * 30, "{plan}");
        assert_eq!(number(&told, "/out_of_memory"), 0, "{plan}");
        assert!(number(&told, "/figures/collections") > 3, "{plan}: {told}");
        let limit = number(&told, "/figures/limit");
        assert!(limit < 200 * MIB, "{plan}: the limit is {limit}");
    }
}
