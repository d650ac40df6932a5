//! CPython.

use crate::support::{Program, is_near};
use plimsoll_map::Kind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreters of this machine, those that `pyenv` has among them, once each.
fn interpreters() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/usr/bin/python3")];
    if let Some(home) = std::env::home_dir()
        && let Ok(versions) = std::fs::read_dir(home.join(".pyenv/versions"))
    {
        found.extend(
            versions
                .flatten()
                .map(|version| version.path().join("bin/python")),
        );
    }
    found.retain(|python| {
        let version = Command::new(python).arg("--version").output();
        // Older ones say nothing about their arenas.
        version.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).starts_with("Python 3"))
    });
    found
}

#[test]
fn arenas_are_what_the_allocator_says() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/languages/programs/hold.py");
    let found = interpreters();
    if found.is_empty() {
        plimsoll_testbed::skip("there is no Python 3");
    }
    for python in found {
        let program = Program::start(Command::new(&python).arg(&script).arg("100"));
        let seen = program.look();
        let says = format!(
            "{}: {:?} says {:?} {:?}",
            python.display(),
            seen.bytes,
            program.says,
            seen.labels.notes
        );
        println!("{says}");
        assert_eq!(seen.runtime, "CPython", "{says}");
        let (arenas, unused) = (program.said("arenas"), program.said("unused"));
        assert!(arenas > 90 << 20, "{says}");
        assert!(is_near(seen.of(Kind::Heap), arenas - unused), "{says}");
        assert!(
            is_near(seen.of(Kind::Heap) + seen.of(Kind::FreeHeap), arenas),
            "{says}"
        );
        let free = seen.of(Kind::FreeHeap);
        assert!(free.abs_diff(unused) <= arenas / 50, "{says}");
    }
}
