//! Go.

use crate::support::{Program, is_near};
use plimsoll_map::Kind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The flag with which C comes into the program.
const WITH_C: &str = "-tags=c";

/// Builds the program that holds memory. `None` without Go.
pub(crate) fn built(name: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/languages/programs");
    let sources = [sources.join("hold.go"), sources.join("hold_c.go")];
    let sources = if flags.contains(&WITH_C) {
        &sources[..]
    } else {
        &sources[..1]
    };
    let built = Command::new("go")
        .arg("build")
        .args(flags)
        .arg("-o")
        .arg(&program)
        .args(sources)
        .status();
    match built {
        Ok(status) if status.success() => Some(program),
        _ => {
            plimsoll_testbed::skip("there is no Go that builds a program");
            None
        }
    }
}

fn is_seen(program: &Path) {
    let program = Program::start(Command::new(program).arg("180"));
    let seen = program.look();
    assert_eq!(seen.runtime, "Go");
    let said = |name| program.said(name);
    println!("{:?} says {:?}", seen.bytes, program.says);
    assert!(said("heap") > 100 << 20);
    assert!(
        is_near(seen.of(Kind::Heap), said("heap")),
        "{:?}",
        seen.bytes
    );
    assert!(
        is_near(seen.of(Kind::FreeHeap), said("idle")),
        "{:?}",
        seen.bytes
    );
    assert!(
        is_near(seen.of(Kind::Stacks), said("stacks")),
        "{:?}",
        seen.bytes
    );
}

#[test]
fn objects_free_memory_and_stacks_are_what_the_runtime_says() {
    if let Some(program) = built("hold-go", &[]) {
        is_seen(&program);
    }
}

#[test]
fn a_stripped_program_that_is_loaded_anywhere_shows_as_much() {
    let flags = ["-ldflags=-s -w", "-buildmode=pie"];
    if let Some(program) = built("hold-go-stripped", &flags) {
        is_seen(&program);
    }
}

#[test]
fn a_program_with_c_in_it_shows_as_much() {
    if let Some(program) = built("hold-go-c", &[WITH_C]) {
        is_seen(&program);
    }
}
