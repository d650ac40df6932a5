//! Machines under a filter that ends them for unusual system calls, as services of systemd are.

use crate::machine::{Sums, Way};
use crate::support::jdks;
use plimsoll_kernel::stalls::Tier;
use plimsoll_testbed::skip;
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::collections::Wish;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that sets the filter. `None` with a message where none can be had.
fn filter(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("filtered");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/filtered.c");
    let compiled = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-o"])
        .args([&program, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        skip("no C compiler");
        return None;
    }
    let tried = Command::new(&program).arg("true").status();
    if !tried.is_ok_and(|status| status.success()) {
        skip("no program can be put under a filter of system calls here");
        return None;
    }
    Some(program)
}

/// Without rights, so that the best signal is closed to it and others are thought of.
const WITHOUT_RIGHTS: [&str; 3] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];

fn lives(before: &[&str], home: &Path, collector: &str, way: Way) {
    let (mut sums, page) = Sums::after(before, home, collector, way, &[]);
    let what = format!("{collector}, {way:?}");
    let status = std::fs::read_to_string(sums.process.path("status")).unwrap();
    assert!(status.contains("Seccomp:\t2"), "{what}: {status}");
    let about = page.view().unwrap().about();
    let tier = Tier::from_number(about.signal as u8);
    assert!(tier.is_some_and(Tier::is_usual), "{what}: {about:?}");
    let why = "filter of system calls";
    assert!(about.signal_text.contains(why), "{what}: {about:?}");
    // A wish makes the agent look for the regions of G1 that are in memory.
    sums.wishes(&page, Some(Wish::stay(Bytes::ZERO)));
    let told = sums.collects(&page, 3);
    if collector != "Z" {
        sums.collects_whole(&page);
        sums.wishes(&page, Some(Wish::stay(Bytes::mib(100))));
        let told = sums.collects(&page, 3);
        assert!(told.given_back > MIB, "{what}: {told:?}");
    }
    assert_eq!(told.missed, 0, "{what}");
    sums.goes_on();
    sums.quit();
}

#[test]
fn no_call_of_the_agent_ends_a_machine_under_a_filter() {
    let folder = tempfile::tempdir().unwrap();
    let Some(filter) = filter(folder.path()) else {
        return;
    };
    let Some((_, home)) = jdks().into_iter().find(|(version, _)| *version == 17) else {
        return skip("no JDK 17");
    };
    let filter = filter.to_string_lossy().into_owned();
    let before: Vec<&str> = [filter.as_str()]
        .into_iter()
        .chain(WITHOUT_RIGHTS)
        .collect();
    for (collector, way) in [
        ("Serial", Way::Start),
        ("G1", Way::Attach),
        ("G1", Way::Start),
        ("Z", Way::Attach),
    ] {
        lives(&before, &home, collector, way);
    }
}
