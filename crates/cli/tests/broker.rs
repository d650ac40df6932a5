//! Brokers that start and end while programs run, and programs that are adopted.

mod common;

use common::{Place, Started, alive, signal_to, stderr, wait_for};
use plimsoll_cli::own_broker::IDLE_EXIT;
use plimsoll_client::{Connection, Socket};
use plimsoll_runtimes::adapter_lock::AdapterLock;
use plimsoll_runtimes::process::Process;
use plimsoll_testbed::Leaderless;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn sleeper() -> Started {
    Started(Command::new("sleep").arg("600").spawn().unwrap())
}

#[test]
fn a_killed_broker_costs_nobody_anything_and_comes_back() {
    let place = Place::new();
    let mut run = place.start(&["run", "-w", "40", "-n", "survivor", "sleep", "600"]);
    let before = place.attached("survivor");
    place.text(&["set", "survivor", "-w", "55"]);
    let first = place.listing().unwrap().pid;
    signal_to(first, libc::SIGKILL);
    let other = || place.listing().filter(|listing| listing.pid != first);
    wait_for("another broker", other);
    let after = place.attached("survivor");
    assert_eq!(after.pid, before.pid);
    assert!(alive(after.pid.unwrap()));
    run.signal(libc::SIGTERM);
    assert_eq!(run.wait().code(), Some(143));
}

#[test]
fn the_broker_is_nobodys_zombie_and_leaves_by_itself() {
    let place = Place::new();
    let mut run = place.start(&["run", "-n", "last", "sleep", "600"]);
    place.attached("last");
    let broker = place.listing().unwrap().pid;
    let children = format!("/proc/{0}/task/{0}/children", run.0.id());
    let children = std::fs::read_to_string(children).unwrap();
    assert_eq!(
        children.split_whitespace().count(),
        1,
        "only the program is our child: {children}"
    );
    let ended = Instant::now();
    run.signal(libc::SIGTERM);
    run.wait();
    let waits = alive(broker);
    assert!(
        waits || ended.elapsed() > IDLE_EXIT / 2,
        "it waits some seconds"
    );
    wait_for("the broker leaves", || (!alive(broker)).then_some(()));
    wait_for("its socket is gone", || {
        (!place.socket().exists()).then_some(())
    });
    assert_eq!(
        place.call(&["run", "true"]).status.code(),
        Some(0),
        "another is started"
    );
}

/// After `pthread_exit` in `main` the kernel shows a process as it shows one that has ended.
#[test]
fn a_program_whose_first_thread_has_ended_is_counted_and_mapped() {
    let place = Place::new();
    let program = Leaderless::program(100 << 20);
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let words: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
    let _run = place.start(&[&["run", "-n", "leaderless", "--"], &words[..]].concat());
    let counted = wait_for("its memory is counted", || {
        let found = place.listing()?.principals.into_iter().next()?;
        (found.uses >= 100 << 20).then_some(found)
    });
    let map = place.text(&["map", &counted.pid.unwrap().to_string()]);
    assert!(map.contains("total"), "{map}");
    // It is found by its number too, whether `run` has begun to look after it or not.
    let log = place.path("adopt.log");
    let mut adopt = place.command(&["adopt", &counted.pid.unwrap().to_string()]);
    adopt.stderr(std::fs::File::create(&log).unwrap());
    let mut adopt = Started(adopt.stdout(Stdio::null()).spawn().unwrap());
    let said = wait_for("adopt takes it, or says why not", || {
        let has_ended = adopt.0.try_wait().unwrap().is_some();
        let said = std::fs::read_to_string(&log).unwrap();
        (has_ended || said.contains("is adopted")).then_some(said)
    });
    assert!(!said.contains("no process"), "{said}");
}

#[test]
fn two_sockets_in_one_folder_are_two_brokers() {
    let place = Place::new();
    let at = |name: &str| {
        let mut command = place.command(&["run", "-n", name, "--"]);
        command.arg(env!("CARGO_BIN_EXE_plimsoll")).arg("ps");
        command.env("PLIMSOLL_SOCKET", place.path(&format!("b/{name}.sock")));
        command
    };
    let first = place.path("b/first.sock").display().to_string();
    let mut run = place.command(&["run", "-n", "first", "sleep", "600"]);
    run.env("PLIMSOLL_SOCKET", &first);
    let _run = Started(run.stdout(Stdio::null()).spawn().unwrap());
    let socket = Socket::at(&first);
    wait_for("the first broker knows it", || {
        let listing = Connection::open(&socket, Duration::from_secs(10))
            .ok()?
            .list()
            .ok()?;
        (listing.principals.len() == 1).then_some(())
    });
    let second = common::until_known(|| at("second"));
    let table = String::from_utf8_lossy(&second.stdout);
    assert!(
        table.contains("second") && !table.contains("first"),
        "{table}"
    );
    assert!(
        !stderr(&second).contains("already serves"),
        "{}",
        stderr(&second)
    );
}

