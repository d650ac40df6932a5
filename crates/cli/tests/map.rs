//! `plimsoll map` as people and programs call it.

mod common;

use common::ground::{enter, group};
use common::mapped::{PATIENCE, is_called, printed, reader, shifter, sleeper};
use common::nobody::{AS_NOBODY, folder};
use common::{Place, Started, stderr, wait_for};
use plimsoll_testbed::children::copy_program;
use plimsoll_testbed::{Child, Disk, FuseServer, TestCgroup, programs, skip};
use plimsoll_unit::MIB;
use serde_json::Value;
use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

fn json(place: &Place, args: &[&str]) -> Value {
    serde_json::from_str(&place.text(&[&["map", "--json"], args].concat())).unwrap()
}

#[test]
fn people_see_a_bar_and_numbers_for_each_area() {
    let place = Place::new();
    let (_one, pid) = sleeper(&place);
    for width in ["80", "120"] {
        let text = place.text(&["map", "-w", width, &pid]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with(&format!("{pid} sleep, ")), "{text}");
        assert!(lines[1].starts_with("AREA") && lines[1].contains("RESIDENT"));
        let columns: usize = width.parse().unwrap();
        assert!(
            lines.iter().all(|line| line.chars().count() <= columns),
            "{text}"
        );
        for area in ["executable", "libraries", "stacks", "malloc"] {
            let line = lines.iter().find(|line| line.starts_with(area)).unwrap();
            assert!(line.contains('█'), "{line}");
        }
        assert!(lines.iter().any(|line| line.starts_with("total ")));
        assert!(
            !text.contains('\x1b'),
            "no colours where there is no terminal"
        );
    }
}

#[test]
fn programs_get_exact_bytes_and_sums() {
    let place = Place::new();
    let ((_one, first), (_two, second)) = (sleeper(&place), sleeper(&place));
    let report = json(&place, &[&first, &second, &first, "--who"]);
    let looks = report["processes"].as_array().unwrap();
    assert_eq!(looks.len(), 2, "each process counts once");
    let fields = [
        "size",
        "resident",
        "swapped",
        "referenced",
        "shared",
        "anonymous",
    ];
    let sum = |of: &Value, field: &str| {
        let areas = of["areas"].as_array().unwrap();
        areas
            .iter()
            .map(|area| area[field].as_u64().unwrap_or(0))
            .sum::<u64>()
    };
    for field in fields {
        let total = |of: &Value| of["total"][field].as_u64().unwrap();
        assert_eq!(
            total(&report),
            total(&looks[0]) + total(&looks[1]),
            "{field}"
        );
        for of in [&report, &looks[0], &looks[1]] {
            assert_eq!(total(of), sum(of, field), "{field}");
        }
    }
    assert!(looks[0]["total"]["resident"].as_u64().unwrap() > 100 << 10);
    assert_eq!(looks[0]["pid"].to_string(), first);
    assert_eq!(looks[0]["name"], "sleep");
    assert!(looks[0]["executable"].as_str().unwrap().ends_with("sleep"));
    assert_eq!(looks[0]["runtime"], Value::Null);
    assert!(looks[0].get("parts").is_none());
    let sharers = looks[0]["sharers"].as_array().unwrap();
    let names = |file: &Value| {
        file["processes"]
            .to_string()
            .contains(&format!("\"pid\":{second}"))
    };
    assert!(sharers.iter().any(names), "{sharers:?}");
    let whole = json(&place, &["--addresses", &first]);
    assert!(whole["processes"][0]["parts"].as_array().unwrap().len() > 5);
}

#[test]
fn a_watch_tells_what_happened_meanwhile() {
    let place = Place::new();
    let (_one, pid) = sleeper(&place);
    let args = [
        "map",
        &pid,
        "--watch",
        "1",
        "--count",
        "2",
        "--json",
        "--referenced",
    ];
    let text = place.text(&args);
    let looks: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(looks.len(), 2);
    assert_eq!(looks[0]["processes"][0]["change"], Value::Null);
    assert_eq!(looks[0]["total"]["refaulted"], Value::Null);
    assert_eq!(looks[1]["total"]["refaulted"], 0, "it sleeps");
    let change = &looks[1]["processes"][0]["change"];
    assert!(change["seconds"].as_f64().unwrap() >= 1.0);
    assert_eq!(change["major_faults"], 0, "it sleeps");
    assert!(looks[1]["unix_ms"].as_u64() > looks[0]["unix_ms"].as_u64());
    // Pages of files count as referenced when other programs use them.
    let heap = |look: &Value| {
        let areas = look["areas"].as_array().unwrap();
        let area = areas.iter().find(|area| area["kind"] == "malloc");
        area.map(|area| area["referenced"].as_u64().unwrap())
    };
    assert!(heap(&looks[0]) > Some(0), "{text}");
    assert_eq!(heap(&looks[1]), Some(0), "it sleeps: {text}");
}

