//! Machines that the adapter steers by the agent.

use crate::machine::{Sums, library, resident, totals};
use crate::support::{MIB, Script, eventually, jdks};
use plimsoll_runtimes::link::Use;
use plimsoll_runtimes::{Ended, Options};
use std::path::Path;
use std::sync::atomic::Ordering;

/// A heap of one size follows a limit that comes down and goes up again.
fn follows(home: &Path, collector: &str) {
    let flags = [collector, "-Xms300m", "-Xmx300m", "-Xmn150m"];
    let sums = Sums::start(home, &[], &flags, ["20", "2"]);
    let what = format!("{collector} of {}", home.display());
    let (script, process) = (Script::default(), sums.process);
    let (mut link, pid) = (script.clone(), sums.program.child.id());
    let options = Options {
        agent: Use::Auto,
        own: Some(library()),
        ..Options::default()
    };
    let steering = std::thread::spawn(move || plimsoll_runtimes::run(&mut link, pid, &options));
    script.limit.store(600 * MIB, Ordering::Relaxed);
    eventually(&format!("{what} fills its heap"), || {
        sums.checked();
        resident(&process) > 180 * MIB
    });
    script.limit.store(140 * MIB, Ordering::Relaxed);
    eventually(&format!("{what} is at its limit"), || {
        sums.checked();
        resident(&process) < 145 * MIB
    });
    let page = sums.page();
    assert_eq!(page.view().unwrap().refusal(), None, "{what}");
    eventually(&format!("{what} was collected for that"), || {
        let told = totals(&page);
        told.given_back > 0 && told.full > 0
    });
    script.limit.store(600 * MIB, Ordering::Relaxed);
    eventually(&format!("{what} fills its heap again"), || {
        sums.checked();
        resident(&process) > 180 * MIB
    });
    sums.quit();
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}

#[test]
fn a_heap_of_one_size_follows_its_limit() {
    // Java 11 does not tell the least size.
    for (_, home) in jdks().into_iter().filter(|(version, _)| *version > 11) {
        for collector in ["-XX:+UseSerialGC", "-XX:+UseParallelGC", "-XX:+UseG1GC"] {
            follows(&home, collector);
        }
    }
}