#[test]
fn many_at_once_start_one_broker() {
    let place = Place::new();
    let mut runs: Vec<Started> = (0..8)
        .map(|i| place.start(&["run", "-n", &format!("p{i}"), "sleep", "600"]))
        .collect();
    let all = || {
        place
            .listing()
            .filter(|listing| listing.principals.len() == 8)
    };
    wait_for("all joined one broker", all);
    for run in &mut runs {
        run.signal(libc::SIGTERM);
        assert_eq!(run.wait().code(), Some(143));
    }
}

#[test]
fn a_running_program_is_adopted_and_let_go() {
    let place = Place::new();
    let program = sleeper();
    let pid = program.0.id().to_string();
    let mut adoption = place.start(&["adopt", &pid, "-w", "33"]);
    let adopted = place.attached("sleep");
    assert_eq!((adopted.pid, adopted.weight), (Some(program.0.id()), 33));
    adoption.signal(libc::SIGINT);
    assert_eq!(adoption.wait().code(), Some(0));
    wait_for("it left", || {
        place.principal("sleep").is_none().then_some(())
    });
    assert!(alive(program.0.id()));
}

#[test]
fn adoption_in_the_background_ends_with_the_program() {
    let place = Place::new();
    let mut program = sleeper();
    let pid = program.0.id().to_string();
    let output = place.call(&["adopt", "-d", "-n", "mine", &pid]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(place.attached("mine").pid, Some(program.0.id()));
    program.signal(libc::SIGKILL);
    program.wait();
    wait_for("it left", || {
        place.principal("mine").is_none().then_some(())
    });
}

#[test]
fn a_program_that_somebody_steers_is_not_adopted() {
    let place = Place::new();
    let program = sleeper();
    let pid = program.0.id();
    // As another `plimsoll adopt` or `plimsoll run` would.
    let steered = Process::new(pid).unwrap();
    let hold = AdapterLock::of(&steered).unwrap();
    let words = pid.to_string();
    for args in [
        vec!["adopt", &words],
        vec!["adopt", "--policy", "isla-vista", &words],
        vec!["adopt", "-d", &words],
    ] {
        let output = place.call(&args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = stderr(&output);
        let by = format!(
            "process {pid} is steered by process {} already",
            std::process::id()
        );
        assert!(said.contains(&by), "{said}");
    }
    assert!(
        place.listing().is_none(),
        "no broker is started for nothing"
    );
    drop(hold);
    let output = place.call(&["adopt", "-d", &words]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_adopted_is_said() {
    let place = Place::new();
    let mut gone = sleeper();
    gone.signal(libc::SIGKILL);
    gone.wait();
    let pid = gone.0.id().to_string();
    for args in [vec!["adopt", &pid], vec!["adopt", "-d", &pid]] {
        let output = place.call(&args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(
            stderr(&output).contains("no process has the number"),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(place.call(&["adopt", "0"]).status.code(), Some(2));
    assert!(
        place.listing().is_none(),
        "no broker is started for nothing"
    );
}

#[test]
fn looking_starts_nothing_and_says_what_to_do() {
    let place = Place::new();
    for args in [
        vec!["ps"],
        vec!["top", "--once"],
        vec!["set", "x", "-w", "5"],
    ] {
        let output = place.call(&args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains("start a program with `plimsoll run`"));
    }
    assert!(place.call(&["top"]).status.code() == Some(2), "no terminal");
    let findings: serde_json::Value =
        serde_json::from_str(&place.text(&["doctor", "--json"])).unwrap();
    assert!(findings["broker"].is_null());
    assert!(findings["capabilities"].as_array().unwrap().len() > 5);
    assert!(place.text(&["doctor"]).contains("none answers"));
    assert!(place.listing().is_none());
}

#[test]
fn a_stranger_at_the_socket_is_no_broker_but_costs_nothing() {
    let place = Place::new();
    std::fs::create_dir(place.path("b")).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(place.socket()).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut &stream, b"SSH-2.0-nonsense\0");
        }
    });
    let mut command = place.command(&["run", "sh", "-c", "echo out; exit 4"]);
    let output = command.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(output.stdout, b"out\n");
    assert!(
        stderr(&output).contains("without a broker"),
        "{}",
        stderr(&output)
    );
}
