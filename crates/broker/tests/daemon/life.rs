//! How brokers and principals begin and end.

use crate::common::{Broker, Program, Sleeper, refused_start, until};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use serde_json::json;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

#[test]
fn a_principal_ends_with_its_connection_or_its_process() {
    let broker = Broker::start();
    let mut control = broker.connect();
    let gone = Program::register(&broker, "connection", json!({}));
    let Program {
        client,
        sleeper,
        id,
        page,
        ..
    } = gone;
    drop(client);
    until("it ended", || control.find(id).is_none());
    assert!(!page.exists());
    let again = Program::rejoin(&broker, "process", json!({}), sleeper);
    assert!(again.id > id, "numbers are not reused");
    let Program {
        sleeper,
        id,
        client: _client,
        ..
    } = again;
    drop(sleeper);
    until("it ended", || control.find(id).is_none());
}

#[test]
fn a_broker_that_ends_closes_its_socket_before_the_pages_and_unlocks_its_directory_last() {
    let mut broker = Broker::start();
    let program = Program::register(&broker, "program", json!({}));
    let page = program.page.file_name().expect("a number");
    let expected = [OsStr::new("broker.sock"), page, OsStr::new("broker.lock")];
    let watched = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("a watch");
    for folder in [broker.directory(), program.page.parent().expect("a folder")] {
        let events = WatchFlags::DELETE | WatchFlags::CLOSE_WRITE;
        inotify::add_watch(&watched, folder, events).expect("it is watched");
    }
    assert!(broker.leave());
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watched, &mut buffer);
    let mut order = Vec::new();
    while let Ok(event) = events.next() {
        let name = event.file_name().map_or(&b""[..], |name| name.to_bytes());
        let name = OsStr::from_bytes(name);
        let is_end = if name == "broker.lock" {
            event.events().contains(ReadFlags::CLOSE_WRITE)
        } else {
            event.events().contains(ReadFlags::DELETE)
        };
        if is_end && expected.contains(&name) {
            order.push(name.to_owned());
        }
    }
    assert_eq!(order, expected);
}

#[test]
fn a_number_given_to_another_process_is_not_mistaken() {
    let broker = Broker::start();
    let mut neighbour = Program::register(&broker, "neighbour", json!({}));
    let program = Program::register(&broker, "first", json!({}));
    let pid = program.sleeper.pid();
    // The broker is stopped while the process id is reused.
    broker.stop();
    let Program {
        client: _client,
        sleeper,
        id,
        ..
    } = program;
    drop(sleeper);
    let second = reuse(pid);
    broker.signal(libc::SIGCONT);
    let mut control = broker.connect();
    until("the first ended", || control.find(id).is_none());
    match second {
        None => println!("the number could not be had again here; what is left of the test passed"),
        Some(second) => {
            let mut second = Program::rejoin(&broker, "second", json!({}), second);
            assert_ne!(second.id, id);
            second.assert_unharmed();
        }
    }
    neighbour.assert_unharmed();
}

/// Tries to start a process with that process id.
fn reuse(pid: u32) -> Option<Sleeper> {
    for _ in 0..200 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let sleeper = Sleeper::start();
        if sleeper.pid() == pid {
            return Some(sleeper);
        }
    }
    None
}

#[test]
fn a_crash_costs_nobody_anything_and_weights_come_back() {
    let mut broker = Broker::start();
    let group = broker
        .connect()
        .call("Register", json!({"name": "shortlived", "kind": "group"}))
        .expect("a group");
    let mut parent = Program::register(&broker, "parent", json!({}));
    let mut child = Program::register(&broker, "child", json!({"parent": parent.id}));
    let (old_parent, old_child) = (parent.id, child.id);
    parent
        .client
        .call("Set", json!({"id": old_child, "weight": 40, "priority": 2}))
        .expect("a parent may");
    child
        .client
        .call("Set", json!({"id": old_parent, "weight": 300}))
        .expect("its user may");
    until("it is written", || {
        let state =
            std::fs::read_to_string(broker.directory().join("state.json")).unwrap_or_default();
        state.contains("\"weight\":40") && state.contains("\"weight\":300")
    });
    broker.crash_and_restart();
    assert!(child.read_page().is_none(), "the old page is gone");
    // The child rejoins first and names its parent by the old id.
    let mut child = Program::rejoin(
        &broker,
        "child",
        json!({"parent": old_parent}),
        child.sleeper,
    );
    assert!(child.id > old_child && child.id > group["id"].as_u64().unwrap_or(0));
    let mut parent = Program::rejoin(&broker, "parent", json!({"weight": 5}), parent.sleeper);
    let id = parent.id;
    let shown = parent.client.find(id).expect("listed");
    assert_eq!(shown["weight"], json!(300));
    assert_eq!(shown["children"][0]["id"], json!(child.id));
    assert_eq!(shown["children"][0]["weight"], json!(40));
    assert_eq!(shown["children"][0]["priority"], json!(2));
    // Old ids are still understood.
    parent
        .client
        .call("Set", json!({"id": old_child, "weight": 41}))
        .expect("it is known");
    parent.assert_unharmed();
    child.assert_unharmed();
}

