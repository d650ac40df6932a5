//! Programs whose memory is in swap: nothing comes back for a look, and what cannot be told is said.

use crate::support::{Program, Seen};
use plimsoll_kernel::advise::{Advice, advise_ranges};
use plimsoll_kernel::process::Process;
use plimsoll_kernel::smaps::{Addresses, areas};
use plimsoll_map::Kind;
use plimsoll_testbed::{SwapFile, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

fn program(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/languages/programs");
    programs.join(name)
}

/// Major faults so far.
fn faults(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    after_name
        .split_whitespace()
        .nth(9)
        .unwrap()
        .parse()
        .unwrap()
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
    let private = || -> (Vec<Addresses>, u64) {
        let areas = areas(&process, 100_000).unwrap();
        let swapped = areas.iter().map(|area| area.swap).sum();
        let of_none = areas
            .iter()
            .filter(|area| area.file.inode == 0 && area.anonymous > 0);
        (
            of_none.map(|area| area.addresses.clone()).collect(),
            swapped,
        )
    };
    if let Err(error) = advise_ranges(&process, Advice::PageOut, &private().0) {
        skip(format_args!(
            "memory of others cannot be paged out here: {error}"
        ));
        return None;
    }
    let (before, faults_before) = (private().1, faults(program.pid()));
    if before < 20 << 20 {
        skip("the kernel did not page out");
        return None;
    }
    let seen = program.look();
    assert_eq!(private().1, before, "something came back from swap");
    assert_eq!(faults(program.pid()), faults_before);
    println!("{} {:?} {:?}", seen.runtime, seen.bytes, seen.labels.notes);
    Some(seen)
}

#[test]
fn nothing_comes_back_and_notes_say_what_is_not_known() {
    let swap = SwapFile::new(Path::new(env!("CARGO_TARGET_TMPDIR")), 256 << 20);
    let Ok(_swap) = swap.map_err(|error| skip(format_args!("no swap of our own: {error}"))) else {
        return;
    };
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
