//! `plimsoll run -f`: several programs under one budget.

mod common;

use common::{Place, Started, alive, signal_to, stderr, wait_for};
use plimsoll_cli::run::many::GRACE;
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_testbed::{TestCgroup, skip};
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Kind;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// The memory cgroup of a process, if `plimsoll run` made it.
fn cgroup_of(pid: u32) -> Option<PathBuf> {
    let dir = Cgroup::of(pid as i32).ok()??.dir().to_owned();
    let made = dir.ancestors().find(|dir| {
        dir.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("plimsoll-run-"))
    });
    made.map(PathBuf::from)
}

const THREE: &str = r#"
name = "three"
budget = "200M"
weight = 30
[[program]]
name = "first"
command = "sh -c 'until [ -e go ]; do sleep 0.1; done; exit 3'"
weight = 10
[[program]]
name = "second"
command = ["sh", "-c", "echo $GREETING; pwd; echo bad >&2; until [ -e $GO ]; do sleep 0.1; done"]
weight = 40
start = "200ms"
env = { GREETING = "hello", GO = "@PLACE@/go" }
cwd = "/"
stdout = "second.out"
stderr = "second.err"
[[program]]
name = "third"
command = "sh -c 'until [ -e go ]; do sleep 0.1; done'"
weight = 20
start = 0.4
[[outsider]]
name = "stranger"
command = "sh -c 'echo $$ > stranger.pid; exec sleep 600'"
"#;

