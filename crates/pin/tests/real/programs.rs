//! Programs that change under us.

use crate::common::*;
use plimsoll_testbed::Child;
use plimsoll_unit::MIB;
use std::path::Path;

#[test]
fn a_process_that_becomes_another_program_is_watched_on() {
    let _one = alone();
    let Some(group) = group("pin-exec", 56 * MIB) else {
        return;
    };
    let dir = directory();
    let hot = make_file(dir.path(), "hot", FILE);
    let cold = make_file(dir.path(), "cold", 160 * MIB);
    let go = dir.path().join("go");
    let script = format!(
        "until [ -e {} ]; do sleep 0.1; done; {}",
        go.display(),
        become_pages(&hot)
    );
    let mut program = Child::start(Path::new("sh"), &["-c", &script], Some(&group)).unwrap();
    let mut pinner = pinner(options(), &[program.pid()]);
    // The shell is there first.
    let report = tick_until(&mut pinner, "watched", |report, _| report.present > 0);
    assert!(report.present < MIB * 8, "{report:?}");
    std::fs::write(go, "").unwrap();
    program.until(PATIENCE, |p| p.rounds >= 1).unwrap();
    let _stream = start_stream(&cold, Some(&group));
    tick_until(&mut pinner, "held", |report, pinner| {
        let held = pinner.held(1000);
        let of_file = held.iter().any(|range| range.path.ends_with("/hot"));
        of_file && report.held > AT_WORK && report.present > 0
    });
}
