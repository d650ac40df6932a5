//! Programs whose memory is in swap: nothing comes back for a look, and what cannot be told is said.

use crate::support::{Program, Seen};
use plimsoll_kernel::advise::{Advice, advise_ranges};
use plimsoll_kernel::process::{Faults, Process};
use plimsoll_kernel::smaps::{Addresses, areas};
use plimsoll_map::{Kind, Options, Watch};
use plimsoll_testbed::java::{javac, jdks};
use plimsoll_testbed::{SwapFile, children, skip};
use plimsoll_unit::Bytes;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// One at a time: what is in the swap of one comes back when that of another one goes.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Swap of our own, or a message why there is none.
fn swap() -> Option<SwapFile> {
    let swap = SwapFile::new(Path::new(env!("CARGO_TARGET_TMPDIR")), Bytes::mib(256));
    swap.map_err(|error| skip(format_args!("no swap of our own: {error}")))
        .ok()
}

fn program(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/languages/programs");
    programs.join(name)
}

/// Checks that a program that stands still has as much in swap as before (the kernel may have put more there
/// of its own accord), and that it had no faults.
#[track_caller]
fn nothing_came_back(process: &Process, (swapped, faults): (u64, Faults)) {
    let now = private(process).1;
    assert!(now >= swapped, "{now} of {swapped}: some came back");
    assert_eq!(process.faults().unwrap(), faults);
}

/// Where private memory of a process is, and how much is in swap.
fn private(process: &Process) -> (Vec<Addresses>, u64) {
    let areas = areas(process, 100_000).unwrap();
    let swapped = areas.iter().map(|area| area.swap).sum();
    let of_none = areas
        .iter()
        .filter(|area| area.file.inode == 0 && area.anonymous > 0);
    (
        of_none.map(|area| area.addresses.clone()).collect(),
        swapped,
    )
}

/// Puts private memory of a process into swap. `None` if less than `least` bytes got there.
fn page_out(process: &Process, least: u64) -> Option<()> {
    if let Err(error) = advise_ranges(process, Advice::PageOut, &private(process).0) {
        skip(format_args!(
            "memory of others cannot be paged out here: {error}"
        ));
        return None;
    }
    if private(process).1 < least {
        skip("the kernel did not page out");
        return None;
    }
    Some(())
}

/// Starts a program, pages it out, and looks at it. `None` if this machine cannot.
fn looked_at(mut command: Command) -> Option<Seen> {
    let program = match Program::try_start(&mut command) {
        Ok(program) => program,
        Err(error) => {
            skip(format_args!(
                "{:?} does not start: {error}",
                command.get_program()
            ));
            return None;
        }
    };
    let process = Process::open(program.pid()).unwrap();
    // Threads of its own that wake up now and then would read their pages.
    children::stop(program.pid().unsigned_abs(), PATIENCE);
    page_out(&process, 20 << 20)?;
    let before = (private(&process).1, process.faults().unwrap());
    let seen = program.look();
    nothing_came_back(&process, before);
    println!("{} {:?} {:?}", seen.runtime, seen.bytes, seen.labels.notes);
    Some(seen)
}

#[test]
fn nothing_comes_back_and_notes_say_what_is_not_known() {
    let _one = alone();
    let Some(_swap) = swap() else { return };
    let mut node = Command::new("node");
    node.arg("--expose-gc").arg(program("hold.js")).arg("40");
    if let Some(seen) = looked_at(node) {
        // Pages are told by their place.
        assert!(seen.of(Kind::Heap) > 30 << 20, "{:?}", seen.bytes);
        assert!(
            seen.labels
                .notes
                .iter()
                .any(|note| note.contains("not in memory"))
        );
    }
    let mut python = Command::new("/usr/bin/python3");
    python.arg(program("hold.py")).arg("40");
    if let Some(seen) = looked_at(python) {
        assert!(seen.labels.notes.iter().any(|note| note.contains("memory")));
    }
    let mut guile = Command::new("guile");
    guile
        .args(["--no-auto-compile", "-s"])
        .arg(program("hold.scm"))
        .arg("40");
    if let Some(seen) = looked_at(guile) {
        assert!(seen.labels.notes.iter().any(|note| note.contains("memory")));
    }
    let go = crate::go::built("hold-go-swapped", &[]).map(|hold| {
        let mut command = Command::new(hold);
        command.arg("60");
        command
    });
    if let Some(seen) = go.and_then(looked_at) {
        assert!(
            seen.labels
                .notes
                .iter()
                .any(|note| note.contains("not in memory"))
        );
    }
}

/// The folder with the compiled program.
fn classes() -> Option<PathBuf> {
    let Some(javac) = javac() else {
        skip("no JDK with javac");
        return None;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java/Live.java");
    let mut compile = Command::new(javac);
    compile
        .args(["--release", "11", "-d"])
        .arg(&folder)
        .arg(source);
    assert!(compile.status().unwrap().success());
    Some(folder)
}

#[test]
fn a_machine_in_swap_stays_there() {
    let _one = alone();
    let Some(_swap) = swap() else { return };
    let Some(classes) = classes() else { return };
    let options = Options {
        addresses: true,
        who: true,
        ..Options::default()
    };
    for jdk in jdks().iter().filter(|jdk| [17, 25].contains(&jdk.version)) {
        for collector in ["G1", "Z", "Serial"] {
            let name = format!("{collector} {}", jdk.version);
            let mut java = Command::new(jdk.java());
            java.arg(format!("-XX:+Use{collector}GC"))
                .args(["-Xmx128m", "-cp"])
                .arg(&classes)
                .args(["Live", "40"]);
            let program = Program::start(&mut java);
            let process = Process::open(program.pid()).unwrap();
            children::stop(program.pid().unsigned_abs(), PATIENCE);
            // ZGC's heap is shared memory, and stays.
            if page_out(&process, 4 << 20).is_none() {
                return;
            }
            let before = (private(&process).1, process.faults().unwrap());
            let mut watch = Watch::default();
            for _ in 0..2 {
                let seen = watch.look(program.pid(), &options).unwrap();
                assert_eq!(seen.runtime.as_deref(), Some("HotSpot"), "{name}");
                nothing_came_back(&process, before);
            }
        }
    }
}
