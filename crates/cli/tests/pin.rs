//! `plimsoll pin` as people and programs call it.

mod common;

use common::ground::group;
use common::mapped::{PATIENCE, is_called, printed, reader, shifter, sleeper};
use common::nobody::{AS_NOBODY, folder};
use common::{Place, Started, hears, stderr, wait_for};
use plimsoll_kernel::pin::lockable;
use plimsoll_kernel::smaps::{Area, each_area};
use plimsoll_testbed::children::copy_program;
use plimsoll_testbed::{Child, Disk, FuseServer, programs};
use plimsoll_unit::MIB;
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

/// The words about a process that stands still.
const STUCK: &str = "does not let itself be read within two seconds";

/// The arguments of a program that reads a third of a file of 48 MiB over and over.
const PAGES: &str = "--bytes 50331648 --part 0.3334 --every 5";

/// The programs of these tests are this binary, started again.
#[test]
fn program() {
    programs::run_as_asked();
}

#[test]
fn a_dry_run_says_what_it_saw_and_ends() {
    let place = Place::new();
    let (_one, pid) = sleeper(&place);
    let args = ["pin", &pid, "--dry-run", "--window", "1s", "--without-swap"];
    let text = place.text(&args);
    assert!(
        text.starts_with("nothing to hold: 1 process lost"),
        "{text}"
    );
    let text = place.text(&[&args[..], &["--json", "--budget", "3M"]].concat());
    let value: Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!(value["state"], "watching");
    assert_eq!(
        (&value["held"], &value["budget"]),
        (&0.into(), &(3 << 20).into())
    );
    assert_eq!(value["processes"], 1);
    assert!(value["files"].as_u64().unwrap() >= 2, "{value}");
    assert!(value["present"].as_u64().unwrap() > 64 << 10, "{value}");
    assert!(value["ranges"].as_array().unwrap().is_empty());
}

#[test]
fn everything_can_be_watched() {
    let place = Place::new();
    let (_one, _pid) = sleeper(&place);
    let text = printed(&place, &dry_run("--all"));
    let value: Value = serde_json::from_str(text.trim()).unwrap();
    assert!(value["processes"].as_u64() >= Some(2), "{value}");
    assert_eq!(value["held"], 0);
}

/// Makes a file whose bytes are on the disk and in no cache.
fn make_file(path: &Path, bytes: u64) {
    let piece: Vec<u8> = (0..bytes).map(|n| (n * 7 + n / 4096) as u8).collect();
    std::fs::write(path, piece).unwrap();
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// A program loses pages of a file to a stream beside it, and reads them again.
#[test]
fn it_explains_why_each_range_is_held_and_what_that_saves() {
    let place = Place::new();
    let Some(group) = group("pin-explain", 56 * MIB) else {
        return;
    };
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (hot, cold) = (disk.path().join("hot"), disk.path().join("cold"));
    make_file(&hot, 48 * MIB);
    make_file(&cold, 160 * MIB);
    let start = |line: String| {
        let words: Vec<&str> = line.split(' ').collect();
        Child::start_again("program", &words, Some(&group)).unwrap()
    };
    let mut reader = start(format!("pages --path {} {PAGES}", hot.display()));
    let _stream = start(format!("stream --path {} --rate 100M", cold.display()));
    let lost = reader.until(PATIENCE, |p| p.major_faults > 10_000);
    lost.unwrap();
    let pid = reader.pid().to_string();
    let args = [
        "pin",
        &pid,
        "--explain",
        "--window",
        "3s",
        "--budget",
        "20M",
    ];
    let mut command = place.command(&[&args[..], &["--without-swap"]].concat());
    let output = std::fs::File::create(place.path("told")).unwrap();
    let mut pin = Started(command.stdout(output).spawn().unwrap());
    let (head, range) = wait_for("ranges are explained", || {
        let told = std::fs::read_to_string(place.path("told")).ok()?;
        let range = told.lines().find(|line| line.ends_with("/hot"))?.to_owned();
        let head = told.lines().find(|line| line.starts_with("  HELD"))?;
        told.contains(" a second\n")
            .then(|| (head.to_owned(), range))
    });
    let names: Vec<&str> = head.split_whitespace().collect();
    let expected = ["HELD", "READS/S", "FAULTS/S", "OFFSET", "PIDS", "FILE"];
    assert_eq!(names, expected);
    let words: Vec<&str> = range.split_whitespace().collect();
    assert_eq!(words.len(), names.len(), "{range}");
    assert!(words[0].ends_with(['K', 'M']), "{range}");
    let offset = u64::from_str_radix(words[3], 16).unwrap();
    assert!(
        offset < 16 * MIB,
        "only a third of the file is read: {range}"
    );
    assert_eq!(words[4], "1", "{range}");
    if lockable().is_none() {
        let mut code = None;
        let look = &mut |area: &Area| {
            code = area.executable.then_some(area.pinned).or(code);
            !area.executable
        };
        each_area(pin.0.id(), look).unwrap();
        assert_eq!(code, Some(true), "its own pages can be evicted");
    }
    pin.signal(libc::SIGINT);
    assert!(pin.wait().success());
}

/// Waits until it has opened the pages of a process: one that ends before cannot be watched.
fn looks_at(pin: &Started, pid: &str) {
    let pages = format!("/proc/{pid}/pagemap");
    wait_for("it watches", || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", pin.0.id())).ok()?;
        let mut links = open.flatten().filter_map(|it| it.path().read_link().ok());
        links.any(|link| link == Path::new(&pages)).then_some(())
    });
}

