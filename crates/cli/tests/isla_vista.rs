//! `plimsoll run --policy isla-vista` without a broker, on real machines under real pressure.

mod common;

use common::Place;
use common::ground::{MIB, alone, classes, enter, group, java};
use plimsoll_testbed::{SwapFile, skip};
use std::process::Output;

/// Runs our program with a live set in a machine with Serial, in a group with this limit (bytes).
/// `None` where that cannot be done here.
fn run(place: &Place, limit: Option<u64>, live: &str) -> Option<Output> {
    let classes = classes(place, &["bench/programs/Graph.java"])?;
    let java = java();
    let words = [
        "run",
        "-v",
        "--policy",
        "isla-vista",
        "--agent",
        "never",
        "--",
        &java,
        "-XX:+UseSerialGC",
        "-Xmx400m",
        "-cp",
        &classes,
        "Graph",
        live,
        "1000",
        "20",
    ];
    let mut command = place.command(&words);
    let group = match limit {
        Some(limit) => Some(group("isla-vista", limit)?),
        None => None,
    };
    if let Some(group) = &group {
        enter(&mut command, group);
    }
    Some(command.output().unwrap())
}

#[test]
fn a_heap_that_outgrows_memory_follows_its_stalls_and_no_broker_is_started() {
    let (_alone, place) = (alone(), Place::new());
    let Ok(_swap) = SwapFile::new(&place.path(""), 512 << 20) else {
        return skip("no swap file of our own here");
    };
    let Some(output) = run(&place, Some(128 * MIB), "60") else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no broker runs"), "{said}");
    assert!(said.contains("stalls: "), "{said}");
    assert!(said.contains("its heap follows Isla Vista"), "{said}");
    assert!(!place.socket().exists(), "no broker was started");
}

#[test]
fn without_pressure_a_machine_is_left_alone() {
    let (_alone, place) = (alone(), Place::new());
    let Some(output) = run(&place, None, "30") else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("-XX:-ShrinkHeapInSteps"), "{said}");
    assert!(
        !said.contains("-Xms") && !said.contains("follows Isla Vista"),
        "{said}"
    );
}