#[test]
fn what_cannot_be_shown_is_told_and_the_rest_is_shown() {
    let place = Place::new();
    let (_one, pid) = sleeper(&place);
    let output = place.call(&["map", "2147483647", &pid]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("{pid} sleep")));
    assert!(stderr(&output).contains("no process has the number 2147483647"));
    for (args, status, needle) in [
        (&["map", "0"][..], 2, "`0` is no process number"),
        (&["map"], 2, "PID"),
        (&["map", "--watch"], 2, "PID"),
        (
            &["map", "--watch", "13654"],
            2,
            "write process numbers before --watch",
        ),
        (
            &["map", "1", "--html", "/no/such/x.html"],
            1,
            "/no/such/x.html: ",
        ),
        (&["map", "1", "--count", "2"], 2, "--watch"),
        (&["map", "1", "--addresses"], 2, "--json"),
        (&["map", "--cgroup", "no/such/group"], 1, "no/such/group"),
        (&["map", "--principal", "nobody"], 1, "no broker answers"),
    ] {
        let output = place.call(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        assert!(
            stderr(&output).contains(needle),
            "{args:?}: {}",
            stderr(&output)
        );
    }
    let failed = place.call(&["map", "--json", "2147483647"]);
    let report: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(report["failed"][0]["pid"], i32::MAX);
}

/// A program that sleeps in a group, once it is itself.
fn sleeper_in(group: &TestCgroup) -> Started {
    let mut sleep = Command::new("sleep");
    sleep.arg("600");
    enter(&mut sleep, group);
    let started = Started(sleep.spawn().unwrap());
    is_called(&started.0.id().to_string(), "sleep");
    started
}

/// Not a test of its own: the program that is blocked is this binary, started again.
#[test]
fn program() {
    programs::run_as_asked();
}

#[test]
fn a_process_that_cannot_be_read_in_time_is_told_and_the_rest_is_shown() {
    let Some(disk) = Disk::mount(std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))) else {
        return;
    };
    let place = Place::new();
    let (_one, other) = sleeper(&place);
    let blocked = shifter(&disk);
    let pid = blocked.pid().to_string();
    let free = place.text(&["map", "--timeout", "60", &pid]);
    assert!(
        free.contains("libraries") && !free.contains("--timeout"),
        "{free}"
    );

    let Some(frozen) = disk.freeze() else { return };
    let next = format!("\n{other} sleep");
    // A look at the other one that is kept waiting may take too long as well.
    let told = wait_for("it is blocked, and the other one is shown", || {
        let output = place.call(&["map", "--timeout", "1", &pid, &other]);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(output.status.success(), "{text}{}", stderr(&output));
        let (of_blocked, of_other) = text.split_once(&next).unwrap();
        let missing = |of: &str| of.contains("its areas are missing");
        (missing(of_blocked) && !missing(of_other)).then_some(text)
    });
    let (of_blocked, of_other) = told.split_once(&next).unwrap();
    let words = of_blocked.split_whitespace().collect::<Vec<_>>().join(" ");
    let why = format!("/proc/{pid}/smaps is busy: it was not read in time:");
    assert!(words.contains(&why), "{told}");
    assert!(
        words.contains("something holds its lock; give it longer with --timeout"),
        "{told}"
    );
    // Numbers that need no lock are told.
    assert!(
        words.contains(" total ") && !words.contains("libraries"),
        "{told}"
    );
    assert!(of_other.contains("libraries"), "{told}");

    drop(frozen);
    let again = place.text(&["map", "--timeout", "60", &pid]);
    assert!(
        again.contains("libraries") && !again.contains("--timeout"),
        "{again}"
    );
}