#[test]
fn it_ends_with_the_program_or_by_a_signal() {
    let place = Place::new();
    let (mut one, pid) = sleeper(&place);
    let mut watching = place.start(&["pin", &pid, "--without-swap"]);
    let mut told = place.start(&["pin", &pid, "--without-swap"]);
    for one in [&watching, &told] {
        hears(one.0.id(), libc::SIGINT);
    }
    looks_at(&watching, &pid);
    assert!(watching.0.try_wait().unwrap().is_none());
    told.signal(libc::SIGINT);
    assert!(told.wait().success());
    one.0.kill().unwrap();
    one.0.wait().unwrap();
    assert!(watching.wait().success());
}

#[test]
fn bad_input_is_named() {
    let place = Place::new();
    for (args, needle) in [
        (
            &["pin", "2147483647"][..],
            "no process has the number 2147483647",
        ),
        (
            &["pin", "--cgroup", "/nowhere"],
            "no memory cgroup /nowhere: give its path",
        ),
        (&["pin", "--cgroup", "/proc"], "/proc"),
    ] {
        let output = place.call(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(
            stderr(&output).contains(needle),
            "{args:?}: {}",
            stderr(&output)
        );
    }
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm.trim() == "kthreadd") {
        let output = place.call(&["pin", "2", "--dry-run", "-w", "1s", "--without-swap"]);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(
            said.contains("kernel thread") || said.contains("same user"),
            "{said}"
        );
    }
}

