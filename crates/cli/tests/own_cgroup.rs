//! A cgroup of its own for each program: made by `plimsoll run` under version 2, which virtual machines have,
//! and by the broker under version 1.

mod common;

use common::older_broker::OlderBroker;
use common::{Place, Started, wait_for};
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_testbed::{SwapFile, TestCgroup, skip};
use plimsoll_unit::Bytes;
use std::path::Path;

/// The cgroup of a process.
fn cgroup_of(pid: u32) -> Cgroup {
    Cgroup::of(pid as i32).unwrap().expect("a memory cgroup")
}

fn name_of(cgroup: &Cgroup) -> String {
    cgroup
        .dir()
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

/// The cgroup of its own that a process is in.
fn own_cgroup_of(pid: u32) -> Cgroup {
    wait_for("it has a cgroup of its own", || {
        let found = cgroup_of(pid);
        let made = match found.version() {
            Version::V2 => name_of(&found).starts_with("plimsoll-run-"),
            Version::V1 => found
                .dir()
                .parent()
                .is_some_and(|above| above.ends_with("plimsoll")),
        };
        made.then_some(found)
    })
}

#[test]
fn a_program_has_one_from_its_start_to_its_end() {
    let place = Place::new();
    let mut run = place.start(&[
        "run",
        "sh",
        "-c",
        "cat /proc/self/cgroup > first; exec sleep 600",
    ]);
    let pid = place.attached("sh").pid.unwrap();
    let own = own_cgroup_of(pid);
    let name = name_of(&own);
    let first = wait_for("it has started", || {
        let first = std::fs::read_to_string(place.path("first"));
        first.ok().filter(|text| !text.is_empty())
    });
    if own.version() == Version::V2 {
        assert!(
            first.contains(&name),
            "{first}: not there before its first instruction"
        );
    }
    // We are not in it: its limit is the program's alone.
    let mut members = Vec::new();
    assert!(own.processes(100, &mut members).unwrap());
    assert!(!members.contains(&(run.0.id() as i32)), "{members:?}");
    wait_for("the broker knows it", || {
        let state = std::fs::read_to_string(place.path("b/state.json")).ok()?;
        state.contains(&name).then_some(())
    });
    run.signal(libc::SIGTERM);
    run.wait();
    wait_for("it is removed", || (!own.dir().exists()).then_some(()));
}

#[test]
fn what_a_killed_run_left_goes_with_the_next_one() {
    let place = Place::new();
    let mut run = place.start(&["run", "sleep", "600"]);
    let pid = place.attached("sleep").pid.unwrap();
    let own = own_cgroup_of(pid);
    run.signal(libc::SIGKILL);
    run.wait();
    assert!(common::alive(pid), "a program outlives its `plimsoll run`");
    common::signal_to(pid, libc::SIGKILL);
    wait_for("it has ended", || (!common::alive(pid)).then_some(()));
    let _ = place.known(&["run", "true"]);
    wait_for("it is removed", || (!own.dir().exists()).then_some(()));
}

/// The bound of the outer program moves; it is no limit of the inner one, which shares what the outer one may
/// have, by the broker.
#[test]
fn one_within_another_has_its_own_beside_that_and_counts_below_it() {
    let place = Place::new();
    let script = "while ! [ -e go ]; do sleep 0.1; done; exec \"$0\" run -n inner sleep 600";
    let mut run = place.start(&["run", "-n", "outer", "sh", "-c", script, common::OWN]);
    let outer = place.attached("outer");
    let around = own_cgroup_of(outer.pid.unwrap());
    if around.version() == Version::V2 {
        around.set_high(Some(Bytes::mib(512))).unwrap();
    }
    place.write("go", "");
    let inner = place.attached("inner");
    let own = own_cgroup_of(inner.pid.unwrap());
    // Under version 1 the broker makes none within another one.
    if own.version() == Version::V2 {
        assert_ne!(own.dir(), around.dir());
        assert!(
            !own.dir().starts_with(around.dir()),
            "{}",
            own.dir().display()
        );
        // The outer program is `plimsoll run` itself by now, and stays where it is bounded.
        let outer = cgroup_of(outer.pid.unwrap());
        assert_eq!(outer.dir(), around.dir());
    }
    let outer = place.principal("outer").unwrap();
    assert!(
        outer.children.iter().any(|below| below.id == inner.id),
        "{outer:?}"
    );
    assert_eq!(
        place.listing().unwrap().principals.len(),
        1,
        "no group for the bound"
    );
    run.signal(libc::SIGTERM);
    run.wait();
    wait_for("both are removed", || {
        (!own.dir().exists() && !around.dir().exists()).then_some(())
    });
}

/// As the first process of a container.
#[test]
fn doctor_in_a_cgroup_of_its_own_leaves_it_as_it_was() {
    let Ok(ground) = TestCgroup::new("doctor", None) else {
        return skip("no cgroup of our own here");
    };
    let place = Place::new();
    let dir = ground.cgroup().dir().display();
    let script = format!("echo $$ >{dir}/cgroup.procs && exec \"$0\" doctor");
    let doctor = place.program("sh", &["-c", &script, common::OWN]).output();
    let doctor = doctor.unwrap();
    assert!(!doctor.stdout.is_empty(), "{doctor:?}");
    let left = std::fs::read_dir(ground.cgroup().dir()).unwrap().flatten();
    let left = left.filter(|entry| entry.file_type().unwrap().is_dir());
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    if ground.cgroup().version() == Version::V2 {
        let handed = ground.cgroup().dir().join("cgroup.subtree_control");
        assert_eq!(std::fs::read_to_string(handed).unwrap().trim(), "");
    }
}

/// The broker cannot be started again: its directory is taken.
#[test]
fn a_bound_whose_broker_is_gone_for_good_is_lifted() {
    let place = Place::new();
    let mut run = place.start(&["run", "sleep", "600"]);
    let pid = place.attached("sleep").pid.unwrap();
    let own = own_cgroup_of(pid);
    // Under version 1 no bound stays.
    if own.version() == Version::V1 {
        return;
    }
    wait_for("the broker knows it", || {
        let state = std::fs::read_to_string(place.path("b/state.json")).ok()?;
        state.contains(&name_of(&own)).then_some(())
    });
    let broker = place.listing().unwrap().pid;
    std::fs::rename(place.path("b"), place.path("was")).unwrap();
    place.write("b", "");
    common::signal_to(broker, libc::SIGKILL);
    wait_for("it has ended", || (!common::alive(broker)).then_some(()));
    own.set_high(Some(Bytes::mib(64))).unwrap();
    wait_for("it is lifted", || {
        own.high().unwrap().is_none().then_some(())
    });
    run.signal(libc::SIGTERM);
    run.wait();
}

/// The program runs, and is counted.
#[test]
fn a_broker_that_does_not_know_how_to_bound_a_cgroup_counts_it() {
    let place = Place::new();
    let _first = place.start(&["run", "-n", "first", "sleep", "600"]);
    place.attached("first");
    let older = OlderBroker::without("Contain", &place.socket(), place.path("older"));
    let mut command = place.command(&["run", "-v", "-n", "second", "sleep", "600"]);
    command.env("PLIMSOLL_SOCKET", older.socket());
    command.stderr(std::fs::File::create(place.path("said")).unwrap());
    let mut run = Started(command.spawn().unwrap());
    let own = own_cgroup_of(place.attached("second").pid.unwrap());
    wait_for("it is counted", || {
        place.principal("second").filter(|second| second.uses > 0)
    });
    if own.version() == Version::V2 {
        wait_for("it is told", || {
            let said = std::fs::read_to_string(place.path("said")).unwrap();
            said.contains("cannot bound").then_some(())
        });
    }
    run.signal(libc::SIGTERM);
    run.wait();
    wait_for("it is removed", || (!own.dir().exists()).then_some(()));
}

/// The next `plimsoll run` finds a bound that no broker knows.
#[test]
fn a_bound_that_everything_of_ours_left_is_lifted_by_the_next_run() {
    let place = Place::new();
    let mut run = place.start(&["run", "sleep", "600"]);
    let pid = place.attached("sleep").pid.unwrap();
    let own = own_cgroup_of(pid);
    let broker = place.listing().unwrap().pid;
    run.signal(libc::SIGKILL);
    run.wait();
    common::signal_to(broker, libc::SIGKILL);
    wait_for("it has ended", || (!common::alive(broker)).then_some(()));
    std::fs::remove_dir_all(place.path("b")).unwrap();
    if own.version() == Version::V2 {
        own.set_high(Some(Bytes::mib(64))).unwrap();
        let _ = place.known(&["run", "true"]);
        assert_eq!(own.high().unwrap(), None);
    }
    assert!(common::alive(pid));
    common::signal_to(pid, libc::SIGKILL);
    wait_for("it has ended", || (!common::alive(pid)).then_some(()));
    let _ = place.known(&["run", "true"]);
    if own.version() == Version::V2 {
        assert!(!own.dir().exists());
    }
}

/// A program without an adapter outgrows its share in a budget while a stranger takes memory. Memory is taken
/// from the debtor by its own cgroup, and not from its neighbour, who is of the same size and within its
/// share.
#[test]
fn only_the_debtor_pays() {
    let Ok(_swap) = SwapFile::new(Path::new(env!("CARGO_TARGET_TMPDIR")), Bytes::mib(512)) else {
        return skip("no swap of our own here");
    };
    let place = Place::new();
    let own = std::env::current_exe().unwrap().display().to_string();
    let program = |name: &str, kind: &str, weight: u32, line: &str| {
        let weight = if kind == "program" {
            format!("weight={weight}\n")
        } else {
            String::new()
        };
        format!(
            "[[{kind}]]\nname='{name}'\nstdout='{name}.out'\n{weight}\
             command='{own} --exact program --nocapture'\nenv={{ {PROGRAM}='{line}' }}\n"
        )
    };
    let text = [
        "budget='256M'\n".to_owned(),
        program("debtor", "program", 10, "hog --bytes 96M"),
        program(
            "neighbour",
            "program",
            100,
            "touch --bytes 48M --part 1.0 --every 20",
        ),
        program("stranger", "outsider", 0, "hog --bytes 130M --rate 10M"),
    ];
    place.write("p.toml", &text.concat());
    let mut run = place.start(&["run", "-f", "p.toml"]);
    let group = |name: &str| cgroup_of(place.attached(name).pid.unwrap());
    let (debtor, neighbour) = (group("debtor"), group("neighbour"));
    wait_for("the debtor pays", || {
        (debtor.swapped().unwrap() >= Bytes::mib(8)).then_some(())
    });
    let (paid, other) = (debtor.swapped().unwrap(), neighbour.swapped().unwrap());
    assert!(
        other < Bytes::mib(2),
        "the neighbour lost {other:?}, the debtor {paid:?}"
    );
    run.signal(libc::SIGTERM);
    run.wait();
    assert!(!debtor.dir().exists() && !neighbour.dir().exists());
}

/// Says what the program of a test does.
const PROGRAM: &str = "PLIMSOLL_TEST_PROGRAM";

/// Is a program of [`only_the_debtor_pays`] if the environment says so.
#[test]
fn program() {
    if let Ok(line) = std::env::var(PROGRAM) {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        plimsoll_testbed::programs::run(&words);
    }
}

mod guest {
    use std::path::Path;

    const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

    #[test]
    fn under_version_2() {
        let program = Path::new(env!("CARGO_BIN_EXE_plimsoll"));
        plimsoll_testbed::guest::run_under_version_2(
            "guest-own-cgroup",
            Path::new(SCRATCH),
            "",
            &[program],
        );
    }

    #[test]
    fn in_user_mode() {
        plimsoll_testbed::guest::run_in_user_mode("user-own-cgroup", Path::new(SCRATCH), "");
    }
}