/// The files of containers lie on an overlay, which has a device of its own and only the container sees.
/// Each file is opened to ask the page cache about it, and a process may have mapped more than we may open.
#[test]
fn more_files_than_may_be_open_are_asked_about() {
    let place = Place::new();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut list = String::new();
    for number in 0..100 {
        let file = folder.path().join(format!("file-{number}"));
        std::fs::write(&file, [1; 4096]).unwrap();
        list += &format!("{}\n", file.display());
    }
    let names = folder.path().join("list");
    std::fs::write(&names, list).unwrap();
    let arguments = ["lock", "--path", names.to_str().unwrap()];
    let mut program = Child::start_again("program", &arguments, None).unwrap();
    program.until(PATIENCE, |p| p.holding).unwrap();
    let (own, pid) = (env!("CARGO_BIN_EXE_plimsoll"), program.pid().to_string());
    let ask = |limits: &str| {
        let words = [limits, own, "map", "--json", &pid];
        let output = place.program("prlimit", &words).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        let areas = value["areas"].as_array().unwrap();
        let files = areas.iter().find(|area| area["kind"] == "files").unwrap();
        (
            files["cached"].clone(),
            value["processes"][0]["notes"].clone(),
        )
    };
    let (all, notes) = ask("--nofile=4096:4096");
    if all.is_null() {
        return skip(notes);
    }
    assert!(all.as_u64().unwrap() >= 100 * 4096, "{all} {notes}");
    assert_eq!(ask("--nofile=64:64"), (all, notes));
}

#[test]
fn a_program_on_an_overlay_is_attributed() {
    let mut place = Place::new();
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in ["lower", "upper", "work", "mnt"] {
        std::fs::create_dir(disk.path().join(name)).unwrap();
    }
    copy_program("/usr/bin/sleep", disk.path().join("lower/sleep")).unwrap();
    let script = format!(
        "cd {} && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work mnt && \
         touch ready && exec mnt/sleep 600",
        disk.path().display()
    );
    let mut command = place.program("unshare", &["--mount", "sh", "-c", &script]);
    let mut program = Started(command.spawn().unwrap());
    let ready = disk.path().join("ready");
    let mounted = wait_for("it is mounted, or cannot be", || {
        let ended = program.0.try_wait().unwrap().is_some();
        (ended || ready.exists()).then_some(!ended)
    });
    if !mounted {
        skip("no overlay can be mounted here");
        return;
    }
    let pid = program.0.id().to_string();
    place.keep(program);
    is_called(&pid, "sleep");
    let report = json(&place, &["--addresses", &pid]);
    let look = &report["processes"][0];
    let path = look["executable"].as_str().unwrap();
    assert!(path.ends_with("/mnt/sleep"), "{path}");
    let areas = look["areas"].as_array().unwrap();
    let code = areas.iter().find(|area| area["kind"] == "executable");
    let code = code.expect("an area of its program");
    let bytes = |field: &str| code[field].as_u64();
    let of_file = bytes("resident").unwrap() - bytes("anonymous").unwrap();
    assert!(of_file > 0, "{code}");
    // The page cache tells nothing of a file on an overlay. Then nothing is said.
    let cached = bytes("cached");
    assert!(cached.is_none_or(|cached| cached >= of_file), "{code}");
}