#[test]
fn the_state_forgets_who_is_gone() {
    let mut broker = Broker::start();
    let gone = Program::register(&broker, "gone", json!({}));
    let stays = Program::register(&broker, "stays", json!({}));
    let path = broker.directory().join("state.json");
    let state = || std::fs::read_to_string(&path).unwrap_or_default();
    until("it is written", || {
        state().contains("\"gone\"") && state().contains("\"stays\"")
    });
    // The program ends while no broker runs.
    broker.signal(libc::SIGKILL);
    drop(gone);
    broker.crash_and_restart();
    until("it is forgotten", || !state().contains("\"gone\""));
    assert!(state().contains("\"stays\""), "it may come back");
    Program::rejoin(&broker, "stays", json!({}), stays.sleeper).assert_unharmed();
}

#[test]
fn children_belong_to_who_started_them() {
    let broker = Broker::start();
    // A shell that starts a program of its own.
    let mut shell = Command::new("sh")
        .args(["-c", "sleep 600 & echo $!; wait"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("sh starts");
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(shell.stdout.take().expect("a pipe")),
        &mut line,
    )
    .expect("a number");
    let inner: u32 = line.trim().parse().expect("a number");
    let mut outer = broker.connect();
    let above = outer
        .call("Register", json!({"name": "shell", "pid": shell.id()}))
        .expect("it is registered");
    let mut client = broker.connect();
    let below = client
        .call("Register", json!({"name": "inner", "pid": inner}))
        .expect("it is registered");
    let shown = outer
        .find(above["id"].as_u64().expect("a number"))
        .expect("listed");
    assert_eq!(shown["children"][0]["id"], below["id"]);
    assert_eq!(shown["page"], above["page"]);
    let process = rustix::process::Pid::from_raw(inner as i32).expect("a number");
    rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("it is ours");
    let _ = shell.wait();
}

#[test]
fn a_stale_socket_is_replaced_and_a_living_broker_is_not() {
    let mut broker = Broker::start();
    broker.crash_and_restart();
    let directory = broker.directory().display().to_string();
    let (code, said) = refused_start(&["--directory", &directory]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("already serves") && said.contains(&broker.pid().to_string()),
        "{said}"
    );
    let elsewhere = tempfile::tempdir().expect("a directory");
    let (code, said) = refused_start(&[
        "--directory",
        &elsewhere.path().join("run").display().to_string(),
        "--socket",
        &broker.socket().display().to_string(),
    ]);
    assert_eq!(code, Some(1));
    assert!(said.contains("already serves"), "{said}");
    Program::register(&broker, "p", json!({})).assert_unharmed();
}

#[test]
fn it_leaves_cleanly_and_when_nobody_needs_it() {
    let mut broker = Broker::start();
    let program = Program::register(&broker, "p", json!({}));
    assert!(broker.leave());
    assert!(!broker.socket().exists() && !program.page.exists() && !program.pressure.exists());
    let own = tempfile::tempdir().expect("a directory");
    let directory = own.path().join("run");
    let mut broker = Broker::start_alone_in(&directory, vec!["--idle-exit".into(), "1".into()]);
    let mut cleanly = None;
    until("it left", || {
        cleanly = broker.left();
        cleanly.is_some()
    });
    assert_eq!(cleanly, Some(true));
    assert!(directory.exists() && !broker.socket().exists());
    assert!(broker.log().contains("nobody is left"));
}

#[test]
fn a_broker_that_stood_still_goes_on() {
    let broker = Broker::start();
    let mut program = Program::register(&broker, "p", json!({}));
    // The clock jumps for the broker.
    broker.stop();
    until("its page is stale", || {
        program
            .read_page()
            .is_some_and(|page| page.is_stale(plimsoll_kernel::clock::now()))
    });
    broker.signal(libc::SIGCONT);
    program.assert_unharmed();
    let reading = program.read_page().expect("numbers");
    assert!(reading.numbers.limit > 0 && reading.numbers.owed == 0);
}

#[test]
fn who_steers_a_program_may_change_unless_a_rule_says_it() {
    let broker = Broker::start();
    let mut program = Program::register(&broker, "script", json!({}));
    let id = program.id;
    let call = json!({"id": id, "adapter": "hotspot"});
    program.client.call("Adapt", call.clone()).expect("it may");
    let shown = program.client.find(id).expect("listed");
    assert_eq!(shown["adapter"], json!("hotspot"));
    program
        .client
        .call("Adapt", json!({"id": id}))
        .expect("it may");
    let shown = program.client.find(id).expect("listed");
    assert_eq!(shown["adapter"], json!(null));
    // A program that was started without a name gives itself one, and keeps it.
    let named = json!({"id": id, "name": "my-cache"});
    program.client.call("Adapt", named).expect("it may");
    program.client.call("Adapt", call.clone()).expect("it may");
    let shown = program.client.find(id).expect("listed");
    assert_eq!(shown["name"], json!("my-cache"));
    let bad = json!({"id": id, "name": "two\nlines"});
    program.client.refuses("Adapt", bad, "BadName", "printable");
    let bad = json!({"id": id, "adapter": "two\nlines"});
    program
        .client
        .refuses("Adapt", bad, "BadName", "1 to 32 bytes");
    program
        .client
        .refuses("Adapt", json!({"id": 99999}), "NoSuchPrincipal", "ps");
    std::fs::write(
        broker.config(),
        "[[rule]]\nexecutable = \"*/sleep\"\nadapter = \"none\"\n",
    )
    .expect("it can");
    program.client.call("Reload", json!({})).expect("it may");
    program.client.call("Adapt", call).expect("it may");
    let shown = program.client.find(id).expect("listed");
    assert_eq!(shown["adapter"], json!(null), "the rule comes first");
    program.assert_unharmed();
}

#[test]
fn a_broker_whose_directory_is_replaced_leaves_and_takes_nothing_of_its_successor() {
    // With and without a disk: pages on /dev/shm, and pages beside the socket.
    for place in [env!("CARGO_TARGET_TMPDIR"), "/dev/shm"] {
        let place = tempfile::tempdir_in(place).expect("a directory");
        let directory = place.path().join("run");
        let mut first = Broker::start_in(&directory, Vec::new());
        let program = Program::register(&first, "p", json!({}));
        // Stopped, so that its successor starts before it can notice.
        first.stop();
        std::fs::remove_dir_all(&directory).expect("it can");
        let second = Broker::start_in(&directory, Vec::new());
        let mut other = Program::register(&second, "other", json!({}));
        first.signal(libc::SIGCONT);
        first.wait();
        assert!(first.log().contains("removed or replaced"));
        assert!(second.socket().exists());
        until("it writes its state", || {
            second.directory().join("state.json").exists()
        });
        assert!(other.page.exists() && other.pressure.exists());
        let again = Program::rejoin(&second, "p", json!({}), program.sleeper);
        assert!(again.read_page().is_some());
        other.assert_unharmed();
        assert!(!second.log().contains("by somebody"), "{}", second.log());
    }
}

#[test]
fn a_broker_whose_pages_are_removed_leaves_and_the_next_one_makes_them() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let directory = place.path().join("run");
    let mut first = Broker::start_in(&directory, Vec::new());
    let program = Program::register(&first, "p", json!({}));
    let pages = program.page.parent().expect("it has one");
    // Stopped meanwhile: a broker that sees that a page is gone makes it again.
    first.stop();
    std::fs::remove_dir_all(pages).expect("it can");
    first.signal(libc::SIGCONT);
    first.wait();
    assert!(
        first.log().contains("removed or replaced"),
        "{}",
        first.log()
    );
    let second = Broker::start_in(&directory, Vec::new());
    let again = Program::rejoin(&second, "p", json!({}), program.sleeper);
    assert!(again.read_page().is_some());
}