/// As a user who may lock 8 MiB, a program of that user loses 16 MiB.
#[test]
fn a_lock_limit_is_told_and_kept() {
    let Some((folder, own)) = folder() else {
        return;
    };
    let Some(group) = group("pin-limit", 56 * MIB) else {
        return;
    };
    let place = Place::new();
    let program = folder.path().join("program");
    copy_program(std::env::current_exe().unwrap(), &program).unwrap();
    let (hot, cold) = (folder.path().join("hot"), folder.path().join("cold"));
    make_file(&hot, 48 * MIB);
    make_file(&cold, 160 * MIB);
    let start = |line: String| {
        let line = format!("{}={line}", programs::VARIABLE);
        let program = program.to_str().unwrap();
        let again = ["env", &line, program, "--exact", "program", "--nocapture"];
        let words = [&AS_NOBODY[1..], &again].concat();
        Child::start(Path::new(AS_NOBODY[0]), &words, Some(&group)).unwrap()
    };
    let mut reader = start(format!("pages --path {} {PAGES}", hot.display()));
    let _stream = start(format!("stream --path {} --rate 100M", cold.display()));
    let lost = reader.until(PATIENCE, |p| p.major_faults > 10_000);
    lost.unwrap();
    let (limit, pid) = (8 * MIB, reader.pid().to_string());
    let limits = format!("--memlock={limit}:{limit}");
    let args = [
        "pin",
        &pid,
        "--window",
        "3s",
        "--budget",
        "20M",
        "--without-swap",
    ];
    let own = own.to_str().unwrap();
    let words = [&[limits.as_str()][..], &AS_NOBODY, &[own], &args].concat();
    let mut command = place.program("prlimit", &words);
    let said = std::fs::File::create(place.path("said")).unwrap();
    command.stdout(std::process::Stdio::null()).stderr(said);
    let mut pin = Started(command.spawn().unwrap());
    let locked = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pin.0.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmLck:"))
            .unwrap();
        let number = line.split_whitespace().nth(1).unwrap();
        let locked = number.parse::<u64>().unwrap() << 10;
        assert!(locked <= limit, "{line}");
        locked
    };
    wait_for("something is held", || (locked() > 0).then_some(()));
    for _ in 0..400 {
        locked();
        std::thread::sleep(Duration::from_millis(10));
    }
    let said = std::fs::read_to_string(place.path("said")).unwrap();
    let told = "this user may lock";
    assert!(
        said.contains(told) && said.contains("less than the budget of"),
        "{said}"
    );
    pin.signal(libc::SIGINT);
    assert!(pin.wait().success());
}

#[test]
fn processes_of_others_are_named_with_who_can_look_at_them() {
    let Some((_folder, own)) = folder() else {
        return;
    };
    let place = Place::new();
    let (_one, pid) = sleeper(&place);
    let ask = |which: &str| -> Output {
        let args = ["pin", which, "--dry-run", "-w", "1s", "--without-swap"];
        let words = [&AS_NOBODY[1..], &[own.to_str().unwrap()], &args].concat();
        place.program(AS_NOBODY[0], &words).output().unwrap()
    };
    let one = ask(&pid);
    assert_eq!(one.status.code(), Some(1));
    let said = stderr(&one);
    assert!(
        said.contains(&format!("/proc/{pid}/")) && said.contains("or root"),
        "{said}"
    );
    let said = stderr(&ask("--all"));
    assert!(said.contains("root can look at them"), "{said}");
}

/// A look at a program for a second, as JSON.
fn dry_run(pid: &str) -> [&str; 7] {
    let always = ["--dry-run", "--json", "-w", "1s", "--without-swap"];
    let [dry, json, window, second, swap] = always;
    ["pin", pid, dry, json, window, second, swap]
}

/// Each process that is watched takes four descriptors, and a sixteenth of all may be for processes.
#[test]
fn where_few_files_may_be_open_fewer_processes_are_watched() {
    let Some(group) = group("pin-few-files", 512 * MIB) else {
        return;
    };
    let place = Place::new();
    let start = |_| Child::start(Path::new("sleep"), &["600"], Some(&group)).unwrap();
    let _sleepers: Vec<Child> = (0..30).map(start).collect();
    let dir = group.cgroup().dir().to_str().unwrap();
    let ask = |limits: &str| -> Value {
        let own = env!("CARGO_BIN_EXE_plimsoll");
        let words = [&[limits, own, "pin", "--cgroup"], &dry_run(dir)[1..]].concat();
        let output = place.program("prlimit", &words).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // The limit is raised as far as it may be.
    let all = ask("--nofile=64:4096");
    assert_eq!(
        (&all["processes"], &all["truncated"]),
        (&30.into(), &false.into())
    );
    assert!(!all["passed"].to_string().contains("watched"), "{all}");
    let few = ask("--nofile=256:256");
    assert_eq!(
        (&few["processes"], &few["truncated"]),
        (&16.into(), &true.into())
    );
    let passed = few["passed"].to_string();
    assert!(
        passed.contains("of 30 processes only 16 are watched"),
        "{few}"
    );
    assert!(!passed.contains("Too many open files"), "{few}");
    let reached = &few["limits"][0];
    assert_eq!(reached["limit"], "processes", "{few}");
    assert!(passed.contains(reached["reason"].as_str().unwrap()));
    // People are told once, and with --explain once more among all else.
    let own = env!("CARGO_BIN_EXE_plimsoll");
    let words = ["--nofile=256:256", own, "pin", "--cgroup", dir];
    let args = ["--dry-run", "-w", "1s", "--without-swap", "--explain"];
    let output = place
        .program("prlimit", &[&words[..], &args].concat())
        .output()
        .unwrap();
    let (said, text) = (stderr(&output), String::from_utf8_lossy(&output.stdout));
    let told = "of 30 processes only 16 are watched";
    assert_eq!(said.matches(told).count(), 1, "{said}");
    assert!(text.contains(&format!("  limit: {told}")), "{text}");
}

#[test]
fn what_is_in_shared_memory_is_passed_over() {
    let place = Place::new();
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = folder.path().join("file");
    make_file(&file, MIB);
    let program = reader(&file);
    let output = place.call(&dry_run(&program.pid().to_string()));
    assert!(output.status.success(), "{}", stderr(&output));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["held"], 0);
    let passed = value["passed"].to_string();
    for text in [&stderr(&output), &passed] {
        let told = text.contains(file.to_str().unwrap()) && text.contains("whose pages go to swap");
        assert!(told, "{text}");
    }
}

