//! libgc, as Guile uses it.

use crate::support::{Program, is_near};
use plimsoll_map::Kind;
use std::path::Path;
use std::process::Command;

#[test]
fn the_heap_is_what_libgc_says() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/languages/programs/hold.scm");
    if Command::new("guile").arg("--version").output().is_err() {
        plimsoll_testbed::skip("there is no Guile");
        return;
    }
    let mut command = Command::new("guile");
    command
        .args(["--no-auto-compile", "-s"])
        .arg(script)
        .arg("100");
    let program = Program::start(&mut command);
    let seen = program.look();
    let says = format!(
        "{:?} says {:?} {:?}",
        seen.bytes, program.says, seen.labels.notes
    );
    println!("{says}");
    assert_eq!(seen.runtime, "libgc", "{says}");
    let (heap, free) = (program.said("heap"), program.said("free"));
    assert!(heap > 75 << 20, "{says}");
    assert!(
        is_near(seen.of(Kind::Heap) + seen.of(Kind::FreeHeap), heap),
        "{says}"
    );
    assert!(
        seen.of(Kind::FreeHeap).abs_diff(free) <= heap / 20,
        "{says}"
    );
}