#[test]
fn the_next_broker_sweeps_what_killed_ones_left() {
    // On a file system with a disk, so that the pages are on /dev/shm.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let start = |name: &str| Broker::start_in(&place.path().join(name), Vec::new());
    let living = start("living");
    let mut neighbour = Program::register(&living, "neighbour", json!({}));
    let mut killed = start("killed");
    let mut program = Program::register(&killed, "p", json!({}));
    let cgroup = |program: &mut Program, broker: &Broker| {
        let home = plimsoll_kernel::cgroup::locate(program.sleeper.pid() as i32);
        let home = home.expect("it runs").map(|location| location.dir);
        let lock = std::fs::read_to_string(broker.directory().join("broker.lock"));
        let lock = lock.expect("a broker's lock");
        let tag = lock.lines().nth(1).expect("its tag");
        home.filter(|home| home.ends_with(format!("plimsoll/{tag}-{}-p", program.id)))
    };
    let home = cgroup(&mut program, &killed);
    let pages = program.page.parent().expect("a directory").to_owned();
    killed.signal(libc::SIGKILL);
    killed.wait();
    // Its program still runs, so only the pages are left over.
    // A broker looks for leftovers once it answers.
    let second = start("second");
    until("the pages are removed", || {
        !pages.starts_with("/dev/shm") || !pages.exists()
    });
    drop(second);
    assert!(home.as_ref().is_none_or(|home| home.exists()));
    assert!(neighbour.page.exists());
    drop(program);
    let third = start("third");
    until("the group is removed", || {
        home.as_ref().is_none_or(|home| !home.exists())
    });
    drop(third);
    assert!(neighbour.page.exists());
    neighbour.assert_unharmed();
}
