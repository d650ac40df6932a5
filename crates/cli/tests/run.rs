//! `plimsoll run PROGRAM` with a real broker of its own.

mod common;

use common::{Place, Started, alive, signal_to, stderr, wait_for};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

#[test]
fn the_status_and_the_output_are_the_programs() {
    let place = Place::new();
    for (args, status) in [
        (vec!["run", "true"], 0),
        (vec!["run", "--", "false"], 1),
        (vec!["run", "sh", "-c", "exit 42"], 42),
        (vec!["run", "sh", "-c", "kill -TERM $$"], 143),
        (vec!["run", "sh", "-c", "kill -KILL $$"], 137),
    ] {
        let output = place.known(&args);
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        assert_eq!(
            (stderr(&output), output.stdout.len()),
            (String::new(), 0),
            "{args:?}"
        );
    }
    let output = place.known(&["run", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
}

#[test]
fn what_cannot_be_started_is_said() {
    let place = Place::new();
    place.write("plain", "no program\n");
    let plain = place.path("plain").display().to_string();
    for (args, status, needle) in [
        (vec!["run"], 2, "PROGRAM"),
        (vec!["run", "plimsoll-no-such-program"], 127, "not found"),
        (vec!["run", &plain], 126, "cannot be executed"),
        (
            vec!["run", "-w", "0", "true"],
            2,
            "weight 0 is out of range",
        ),
        (vec!["run", "-w", "-7", "true"], 2, "out of range"),
        (vec!["run", "-n", "a\nb", "true"], 2, "printable text only"),
        (vec!["run", "--top", "true"], 2, "-f"),
        (
            vec!["run", "-f", "/nonexistent.toml"],
            125,
            "/nonexistent.toml",
        ),
        (
            vec!["run", "--log", "/nonexistent/log", "true"],
            125,
            "/nonexistent/log",
        ),
    ] {
        let output = place.call(&args);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{args:?}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(needle),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_program_does_not_start_without_the_bound_that_was_asked_for() {
    let place = Place::new();
    place.write(
        "p.toml",
        "[[program]]\nname = 'a'\ncommand = 'touch ran'\nmax = '0.00001%'\n",
    );
    for (args, status) in [
        (vec!["run", "--max", "1K", "touch", "ran"], 2),
        (vec!["run", "--max", "0", "touch", "ran"], 2),
        (vec!["run", "--max", "0.00001%", "touch", "ran"], 2),
        (vec!["run", "-f", "p.toml"], 125),
    ] {
        let output = place.call(&args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        let told = said.contains("out of range") || said.contains("leave it out");
        assert!(told && !said.contains("without a broker"), "{said}");
        assert!(!place.path("ran").exists(), "{args:?}");
    }
}

#[test]
fn a_passive_program_is_accounted_shown_and_changed() {
    let place = Place::new();
    // A child of the program holds 24 MiB, and ends with the program.
    let script =
        "sh -c 'x=$(yes | head -c 25165824); while kill -0 $PPID; do sleep 0.2; done' 2>&-; :";
    let mut args: Vec<&str> = "run -w 40 -p 2 -m 1G -n eater sh -c".split(' ').collect();
    args.push(script);
    let mut run = place.start(&args);
    let eater = place.attached("eater");
    assert_eq!(
        (eater.weight, eater.priority, eater.max),
        (40, 2, Some(1 << 30))
    );
    assert_eq!(eater.adapter, None);
    let large = || place.principal("eater").filter(|p| p.uses > 24 << 20);
    wait_for("what its child uses is accounted", large);
    let json: serde_json::Value = serde_json::from_str(&place.text(&["ps", "--json"])).unwrap();
    let shown = &json["principals"][0];
    for field in ["uses", "limit", "available", "owed", "weight", "pid"] {
        assert!(shown[field].is_u64(), "{field}: {shown}");
    }
    assert!(shown["children"].is_array() && shown["name"] == "eater");
    assert!(place.text(&["ps"]).contains("eater"));
    let changes = "set eater --weight 77 --priority=-3 --max 512M";
    place.text(&changes.split(' ').collect::<Vec<_>>());
    let eater = place.principal("eater").unwrap();
    assert_eq!(
        (eater.weight, eater.priority, eater.max),
        (77, -3, Some(512 << 20))
    );
    place.text(&["set", &eater.id.to_string(), "--max", "0"]);
    assert_eq!(place.principal("eater").unwrap().max, None);
    assert!(place.text(&["top", "--once"]).contains("77(-3)"));
    run.signal(libc::SIGTERM);
    assert_eq!(run.wait().code(), Some(143));
    wait_for("it left", || {
        place.principal("eater").is_none().then_some(())
    });
}

#[test]
fn names_that_several_have_are_listed() {
    let place = Place::new();
    let runs = [0, 1].map(|_| place.start(&["run", "-n", "twin", "sleep", "600"]));
    let both = || {
        place
            .listing()
            .filter(|listing| listing.principals.len() == 2)
    };
    let listing = wait_for("both are there", both);
    let output = place.call(&["set", "twin", "-w", "5"]);
    assert_eq!(output.status.code(), Some(1));
    for principal in &listing.principals {
        assert!(stderr(&output).contains(&format!("  {}  twin", principal.id)));
    }
    let second = listing.principals[1].id.to_string();
    let cycle = place.call(&["set", &second, "--parent", &second]);
    assert_eq!(cycle.status.code(), Some(2), "{}", stderr(&cycle));
    assert!(stderr(&cycle).contains("`twin` cannot be its own parent"));
    let unknown = place.call(&["set", "nobody", "-w", "5"]);
    assert!(stderr(&unknown).contains("no principal is called `nobody`"));
    drop(runs);
}

#[test]
fn signals_reach_the_program_and_end_nothing_else() {
    let place = Place::new();
    let script = "trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo ready; while :; do sleep \
                  0.05; done";
    let mut command = place.command(&["run", "-n", "trapper", "sh", "-c", script]);
    let mut run = Started(command.stdout(Stdio::piped()).spawn().unwrap());
    place.attached("trapper");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(run.0.stdout.take().unwrap()));
    let mut next = move || lines.next().unwrap().unwrap();
    assert_eq!(next(), "ready");
    run.signal(libc::SIGUSR1);
    assert_eq!(next(), "usr1");
    run.signal(libc::SIGTERM);
    assert_eq!(next(), "term");
    assert_eq!(run.wait().code(), Some(5));
}

#[test]
fn stopping_us_stops_the_program_and_going_on_goes_on() {
    let place = Place::new();
    // Use a process group of its own, as a shell does for a job, because the kernel drops SIGTSTP
    // in an orphaned group.
    let mut run = place.start_job(&[
        "run",
        "-n",
        "stopper",
        "sh",
        "-c",
        "sleep 0.1; while :; do :; done",
    ]);
    let pid = place.attached("stopper").pid.unwrap();
    let state = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next().unwrap()
    };
    run.signal(libc::SIGTSTP);
    let ours = run.0.id();
    wait_for("both stop", || {
        (state(pid) == 'T' && state(ours) == 'T').then_some(())
    });
    run.signal(libc::SIGCONT);
    wait_for("both go on", || {
        (state(pid) != 'T' && state(ours) != 'T').then_some(())
    });
    run.signal(libc::SIGINT);
    assert_eq!(run.wait().code(), Some(130));
}

#[test]
fn the_program_lives_on_without_us() {
    let place = Place::new();
    let mut run = place.start(&["run", "-n", "orphan", "sleep", "600"]);
    let pid = place.attached("orphan").pid.unwrap();
    run.signal(libc::SIGKILL);
    assert_eq!(run.wait().signal(), Some(libc::SIGKILL));
    wait_for("its principal left", || {
        place.principal("orphan").is_none().then_some(())
    });
    assert!(alive(pid));
    signal_to(pid, libc::SIGKILL);
}

#[test]
fn without_a_broker_the_program_runs_all_the_same() {
    let place = Place::new();
    place.write("b", "a file where the directory should be\n");
    let output = place.call(&["run", "sh", "-c", "echo out; exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"out\n");
    let said = stderr(&output);
    assert_eq!(said.matches("runs without a broker").count(), 1, "{said}");
    assert_eq!(place.call(&["ps"]).status.code(), Some(1));
}

#[test]
fn verbose_says_what_is_done_and_log_says_it_elsewhere() {
    let place = Place::new();
    let said = stderr(&place.call(&["run", "-v", "true"]));
    assert!(said.lines().count() >= 2, "{said}");
    assert!(
        said.lines().all(|line| line.starts_with("plimsoll: ")),
        "{said}"
    );
    let log = place.path("log").display().to_string();
    assert_eq!(stderr(&place.call(&["run", "--log", &log, "true"])), "");
    assert!(
        std::fs::read_to_string(&log)
            .unwrap()
            .contains("ended with status 0")
    );
}

#[test]
fn the_environment_names_the_broker_the_page_and_the_pressure_socket() {
    let place = Place::new();
    let script = "printf '%s\\n' $PLIMSOLL_SOCKET $PLIMSOLL_ID $PLIMSOLL_PAGE $MEMORY_PRESSURE_WATCH; \
                  head -c 8 $PLIMSOLL_PAGE; test -S $MEMORY_PRESSURE_WATCH";
    let output = place.known(&["run", "sh", "-c", script]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], place.socket().display().to_string());
    assert!(lines[1].parse::<u64>().is_ok(), "{text}");
    assert_eq!(lines[4], "PLIMSOLL");
}

#[test]
fn a_run_inside_a_run_is_its_child_and_each_counts_its_own() {
    let place = Place::new();
    let own = env!("CARGO_BIN_EXE_plimsoll");
    // When this shell is ended, nothing it started goes on for long.
    let hold = "x=$(yes | head -c 25165824); while :; do sleep 0.1; done";
    let script = format!("{own} run -n inner sh -c '{hold}'; :");
    let mut run = place.start(&["run", "-n", "outer", "sh", "-c", &script]);
    let inner = place.attached("inner");
    let nested = || {
        let outer = place.principal("outer")?;
        outer
            .children
            .iter()
            .any(|p| p.id == inner.id)
            .then_some(())
    };
    wait_for("it is a child", nested);
    let counted = || {
        let inner = place.principal("inner")?;
        let outer = place.principal("outer")?;
        (inner.uses > 24 << 20 && outer.uses < 24 << 20).then_some(())
    };
    wait_for("each counts its own", counted);
    // Both come back, whichever of them is first.
    let first = place.listing().unwrap().pid;
    signal_to(first, libc::SIGKILL);
    let other = || place.listing().filter(|listing| listing.pid != first);
    wait_for("another broker", other);
    let inner = || place.principal("inner").filter(|p| p.pid.is_some());
    let again = || {
        let outer = place.principal("outer")?;
        outer
            .children
            .iter()
            .any(|p| p.name == "inner")
            .then_some(())
    };
    let program = wait_for("it is back", inner).pid.unwrap();
    wait_for("it is a child again", again);
    run.signal(libc::SIGTERM);
    run.wait();
    signal_to(program, libc::SIGTERM);
}

/// Makes the command start with the signal ignored, as a shell does after `trap '' CHLD`, or as `nohup` does.
fn deaf(command: &mut Command, signal: i32) -> &mut Command {
    // SAFETY: `signal` may be called between fork and exec, and touches no memory.
    unsafe {
        command.pre_exec(move || {
            libc::signal(signal, libc::SIG_IGN);
            Ok(())
        })
    }
}

#[test]
fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let place = Place::new();
    place.write("p.toml", "[[program]]\nname='a'\ncommand='sleep 600'\n");
    let mut command = place.command(&["run", "-f", "p.toml"]);
    let mut run = Started(deaf(&mut command, libc::SIGHUP).spawn().unwrap());
    place.attached("a");
    let program = Started(Command::new("sleep").arg("600").spawn().unwrap());
    let mut command = place.command(&["adopt", "-n", "b", &program.0.id().to_string()]);
    let mut adopt = Started(deaf(&mut command, libc::SIGHUP).spawn().unwrap());
    place.attached("b");
    for ours in [&mut run, &mut adopt] {
        // A blocked signal waits for its reader, even if it is ignored.
        ours.signal(libc::SIGHUP);
        let status = std::fs::read_to_string(format!("/proc/{}/status", ours.0.id())).unwrap();
        let of = |name: &str| {
            let set = status.lines().find_map(|line| line.strip_prefix(name));
            let set = u64::from_str_radix(set.unwrap().trim(), 16).unwrap();
            (set >> (libc::SIGHUP - 1)) & 1
        };
        assert_eq!((of("SigIgn:"), of("SigBlk:"), of("ShdPnd:")), (1, 0, 0));
        assert!(alive(ours.0.id()));
        ours.signal(libc::SIGTERM);
        ours.wait();
    }
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let place = Place::new();
    let diary = place.write("diary.txt", "dear diary").display().to_string();
    let output = place.call(&["--socket", &diary, "run", "echo", "on"]);
    assert_eq!(output.stdout, b"on\n");
    let said = stderr(&output);
    assert!(said.contains("is no socket"), "{said}");
    assert_eq!(std::fs::read_to_string(diary).unwrap(), "dear diary");
}

#[test]
fn who_ignores_the_end_of_children_is_told_the_status_too() {
    let place = Place::new();
    let mut command = place.command(&["run", "sh", "-c", "exit 3"]);
    let mut run = Started(deaf(&mut command, libc::SIGCHLD).spawn().unwrap());
    assert_eq!(run.wait().code(), Some(3));
    // The program finds the signal as it would without `plimsoll run`.
    let ignored = |output: std::process::Output| {
        let text = String::from_utf8(output.stdout).unwrap();
        let set = text.trim().rsplit('\t').next().unwrap();
        (u64::from_str_radix(set, 16).unwrap() >> (libc::SIGCHLD - 1)) & 1
    };
    let args = ["run", "grep", "SigIgn", "/proc/self/status"];
    let mut command = place.command(&args);
    let output = deaf(&mut command, libc::SIGCHLD).output().unwrap();
    assert_eq!(ignored(output), 1);
    assert_eq!(ignored(place.call(&args)), 0);
    place.write(
        "p.toml",
        "[[program]]\nname='a'\ncommand='sh -c \"exit 3\"'\n",
    );
    let mut command = place.command(&["run", "-f", "p.toml"]);
    let mut run = Started(deaf(&mut command, libc::SIGCHLD).spawn().unwrap());
    assert_eq!(run.wait().code(), Some(3));
}

/// Makes the command start with a file open as descriptor 200, as a shell does with `200>lock`.
fn leave_open(command: &mut Command, file: &std::fs::File) {
    let number = file.as_raw_fd();
    // SAFETY: `dup2` may be called between fork and exec. The new descriptor is not closed on exec.
    unsafe {
        command.pre_exec(move || match libc::dup2(number, 200) {
            200 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

#[test]
fn the_broker_holds_no_file_of_who_started_it_and_answers_for_no_service() {
    let place = Place::new();
    let path = place.write("lock", "").canonicalize().unwrap();
    let lock = std::fs::File::open(&path).unwrap();
    let mut command = place.command(&["run", "-n", "holder", "sleep", "600"]);
    leave_open(&mut command, &lock);
    command
        .env("NOTIFY_SOCKET", "/nowhere")
        .env("LISTEN_FDS", "1");
    let _run = Started(command.spawn().unwrap());
    let program = place.attached("holder").pid.unwrap();
    let given = std::fs::read_link(format!("/proc/{program}/fd/200"));
    assert_eq!(given.unwrap(), path, "the program has what it was given");
    let broker = place.listing().unwrap().pid;
    let environment = std::fs::read(format!("/proc/{broker}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("NOTIFY_SOCKET=") && !environment.contains("LISTEN_FDS="));
    let held = std::fs::read_dir(format!("/proc/{broker}/fd")).unwrap();
    let mut held = held
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    assert!(held.all(|file| file != path));
}

#[test]
fn what_adopts_in_the_background_holds_no_file_of_who_started_it() {
    let place = Place::new();
    let path = place.write("lock", "").canonicalize().unwrap();
    let lock = std::fs::File::open(&path).unwrap();
    let program = Started(Command::new("sleep").arg("600").spawn().unwrap());
    let pid = program.0.id().to_string();
    let mut command = place.command(&["adopt", "--detach", &pid]);
    leave_open(&mut command, &lock);
    assert!(command.status().unwrap().success());
    let holders: Vec<String> = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            std::fs::read_link(entry.path().join("fd/200")).is_ok_and(|file| file == path)
        })
        .map(|entry| entry.path().display().to_string())
        .collect();
    assert!(holders.is_empty(), "{holders:?}");
}

#[test]
fn what_adopt_and_set_did_is_one_line() {
    let place = Place::new();
    let program = Started(Command::new("sleep").arg("600").spawn().unwrap());
    let pid = program.0.id().to_string();
    let output = place.call(&["adopt", "-d", "-n", "sleeper", "-w", "40", &pid]);
    let adopted = stderr(&output);
    let start = format!(
        "plimsoll: process {pid} is adopted: counted and shown, not steered; `sleeper`, weight 40, limit "
    );
    let limit = adopted.strip_prefix(&start).unwrap_or("0");
    assert!(
        !limit.starts_with('0') && adopted.lines().count() == 1,
        "{adopted}"
    );
    let set = |args: &[&str]| {
        let output = place.call(&[&["set", "sleeper"], args].concat());
        assert!(output.status.success() && output.stdout.is_empty());
        stderr(&output)
    };
    let told = "plimsoll: `sleeper`: weight 40 -> 10, max none -> 250M\n";
    assert_eq!(set(&["-w", "10", "--max", "250M"]), told);
    assert_eq!(set(&["-q", "-w", "20"]), "");
}