#[test]
fn a_process_that_cannot_be_read_in_time_is_passed_over() {
    let Some(disk) = Disk::mount(Path::new(env!("CARGO_TARGET_TMPDIR"))) else {
        return;
    };
    let place = Place::new();
    let (_one, other) = sleeper(&place);
    let blocked = shifter(&disk);
    let pid = blocked.pid().to_string();
    let Some(frozen) = disk.freeze() else { return };
    wait_for("it is blocked", || {
        let text = place.text(&["map", "--timeout", "1", &pid]);
        text.contains("its areas are missing").then_some(())
    });
    let args = ["--dry-run", "--window", "1s", "--without-swap"];
    let (out, said) = (place.path("out"), place.path("said"));
    // A look at the other one that is kept waiting may take too long as well.
    let said = wait_for("the other one is watched", || {
        let mut pin = place.command(&[&["pin", &pid, &other][..], &args].concat());
        pin.stdout(std::fs::File::create(&out).unwrap());
        pin.stderr(std::fs::File::create(&said).unwrap());
        // It ends while the process is still blocked.
        let ended = Started(pin.spawn().unwrap()).wait();
        let out = std::fs::read_to_string(&out).unwrap();
        let watched = out.starts_with("nothing to hold: 1 process lost");
        (ended.success() && watched).then(|| std::fs::read_to_string(&said).unwrap())
    });
    assert!(said.contains(STUCK), "{said}");
    // Alone, its reason is the error, and nothing is waited for.
    let mut alone = place.command(&[&["pin", &pid][..], &args].concat());
    let said = place.path("said alone");
    alone.stderr(std::fs::File::create(&said).unwrap());
    assert_eq!(Started(alone.spawn().unwrap()).wait().code(), Some(1));
    let said = std::fs::read_to_string(said).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains(&format!("process {pid} {STUCK}")) && said.contains("nothing is watched"),
        "{said}"
    );
    drop(frozen);
}

