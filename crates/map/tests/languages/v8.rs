//! V8, as Node runs it.

use crate::support::{Program, is_near};
use plimsoll_map::Kind;
use std::path::Path;
use std::process::Command;

#[test]
fn young_and_old_objects_are_what_node_says() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/languages/programs/hold.js");
    let node = std::env::var("PLIMSOLL_NODE").unwrap_or("node".into());
    if Command::new(&node).arg("--version").output().is_err() {
        plimsoll_testbed::skip("there is no Node");
        return;
    }
    let program = Program::start(Command::new(node).arg("--expose-gc").arg(script).arg("100"));
    let seen = program.look();
    println!(
        "{:?} says {:?} {:?}",
        seen.bytes, program.says, seen.labels.notes
    );
    assert_eq!(seen.runtime, "V8");
    let said = |name| program.said(name);
    let heap = seen.of(Kind::Eden) + seen.of(Kind::FreeHeap) + seen.of(Kind::Old);
    assert!(said("used") > 95 << 20);
    assert!(
        is_near(heap, said("heap")),
        "{:?} {:?}",
        seen.bytes,
        program.says
    );
    let old = said("heap") - said("new_space_size") - said("code_space_size");
    assert!(
        is_near(seen.of(Kind::Old), old),
        "{:?} {:?}",
        seen.bytes,
        program.says
    );
    assert!(seen.of(Kind::CodeCache) > 0);
}