#[test]
fn a_thread_of_the_kernel_has_no_map() {
    if std::fs::read_to_string("/proc/2/comm").ok().as_deref() != Some("kthreadd\n") {
        skip("no threads of the kernel are seen here");
        return;
    }
    let output = Place::new().call(&["map", "2"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("thread of the kernel"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_group_and_a_principal_name_their_processes() {
    let place = Place::new();
    if let Some(group) = group("map", 512 * MIB) {
        let started = sleeper_in(&group);
        let dir = group.cgroup().dir().to_str().unwrap();
        let report = json(&place, &["--cgroup", dir]);
        assert_eq!(report["processes"][0]["pid"], started.0.id());
    }
    let _run = place.start(&["run", "-n", "dozer", "--", "sleep", "600"]);
    let pid = place.attached("dozer").pid.unwrap();
    is_called(&pid.to_string(), "sleep");
    let report = json(&place, &["--principal", "dozer"]);
    assert_eq!(report["processes"][0]["pid"], pid);
    let nobody = place.call(&["map", "--principal", "nobody"]);
    assert!(stderr(&nobody).contains("no principal is called `nobody`"));
}

#[test]
fn a_page_shows_a_program_with_a_hostile_name_until_it_ends() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let name = "<i>\"&\u{202e}x<";
    let program = folder.path().join(name);
    copy_program("/usr/bin/sleep", &program).unwrap();
    let mut started = Started(
        place
            .program(program.to_str().unwrap(), &["600"])
            .spawn()
            .unwrap(),
    );
    let pid = started.0.id().to_string();
    is_called(&pid, name);
    let file = folder.path().join("map.html");
    let path = file.to_str().unwrap().to_owned();
    let arguments = ["map", &pid, "--html", &path, "--watch", "1"];
    let mut map = Started(
        place
            .program(env!("CARGO_BIN_EXE_plimsoll"), &arguments)
            .spawn()
            .unwrap(),
    );
    let growing = wait_for("the page is there", || std::fs::read_to_string(&file).ok());
    assert!(
        growing.contains("http-equiv=\"refresh\""),
        "it is read again while it grows"
    );
    started.0.kill().unwrap();
    started.0.wait().unwrap();
    assert!(map.0.wait().unwrap().success(), "it ends with the program");
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(
        page.contains(&format!("&lt;i&gt;&quot;&amp;\u{fffd}x&lt; ({pid})")),
        "{page}"
    );
    assert!(!page.contains("<i>") && !page.contains("refresh"));
    for words in [">libraries</text>", ">stacks</text>", "By address"] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn a_watch_of_a_group_ends_with_its_last_process() {
    let place = Place::new();
    let Some(group) = group("map-ends", 512 * MIB) else {
        return;
    };
    let mut started = sleeper_in(&group);
    let dir = group.cgroup().dir().to_str().unwrap();
    let mut map = place.command(&["map", "--cgroup", dir, "--watch", "1"]);
    let told = place.path("told");
    let output = std::fs::File::create(&told).unwrap();
    let mut map = Started(map.stdout(output).spawn().unwrap());
    wait_for("it is shown", || {
        let text = std::fs::read_to_string(&told).unwrap();
        text.contains(" sleep, ").then_some(())
    });
    started.0.kill().unwrap();
    started.0.wait().unwrap();
    assert!(map.wait().success(), "it ends with the group");
}

#[test]
fn a_watch_goes_on_with_a_process_when_the_group_beside_it_ends() {
    let place = Place::new();
    let Some(group) = group("map-beside", 512 * MIB) else {
        return;
    };
    let (mut one, pid) = sleeper(&place);
    let mut other = sleeper_in(&group);
    let dir = group.cgroup().dir().to_str().unwrap().to_owned();
    let told = place.path("told");
    let mut map = place.command(&["map", &pid, "--cgroup", &dir, "--json", "--watch", "1"]);
    let mut map = Started(map.stdout(File::create(&told).unwrap()).spawn().unwrap());
    let shows = |what: &str, count: usize| {
        wait_for(what, || {
            let text = std::fs::read_to_string(&told).unwrap();
            let last = text.lines().rfind(|_| text.ends_with('\n'))?;
            let look: Value = serde_json::from_str(last).ok()?;
            let of_count = look["processes"].as_array()?.len() == count;
            (of_count && look["failed"].as_array()?.is_empty()).then_some(())
        });
    };
    shows("both are shown", 2);
    other.0.kill().unwrap();
    other.0.wait().unwrap();
    drop(group);
    shows("one is shown on", 1);
    one.0.kill().unwrap();
    one.0.wait().unwrap();
    assert!(map.wait().success(), "it ends with the last of them");
}

/// That a group cannot be read is not taken for the end of its programs.
#[test]
fn a_watch_that_may_not_look_any_more_says_so() {
    let Some((folder, own)) = folder() else {
        return;
    };
    let place = Place::new();
    let Some(group) = group("map-hidden", 512 * MIB) else {
        return;
    };
    let _one = sleeper_in(&group);
    let dir = group.cgroup().dir();
    let drawn = folder.path().join("drawn");
    std::fs::create_dir(&drawn).unwrap();
    chown(&drawn, Some(65534), Some(65534)).unwrap();
    let page = drawn.join("page.html");
    let start = |name: &str, more: &[&str]| {
        let watch = ["map", "--cgroup", dir.to_str().unwrap(), "--watch", "1"];
        let words = [&AS_NOBODY[1..], &[own.to_str().unwrap()], &watch, more].concat();
        let mut command = place.program(AS_NOBODY[0], &words);
        let file = |end: &str| File::create(place.path(&format!("{name}.{end}"))).unwrap();
        command.stdout(file("out")).stderr(file("said"));
        Started(command.spawn().unwrap())
    };
    let mut text = start("text", &[]);
    let mut html = start("html", &["--html", page.to_str().unwrap()]);
    wait_for("both have looked", || {
        let out = std::fs::read_to_string(place.path("text.out")).unwrap();
        (out.contains(" sleep, ") && page.exists()).then_some(())
    });
    std::fs::set_permissions(dir.join("cgroup.procs"), Permissions::from_mode(0o000)).unwrap();
    for (name, map) in [("text", &mut text), ("html", &mut html)] {
        assert_eq!(map.wait().code(), Some(1), "{name}");
        let said = std::fs::read_to_string(place.path(&format!("{name}.said"))).unwrap();
        assert!(
            said.contains("cgroup.procs is not ours to use"),
            "{name}: {said}"
        );
    }
    // The looks until then are drawn, for the last time.
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains(">sleep (") && !page.contains("refresh"),
        "{page}"
    );
}

/// A process that is ended when this is dropped. `unshare` ignores the signal that would end both.
struct Inner(u32);

impl Drop for Inner {
    fn drop(&mut self) {
        common::signal_to(self.0, libc::SIGKILL);
    }
}

/// In a container with users of its own, a process has other numbers than here.
#[test]
fn a_process_in_other_namespaces_is_attributed() {
    let mut place = Place::new();
    let words = "--user --map-root-user --pid --fork sleep 600";
    let words: Vec<&str> = words.split(' ').collect();
    let mut outer = Started(place.program("unshare", &words).spawn().unwrap());
    let parent = outer.0.id();
    let children = format!("/proc/{parent}/task/{parent}/children");
    let inner = wait_for("it is there, or cannot be", || {
        if outer.0.try_wait().unwrap().is_some() {
            return Some(None);
        }
        let all = std::fs::read_to_string(&children).unwrap_or_default();
        let pid: String = all.split_whitespace().next()?.into();
        let is_itself = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (is_itself.trim() == "sleep").then_some(Some(pid))
    });
    let Some(pid) = inner else {
        skip("no user and pid namespaces here");
        return;
    };
    place.keep(outer);
    let _inner = Inner(pid.parse().unwrap());
    is_called(&pid, "sleep");
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
    assert_ne!(
        std::fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap(),
        own
    );
    let report = json(&place, &[&pid]);
    let look = &report["processes"][0];
    assert_eq!(look["pid"].to_string(), pid, "it is named as here");
    assert!(look["executable"].as_str().unwrap().ends_with("sleep"));
    let areas = look["areas"].as_array().unwrap();
    for kind in ["executable", "libraries", "stacks", "malloc"] {
        let area = areas.iter().find(|area| area["kind"] == kind);
        let resident = area.and_then(|area| area["resident"].as_u64());
        assert!(resident > Some(0), "{kind}: {areas:?}");
    }
    // Its files are seen below its own root.
    let code = areas.iter().find(|area| area["kind"] == "executable");
    assert!(code.unwrap()["cached"].is_number(), "{code:?}");
}

#[test]
fn what_a_forked_process_shares_is_told_though_not_with_whom() {
    let place = Place::new();
    let forked = "is shared with processes that were forked";
    let told = |pid: &str| {
        let text = place.text(&["map", "--who", pid]);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (_one, alone) = sleeper(&place);
    assert!(!told(&alone).contains(forked), "{}", told(&alone));
    // The forked shell ends with its input.
    let script = "exec 3<&0; (read x <&3) & wait";
    let mut command = place.program("sh", &["-c", script]);
    let shell = Started(command.stdin(std::process::Stdio::piped()).spawn().unwrap());
    let pid = shell.0.id();
    wait_for("it has a child", || {
        let all = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        all.is_ok_and(|all| !all.trim().is_empty()).then_some(())
    });
    let text = told(&pid.to_string());
    assert!(text.contains(forked), "{text}");
}

#[test]
fn a_file_behind_a_server_that_does_not_answer_is_told_and_the_server_not_asked() {
    let Some(server) = FuseServer::start() else {
        return;
    };
    let place = Place::new();
    let program = reader(&server.file());
    server.stand_still();
    let asked = server.asked();
    let text = printed(&place, &["map", "--who", &program.pid().to_string()]);
    assert_eq!(server.asked(), asked);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let note =
        "1.00M of mapped files are not asked about: they are on fuse, which may be behind a server";
    assert!(words.contains(note), "{text}");
    assert!(!words.contains("in time"), "{text}");
    let files = text.lines().find(|line| line.starts_with("files "));
    assert!(files.is_some_and(|line| line.contains("1.00M")), "{text}");
    assert!(text.contains("libraries"), "{text}");
}