#[test]
fn three_programs_share_a_budget_and_leave_nothing_behind() {
    let place = Place::new();
    let here = place.path("").display().to_string();
    place.write(
        "three.toml",
        &THREE.replace("@PLACE@", here.trim_end_matches('/')),
    );
    let mut run = place.start(&[
        "run",
        "-f",
        "three.toml",
        "--record",
        "r.jsonl",
        "--interval",
        "200",
    ]);
    let pids = ["first", "second", "third"].map(|name| place.attached(name).pid.unwrap());
    let group = place.principal("three").unwrap();
    assert_eq!((group.kind, group.weight), (Kind::Group, 30));
    let weight = |name: &str| {
        let child = group.children.iter().find(|p| p.name == name);
        child.unwrap().weight
    };
    assert_eq!(["first", "second", "third"].map(weight), [10, 40, 20]);
    assert!(group.children.iter().map(|p| p.limit).sum::<u64>() <= 200 << 20);
    let read = || {
        std::fs::read_to_string(place.path("stranger.pid"))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let stranger: u32 = wait_for("the outsider runs", read);
    let cgroup = cgroup_of(stranger);
    match &cgroup {
        Some(dir) => {
            assert!(
                pids.iter()
                    .all(|&pid| cgroup_of(pid).as_deref() == Some(dir))
            );
            // Without swap the limit is a quarter above the budget.
            let limit = Cgroup::at(dir).unwrap().limit().unwrap();
            assert!(
                limit == Some(Bytes(200 << 20)) || limit == Some(Bytes(250 << 20)),
                "{limit:?}"
            );
        }
        None => println!("not checked: no cgroup can be made here, the budget is advisory"),
    }
    wait_for("some of it is recorded", || {
        let text = std::fs::read_to_string(place.path("r.jsonl")).unwrap_or_default();
        (text.matches("\"principals\"").count() > 5).then_some(())
    });
    place.write("go", "");
    assert_eq!(run.wait().code(), Some(3), "the worst status");
    assert!(pids.iter().all(|&pid| !alive(pid)) && !alive(stranger));
    assert!(cgroup.is_none_or(|dir| !dir.exists()));
    assert_eq!(
        std::fs::read_to_string(place.path("second.out")).unwrap(),
        "hello\n/\n"
    );
    assert_eq!(
        std::fs::read_to_string(place.path("second.err")).unwrap(),
        "bad\n"
    );
    wait_for("all left", || {
        place.listing().filter(|l| l.principals.is_empty())
    });
    check_record(&std::fs::read_to_string(place.path("r.jsonl")).unwrap());
}

mod guest {
    use std::path::Path;

    /// Runs the tests that make cgroups once more, in a virtual machine with cgroup version 2. Takes about
    /// half a minute.
    #[test]
    fn a_budget_holds_under_version_2() {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let tests = "three_programs a_killed_broker a_unit what_outgrows";
        let program = Path::new(env!("CARGO_BIN_EXE_plimsoll"));
        plimsoll_testbed::guest::run_under_version_2("guest-cli", scratch, tests, &[program]);
    }
}

/// Starts `plimsoll` in a group with a limit and without other processes, as in a unit of a service
/// manager or in a container.
fn start_in_unit(place: &Place, unit: &Cgroup, args: &[&str]) -> Started {
    let procs = unit.dir().join("cgroup.procs").display().to_string();
    let own = env!("CARGO_BIN_EXE_plimsoll");
    let mut words = vec!["-c", "echo 0 > \"$0\" && exec \"$@\"", &procs, own];
    words.extend(args);
    let mut command = place.program("sh", &words);
    Started(command.spawn().unwrap())
}

#[test]
fn a_unit_binds_the_budget_of_what_runs_in_it() {
    let Ok(unit) = TestCgroup::new("cli-unit", Some(Bytes::mib(96))) else {
        return skip("no cgroup of our own here");
    };
    let place = Place::new();
    place.write(
        "p.toml",
        "budget='200M'\n[[program]]\nname='a'\ncommand='sleep 600'\n",
    );
    let bounds = |pid: u32| {
        let home = cgroup_of(pid).expect("a cgroup of the run's");
        let limit = Cgroup::at(&home).unwrap().limit().unwrap();
        (home.starts_with(unit.cgroup().dir()), limit.unwrap())
    };
    // The group was made for this run, so the group of the budget is made inside.
    let mut run = start_in_unit(&place, unit.cgroup(), &["run", "-f", "p.toml"]);
    let (inside, limit) = bounds(place.attached("a").pid.unwrap());
    assert!(inside && limit >= Bytes(200 << 20), "{inside}, {limit}");
    run.signal(libc::SIGTERM);
    run.wait();
    drop(place);
    // Another process is in the group too, so in version 2 the group of the budget is made beside it, with
    // its limit.
    let place = Place::new();
    place.write(
        "p.toml",
        "budget='200M'\n[[program]]\nname='a'\ncommand='sleep 600'\n",
    );
    let other = TestCgroup::new("cli-shared", Some(Bytes::mib(96))).unwrap();
    let stranger = Started(Command::new("sleep").arg("600").spawn().unwrap());
    other.cgroup().add(stranger.0.id() as i32).unwrap();
    let mut run = start_in_unit(&place, other.cgroup(), &["run", "-f", "p.toml"]);
    let home = cgroup_of(place.attached("a").pid.unwrap()).expect("a cgroup of the run's");
    let limit = Cgroup::at(&home).unwrap().limit().unwrap().unwrap();
    match other.cgroup().version() {
        Version::V1 => assert!(home.starts_with(other.cgroup().dir())),
        Version::V2 => assert!(limit <= Bytes(96 << 20), "{limit}"),
    }
    run.signal(libc::SIGTERM);
    run.wait();
}

fn lines_of(record: &str) -> Vec<serde_json::Value> {
    let lines = record.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn check_record(text: &str) {
    let lines = lines_of(text);
    let events = |event: &str, program: &str| {
        lines
            .iter()
            .filter(|l| l["event"] == event && l["program"] == program)
            .count()
    };
    for program in ["first", "second", "third", "stranger"] {
        assert_eq!(
            (events("started", program), events("ended", program)),
            (1, 1),
            "{program}"
        );
    }
    assert!(lines.iter().filter(|l| l["principals"].is_array()).count() > 5);
    assert!(
        lines
            .windows(2)
            .all(|two| two[0]["at_ms"].as_u64() <= two[1]["at_ms"].as_u64())
    );
}

#[test]
fn what_the_file_stops_ended_well() {
    let place = Place::new();
    place.write(
        "p.toml",
        "[[program]]\nname='stopped'\ncommand='sleep 600'\nstop='1s'\n\
         [[program]]\nname='other'\ncommand='sh -c \"exit 3\"'\n",
    );
    let output = place.call(&["run", "-f", "p.toml", "--record", "r.jsonl"]);
    assert_eq!(output.status.code(), Some(3), "the worst status");
    let record = std::fs::read_to_string(place.path("r.jsonl")).unwrap();
    let lines = lines_of(&record);
    let ended = lines
        .iter()
        .find(|line| line["event"] == "ended" && line["program"] == "stopped");
    assert_eq!(ended.unwrap()["status"], 0);
}

#[test]
fn an_interrupt_ends_all_programs() {
    let place = Place::new();
    place.write(
        "p.toml",
        "[[program]]\nname='a'\ncommand='sleep 600'\n[[program]]\nname='b'\ncommand='sleep 600'\n\
         [[program]]\nname='late'\ncommand='sleep 600'\nstart='600s'\n",
    );
    let mut run = place.start(&["run", "-f", "p.toml"]);
    let pids = ["a", "b"].map(|name| place.attached(name).pid.unwrap());
    run.signal(libc::SIGINT);
    assert_eq!(run.wait().code(), Some(143));
    assert!(pids.iter().all(|&pid| !alive(pid)));
}

#[test]
fn a_second_interrupt_kills_what_will_not_end() {
    let place = Place::new();
    let stubborn = "sh -c \"trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done\"";
    place.write(
        "p.toml",
        &format!("[[program]]\nname='stubborn'\ncommand='''{stubborn}'''\nstdout='out'\n"),
    );
    let mut run = place.start(&["run", "-f", "p.toml"]);
    let pid = place.attached("stubborn").pid.unwrap();
    let said = |text: &str| {
        let out = std::fs::read_to_string(place.path("out")).unwrap_or_default();
        (out == text).then_some(())
    };
    wait_for("it is up", || said("up\n"));
    run.signal(libc::SIGTERM);
    let asked = Instant::now();
    wait_for("it was asked to end", || said("up\nasked\n"));
    assert!(alive(pid) || asked.elapsed() > GRACE / 2);
    run.signal(libc::SIGTERM);
    assert_eq!(run.wait().code(), Some(137));
    assert!(!alive(pid));
}

/// A script that notes its start and each request to end, but goes on.
const STUBBORN: &str = "trap 'echo asked > asked' TERM\necho $$ > number\nmv number stubborn.pid\n\
                        while :; do sleep 0.05; done\n";

/// Runs a file with one program, which starts [`STUBBORN`] and waits for it.
fn run_with_stubborn_child(place: &Place) -> Started {
    place.write("stubborn.sh", STUBBORN);
    place.write(
        "p.toml",
        "[[program]]\nname='first'\ncommand='sh -c \"sh stubborn.sh & wait\"'\n",
    );
    place.start(&["run", "-f", "p.toml"])
}

/// The id of the process that runs [`STUBBORN`].
fn stubborn(place: &Place) -> u32 {
    let number = || {
        let text = std::fs::read_to_string(place.path("stubborn.pid")).ok()?;
        text.trim().parse().ok()
    };
    wait_for("the stubborn child is up", number)
}

#[test]
fn an_interrupt_ends_what_a_program_started_too() {
    let place = Place::new();
    let mut run = run_with_stubborn_child(&place);
    let first = place.attached("first").pid.unwrap();
    let child = stubborn(&place);
    run.signal(libc::SIGINT);
    let asked = Instant::now();
    wait_for("both were asked to end, and the first did", || {
        (place.path("asked").exists() && !alive(first)).then_some(())
    });
    assert!(alive(child) || asked.elapsed() > GRACE / 2, "it has time");
    run.signal(libc::SIGINT);
    assert_eq!(run.wait().code(), Some(143), "how the first ended");
    assert!(!alive(child));
}

#[test]
fn what_is_left_of_a_program_is_killed_when_the_grace_is_over() {
    let place = Place::new();
    let mut run = run_with_stubborn_child(&place);
    let child = stubborn(&place);
    run.signal(libc::SIGTERM);
    assert_eq!(run.wait().code(), Some(143), "how the first ended");
    assert!(place.path("asked").exists() && !alive(child));
}

#[test]
fn what_a_program_still_does_when_it_is_stopped_is_waited_for() {
    let place = Place::new();
    let script = "trap 'sleep 0.5; touch cleaned; exit' TERM\ntouch up\n\
                  while :; do sleep 0.05; done\n";
    place.write("tidy.sh", script);
    place.write(
        "p.toml",
        "[[program]]\nname='first'\ncommand='sh -c \"sh tidy.sh & wait\"'\n",
    );
    let mut run = place.start(&["run", "-f", "p.toml"]);
    wait_for("its child is up", || {
        place.path("up").exists().then_some(())
    });
    run.signal(libc::SIGTERM);
    assert_eq!(run.wait().code(), Some(143), "how the first ended");
    assert!(place.path("cleaned").exists());
}

#[test]
fn a_program_that_ends_by_itself_may_leave_others() {
    let place = Place::new();
    place.write("stubborn.sh", STUBBORN);
    let first = "sh stubborn.sh & until [ -e stubborn.pid ]; do sleep 0.05; done; exit 4";
    place.write(
        "p.toml",
        &format!("[[program]]\nname='first'\ncommand='sh -c \"{first}\"'\n"),
    );
    let mut run = place.start(&["run", "-f", "p.toml"]);
    assert_eq!(run.wait().code(), Some(4));
    let child = stubborn(&place);
    assert!(alive(child) && !place.path("asked").exists());
    signal_to(child, libc::SIGKILL);
}

#[test]
fn a_killed_broker_gets_its_group_and_members_back() {
    let place = Place::new();
    place.write(
        "p.toml",
        "name='pair'\nbudget='100M'\n[[program]]\nname='a'\nweight=10\ncommand='sleep 600'\n\
         [[program]]\nname='b'\ncommand='sleep 600'\n",
    );
    let mut run = place.start(&["run", "-f", "p.toml"]);
    let pids = ["a", "b"].map(|name| place.attached(name).pid);
    let first = place.listing().unwrap().pid;
    signal_to(first, libc::SIGKILL);
    let back = || {
        let pair = place.principal("pair")?;
        let there = pair
            .children
            .iter()
            .filter(|p| pids.contains(&p.pid))
            .count()
            == 2;
        (there && place.listing()?.pid != first).then_some(pair)
    };
    let pair = wait_for("the group and its members are back", back);
    assert_eq!(
        pair.children.iter().find(|p| p.name == "a").unwrap().weight,
        10
    );
    run.signal(libc::SIGTERM);
    run.wait();
}

#[test]
fn programs_that_do_not_start_count_and_stop_nobody() {
    let place = Place::new();
    place.write(
        "p.toml",
        "[[program]]\nname='no'\ncommand='plimsoll-no-such-program'\n\
         [[program]]\nname='yes'\ncommand='sh -c \"sleep 0.3; echo did it\"'\nstdout='out'\n",
    );
    let output = place.call(&["run", "-f", "p.toml"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("no: plimsoll-no-such-program: not found"));
    assert_eq!(
        std::fs::read_to_string(place.path("out")).unwrap(),
        "did it\n"
    );
}

#[test]
fn a_bad_file_runs_nothing() {
    let place = Place::new();
    place.write(
        "p.toml",
        "[[program]]\nname='a'\ncommand='touch here'\nweight=0\n",
    );
    let output = place.call(&["run", "-f", "p.toml"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("program `a`: weight 0 is out of range"));
    assert!(!place.path("here").exists() && place.listing().is_none());
}

const PROGRAM: &str = "PLIMSOLL_TEST_PROGRAM";

/// This checks nothing: the test below starts this binary again with [`PROGRAM`] set, to run a program.
#[test]
fn program() {
    if let Ok(line) = std::env::var(PROGRAM) {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        plimsoll_testbed::programs::run(&arguments);
    }
}

/// Where nothing can be paged out, a program that grows beyond its budget is slowed and not killed
/// (version 2; the guest has no swap). It reaches its size even without a broker.
#[test]
fn what_outgrows_a_budget_without_swap_goes_on_when_the_broker_is_killed() {
    let place = Place::new();
    let own = std::env::current_exe().unwrap().display().to_string();
    place.write(
        "p.toml",
        &format!(
            "budget='64M'\n[[program]]\nname='a'\nstdout='out'\nadapter='none'\n\
             command='{own} --exact program --nocapture'\n\
             env={{ {PROGRAM}='hog --bytes 75M --rate 20M' }}\n"
        ),
    );
    let mut run = place.start(&["run", "-f", "p.toml"]);
    let pid = place.attached("a").pid.unwrap();
    let group = Cgroup::at(&cgroup_of(pid).expect("a cgroup of the run's")).unwrap();
    let slowed = || group.events().unwrap().high > 0;
    wait_for("it has come to its budget", || {
        let there = match group.version() {
            Version::V1 => group.usage().unwrap() > Bytes(60 << 20),
            Version::V2 => slowed(),
        };
        there.then_some(())
    });
    signal_to(place.listing().unwrap().pid, libc::SIGKILL);
    wait_for("it has all of it", || {
        let said = std::fs::read_to_string(place.path("out")).ok()?;
        said.contains("\"holding\":true").then_some(())
    });
    assert!(alive(pid));
    assert_eq!(group.events().unwrap().oom_kill, 0);
    assert_eq!(slowed(), group.version() == Version::V2);
    run.signal(libc::SIGTERM);
    run.wait();
}

#[test]
fn one_line_tells_of_the_start_of_each_end_and_of_all() {
    let place = Place::new();
    let program = |name: &str, status: u8| {
        format!("[[program]]\nname = '{name}'\ncommand = \"sh -c 'exit {status}'\"\n")
    };
    place.write("p.toml", &(program("well", 0) + &program("ill", 3)));
    let output = place.known(&["run", "-f", "p.toml"]);
    let said = stderr(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[0],
        "plimsoll: 2 programs started; `plimsoll top` shows them"
    );
    for end in [
        "well ended with status 0 after ",
        "ill ended with status 3 after ",
    ] {
        assert_eq!(said.matches(end).count(), 1, "{said}");
    }
    assert!(lines[3].contains(": 1 with status 0, ill with 3"), "{said}");
    assert_eq!(lines.len(), 4, "{said}");
    let quiet = place.known(&["run", "-q", "-f", "p.toml"]);
    assert_eq!(
        (stderr(&quiet), quiet.status.code()),
        (String::new(), Some(3))
    );
    assert_eq!(
        place.call(&["run", "-q", "-v", "true"]).status.code(),
        Some(2)
    );
}
