//! Sweeps of `plimsoll sim` that are kept in a file: interrupted, continued, refused.

#[path = "../../cli/tests/common/mod.rs"]
mod common;

use common::{Place, Started, stderr, wait_for};
use plimsoll_testbed::{Tmpfs, skip};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

/// A small trace of 81 threads.
const SYNTH: [&str; 8] = [
    "trace", "synth", "hsqldb", "--scale", "300", "--seed", "3", "-o",
];
/// Twelve simulations of it; one of them finds its heap too small.
const SWEEP: [&str; 10] = [
    "sim",
    "t",
    "-c",
    "genmc,semispace",
    "--heap",
    "0.5,3",
    "-q",
    "1.14ms,10us",
    "-s",
    "rr,mqrr",
];

fn place() -> Place {
    let place = Place::new();
    place.text(&[&SYNTH[..], &["t"]].concat());
    place
}

fn sweep(place: &Place, more: &[&str]) -> Output {
    place.call(&[&SWEEP[..], more].concat())
}

fn stdout(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn a_sweep_is_one_file_and_the_same_bytes_each_time() {
    let place = place();
    let out = sweep(&place, &["-o", "a.parquet", "-j", "1"]);
    // The small heaps have no outcome.
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    let said = "a.parquet: 12 simulations, 12 of them made now, 6 without an outcome\n";
    assert_eq!(stdout(&out), said);
    let why = stderr(&out);
    assert!(
        why.contains("without an outcome: RR with GenMC, heap 137K and 2 more: "),
        "{why}"
    );
    assert!(why.contains("the heap is too small"), "{why}");
    sweep(&place, &["-o", "b.parquet", "-j", "3"]);
    let bytes = read(&place.path("a.parquet"));
    assert!(bytes == read(&place.path("b.parquet")));
    assert!(!place.path("a.parquet.cells").exists());
    // Nothing is made again, and what is printed of it is what a run without a file prints.
    let out = sweep(&place, &["-o", "a.parquet"]);
    assert!(stdout(&out).contains(" 0 of them made now"), "{out:?}");
    assert!(bytes == read(&place.path("a.parquet")));
    for form in ["--json", "--csv"] {
        let kept = sweep(&place, &["-o", "a.parquet", form]);
        assert_eq!(stdout(&kept), stdout(&sweep(&place, &[form])));
    }
    sweep(&place, &["-o", "a.parquet", "--html", "a.html"]);
    let page = String::from_utf8(read(&place.path("a.html"))).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("Without an outcome"));
    assert_eq!(page, stdout(&sweep(&place, &["--html", "-"])));
    // More schedulers: only what is new is made.
    let out = place.call(&[&SWEEP[..], &["-s", "larf", "-o", "a.parquet"]].concat());
    assert!(
        stdout(&out).contains("20 simulations, 8 of them made now"),
        "{out:?}"
    );
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_was() {
    let place = place();
    sweep(&place, &["-o", "whole.parquet"]);
    let whole = read(&place.path("whole.parquet"));
    let cells = place.path("a.parquet.cells");
    for signal in [libc::SIGKILL, libc::SIGINT] {
        let args = [&SWEEP[..], &["-o", "a.parquet", "-j", "1"]].concat();
        let mut sim = place.start(&args);
        // On a fast machine it may be done before the signal comes.
        wait_for("a simulation is kept, or all are", || {
            let kept = cells.metadata().is_ok_and(|it| it.len() > 0);
            (kept || place.path("a.parquet").exists()).then_some(())
        });
        sim.signal(signal);
        sim.wait();
    }
    // A line that was written by half, and one that the disk has changed.
    if cells.exists() {
        let mut bytes = read(&cells);
        let end = bytes.len() - 40;
        bytes.truncate(end);
        bytes[60] ^= 1;
        std::fs::write(&cells, &bytes).unwrap();
    }
    let out = sweep(&place, &["-o", "a.parquet"]);
    assert!(stdout(&out).contains("12 simulations"), "{out:?}");
    assert!(whole == read(&place.path("a.parquet")));
    assert!(!cells.exists());
}

#[test]
fn a_worker_makes_one_simulation_of_the_plan() {
    let place = place();
    let plan = stdout(&sweep(&place, &["-o", "a.parquet", "--plan"]));
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["cells_file"], "a.parquet.cells");
    assert!(!place.path("a.parquet.cells").exists());
    let cells = plan["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 12);
    for cell in cells.iter().rev() {
        assert_eq!(
            (&cell["done"], &cell["trace"]),
            (&false.into(), &"t".into())
        );
        assert!(cell["events"].as_u64() > Some(1000));
        let number = cell["number"].to_string();
        let out = sweep(&place, &["-o", "a.parquet", "--cell", &number]);
        assert!(out.status.success(), "{}", stderr(&out));
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(place.path("a.parquet.cells"))
            .unwrap();
        std::io::Write::write_all(&mut file, &out.stdout).unwrap();
    }
    let out = sweep(&place, &["-o", "a.parquet"]);
    assert!(stdout(&out).contains(" 0 of them made now"), "{out:?}");
    sweep(&place, &["-o", "b.parquet"]);
    assert!(read(&place.path("a.parquet")) == read(&place.path("b.parquet")));
    let out = sweep(&place, &["--cell", "12"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("the plan has 12"), "{}", stderr(&out));
}

/// Python with our modules and the package for clusters, in a place; `None` where it has none.
fn python(place: &Place, args: &[&str]) -> Option<Output> {
    let run = |args: &[&str]| {
        let mut command = plimsoll_testbed::python(args);
        command.current_dir(place.path("")).output().ok()
    };
    match run(&["-c", "import distributed"]) {
        Some(out) if out.status.success() => run(args),
        _ => {
            skip("Python has no Dask (tools/setup.sh test fetches it)");
            None
        }
    }
}

#[test]
fn a_cluster_makes_the_same_file() {
    let place = place();
    sweep(&place, &["-o", "b.parquet"]);
    // One is done already.
    let line = sweep(&place, &["-o", "a.parquet", "--cell", "3"]).stdout;
    std::fs::write(place.path("a.parquet.cells"), &line[..]).unwrap();
    let program = common::OWN;
    let cluster = [
        "-m",
        "plimsoll.sweep",
        "--workers",
        "2",
        "--plimsoll",
        program,
        "--",
    ];
    let on = |more: &[&str]| python(&place, &[&cluster[..], &SWEEP[1..], more].concat());
    let Some(out) = on(&["-o", "a.parquet"]) else {
        return;
    };
    let said = "a.parquet: 12 simulations, 0 of them made now, 6 without an outcome\n";
    assert_eq!(stdout(&out), said, "{}", stderr(&out));
    assert_eq!(out.status.code(), Some(1));
    assert!(read(&place.path("a.parquet")) == read(&place.path("b.parquet")));
    assert!(!place.path("a.parquet.cells").exists());
    // A refusal by `plimsoll sim` is told in its words.
    place.write("text.parquet", "my thesis");
    let call = "import plimsoll.sweep as s, sys; s.sweep(None, sys.argv[2:], sys.argv[1])";
    let args = [&["-c", call, program], &SWEEP[1..], &["-o", "text.parquet"]].concat();
    let out = python(&place, &args).expect("it was there before");
    let why = "SweepError: plimsoll: text.parquet: it is no Parquet";
    assert!(stderr(&out).contains(why), "{}", stderr(&out));
}

/// A cluster that somebody started: its scheduler says where it is, a worker joins it.
#[test]
fn a_cluster_that_runs_already_makes_the_same_file() {
    let place = place();
    sweep(&place, &["-o", "b.parquet"]);
    if python(&place, &["-c", ""]).is_none() {
        return;
    }
    let started = |args: &[&str]| {
        let mut command = plimsoll_testbed::python(&[&["-m"], args].concat());
        command.current_dir(place.path("")).stdout(Stdio::null());
        Started(command.stderr(Stdio::null()).spawn().expect("started"))
    };
    let file = ["--scheduler-file", "cluster.json"];
    let here = ["--host", "127.0.0.1", "--no-dashboard"];
    let head = ["distributed.cli.dask_scheduler", "--port", "0"];
    let scheduler = started(&[&head[..], &here, &file].concat());
    let address = wait_for("the scheduler listens", || {
        let told = std::fs::read_to_string(place.path("cluster.json")).ok()?;
        let told: serde_json::Value = serde_json::from_str(&told).ok()?;
        told["address"].as_str().map(str::to_owned)
    });
    let worker = ["distributed.cli.dask_worker", &address, "--nthreads", "2"];
    let _worker = started(&[&worker[..], &here, &["--no-nanny"]].concat());
    let program = common::OWN;
    let cluster = [
        "-m",
        "plimsoll.sweep",
        "--cluster",
        &address,
        "--plimsoll",
        program,
        "--",
    ];
    let args = [&cluster[..], &SWEEP[1..], &["-o", "a.parquet"]].concat();
    let out = python(&place, &args).expect("it was there before");
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    assert!(read(&place.path("a.parquet")) == read(&place.path("b.parquet")));
    // Nobody listens there any more.
    drop(scheduler);
    let soon = "import dask, sys, plimsoll.sweep as s; \
                dask.config.set({'distributed.comm.timeouts.connect': '1s'}); s.main()";
    let args = [&["-c", soon], &args[2..]].concat();
    let out = python(&place, &args).expect("it was there before");
    assert_eq!(out.status.code(), Some(1));
    let said = stderr(&out);
    assert!(
        said.starts_with("plimsoll.sweep: ") && said.contains(&address),
        "{said}"
    );
}

/// Failures on workers are told, all else is kept, and the same sweep goes on later.
#[test]
fn workers_that_die_or_miss_something_cost_only_their_own_simulations() {
    let place = place();
    sweep(&place, &["-o", "b.parquet"]);
    let program = common::OWN;
    let on = |program: &str| {
        let cluster = ["-m", "plimsoll.sweep", "--workers", "2", "--plimsoll"];
        let args = [
            &cluster[..],
            &[program, "--"],
            &SWEEP[1..],
            &["-o", "a.parquet"],
        ];
        python(&place, &args.concat())
    };
    // A program that is gone once the plan is made; a trace that is; a worker that dies of one simulation.
    let broken = [
        ("missing", "rm \"$0\"", "missing cannot be started in"),
        (
            "no-trace",
            "case \"$*\" in *--plan) ;; *) rm -f t;; esac",
            "t: ",
        ),
        (
            "dies",
            "case \"$*\" in *'--cell 5') kill -9 $PPID;; esac",
            "died",
        ),
    ];
    for (name, breaks, why) in broken {
        let script = format!("#!/bin/sh\n{breaks}\nexec {program} \"$@\"\n");
        let path = place.write(name, &script);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let Some(out) = on(&path.display().to_string()) else {
            return;
        };
        let said = stderr(&out);
        assert_eq!(out.status.code(), Some(1), "{name}: {said}");
        assert!(
            said.contains("simulations could not be made: "),
            "{name}: {said}"
        );
        assert!(said.contains(why), "{name}: {said}");
        assert!(!place.path("a.parquet").exists(), "{name}");
        place.text(&[&SYNTH[..], &["t"]].concat());
    }
    let out = on(program).expect("it was there before");
    assert!(
        stdout(&out).starts_with("a.parquet: 12 simulations"),
        "{}",
        stderr(&out)
    );
    assert!(read(&place.path("a.parquet")) == read(&place.path("b.parquet")));
}

/// Nothing is at this path afterwards that was not there before, and what is there is said to stay.
#[track_caller]
fn refused(place: &Place, path: &str, why: &str) {
    let before = std::fs::read(place.path(path)).ok();
    let out = sweep(place, &["-o", path]);
    assert_eq!(out.status.code(), Some(1), "{path}");
    assert!(stderr(&out).contains(why), "{path}: {}", stderr(&out));
    assert_eq!(std::fs::read(place.path(path)).ok(), before);
}

#[test]
fn what_would_be_lost_is_refused() {
    let place = place();
    place.write("text.parquet", "my thesis");
    refused(
        &place,
        "text.parquet",
        "text.parquet: it is no Parquet. It stays as it is",
    );
    refused(&place, ".", "it is no regular file");
    refused(
        &place,
        "absent/x.parquet",
        "absent/x.parquet.cells: No such file",
    );
    refused(&place, "/dev/null", "it is no regular file");
    place.write("x.parquet.cells", "my thesis\n");
    refused(
        &place,
        "x.parquet",
        "x.parquet.cells: it is no list of simulations",
    );
    assert_eq!(read(&place.path("x.parquet.cells")), b"my thesis\n");
    // Another sweep is there, finished or not.
    place.call(&["sim", "t", "--heap", "4", "-o", "other.parquet"]);
    let why = "simulations of other traces, settings or versions are in it (3), and would be lost";
    refused(&place, "other.parquet", why);
    let line = place.text(&["sim", "t", "--heap", "4", "--cell", "1"]);
    place.write("half.parquet.cells", &line);
    refused(
        &place,
        "half.parquet",
        "half.parquet.cells: simulations of other",
    );
    // Another trace of the same name is another trace.
    place.call(&["sim", "t", "-o", "same.parquet"]);
    place.text(&[&SYNTH[..6], &["4", "-o", "t"]].concat());
    let out = place.call(&["sim", "t", "-o", "same.parquet"]);
    assert!(stderr(&out).contains("of other traces"), "{}", stderr(&out));
}

#[test]
fn a_full_disk_costs_nothing_that_was_done() {
    let place = place();
    sweep(&place, &["-o", "b.parquet"]);
    // Full before all are kept, and full before the file is whole.
    for size in ["size=8k,mode=755", "size=16k,mode=755"] {
        let Some(disk) = Tmpfs::mount(size) else {
            return;
        };
        let file = disk.path().join("a.parquet").display().to_string();
        let out = sweep(&place, &["-o", &file, "-j", "1"]);
        assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
        let said = stderr(&out);
        assert!(said.contains("No space left on device"), "{said}");
        let what_to_do = "is kept: make room, and give the same command again";
        assert!(said.contains(what_to_do), "{said}");
        disk.remount("size=1m");
        let out = sweep(&place, &["-o", &file]);
        let said = stdout(&out);
        assert!(said.contains("12 simulations,"), "{said}{}", stderr(&out));
        assert!(!said.contains("12 of them made now"), "{said}");
        assert!(read(Path::new(&file)) == read(&place.path("b.parquet")));
    }
}