/// In a group, the others are watched on while one stands still, and it is one of them once it goes on.
#[test]
fn a_process_of_a_group_that_stands_still_comes_back() {
    let Some(disk) = Disk::mount(Path::new(env!("CARGO_TARGET_TMPDIR"))) else {
        return;
    };
    let Some(group) = group("pin-stuck", 512 * MIB) else {
        return;
    };
    let place = Place::new();
    let (one, other) = sleeper(&place);
    let blocked = shifter(&disk);
    group.cgroup().add(blocked.pid()).unwrap();
    group.cgroup().add(other.parse().unwrap()).unwrap();
    let Some(frozen) = disk.freeze() else { return };
    wait_for("it is blocked", || {
        let text = place.text(&["map", "--timeout", "1", &blocked.pid().to_string()]);
        text.contains("its areas are missing").then_some(())
    });
    let dir = group.cgroup().dir().to_str().unwrap();
    let args = ["pin", "--cgroup", dir, "--window", "1s", "--without-swap"];
    let watched = |name: &str| {
        let mut pin = place.command(&[&args[..], &["--dry-run", "--json"]].concat());
        let (out, said) = (place.path(name), place.path("said"));
        pin.stdout(std::fs::File::create(&out).unwrap());
        pin.stderr(std::fs::File::create(&said).unwrap());
        assert!(Started(pin.spawn().unwrap()).wait().success());
        let out = std::fs::read_to_string(out).unwrap();
        let report: Value = serde_json::from_str(out.lines().next_back().unwrap()).unwrap();
        let said = std::fs::read_to_string(said).unwrap().contains(STUCK);
        assert_eq!(
            said,
            report["passed"].to_string().contains(STUCK),
            "{report}"
        );
        (report["processes"].as_u64(), said)
    };
    // A look that is kept waiting may take too long at any of them.
    let becomes = |name: &str, count: u64, stuck: bool| {
        wait_for(name, || {
            (watched(name) == (Some(count), stuck)).then_some(())
        });
    };
    becomes("frozen", 1, true);
    // One that began while it stood still takes it in later.
    let (out, said) = (place.path("on"), place.path("on said"));
    let mut on = place.command(&[&args[..], &["--json"]].concat());
    on.stdout(std::fs::File::create(&out).unwrap());
    on.stderr(std::fs::File::create(&said).unwrap());
    let mut on = Started(on.spawn().unwrap());
    wait_for("it is passed over", || {
        let said = std::fs::read_to_string(&said).unwrap();
        said.contains("passed over: process ").then_some(())
    });
    drop(frozen);
    becomes("free", 2, false);
    drop(blocked);
    drop(one);
    drop(group);
    assert!(on.wait().success(), "it ends with the group");
    let out = std::fs::read_to_string(&out).unwrap();
    let last = out.lines().next_back().unwrap();
    assert!(last.contains("passed") && !last.contains(STUCK), "{last}");
}

/// How much memory a group has left may be hidden from us. Then memory is not said to be short.
#[test]
fn a_group_whose_memory_cannot_be_read_is_named_with_the_reason() {
    let Some((_folder, own)) = folder() else {
        return;
    };
    let Some(group) = group("pin-unread", 512 * MIB) else {
        return;
    };
    let place = Place::new();
    let words = [&AS_NOBODY[1..], &["sleep", "600"]].concat();
    let sleeper = Child::start(Path::new(AS_NOBODY[0]), &words, Some(&group)).unwrap();
    let pid = sleeper.pid().to_string();
    is_called(&pid, "sleep");
    let ask = || {
        let words = [&AS_NOBODY[1..], &[own.to_str().unwrap()], &dry_run(&pid)].concat();
        place.program(AS_NOBODY[0], &words).output().unwrap()
    };
    let before = ask();
    assert!(before.status.success(), "{}", stderr(&before));
    let stat = group.cgroup().dir().join("memory.stat");
    std::fs::set_permissions(&stat, Permissions::from_mode(0o000)).unwrap();
    let hidden = ask();
    assert_eq!(hidden.status.code(), Some(1));
    let said = stderr(&hidden);
    assert!(
        said.contains("has left cannot be read") && said.contains(stat.to_str().unwrap()),
        "{said}"
    );
    assert!(!said.contains("short"), "{said}");
}

#[test]
fn a_file_behind_a_server_is_passed_over_and_the_server_not_asked() {
    let Some(server) = FuseServer::start() else {
        return;
    };
    let place = Place::new();
    let program = reader(&server.file());
    server.stand_still();
    let asked = server.asked();
    let text = printed(&place, &dry_run(&program.pid().to_string()));
    assert_eq!(server.asked(), asked);
    let value: Value = serde_json::from_str(&text).unwrap();
    let passed = value["passed"].to_string();
    assert!(
        passed.contains("behind a server that does not answer"),
        "{passed}"
    );
    assert_eq!(value["processes"], 1);
    assert!(
        value["files"].as_u64().unwrap() >= 2,
        "its libraries are watched: {value}"
    );
}
