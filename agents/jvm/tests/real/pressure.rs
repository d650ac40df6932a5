//! The stall signal: nothing without pressure, something under it.

use crate::machine::{Sums, library, totals};
use crate::support::{MIB, eventually, jdks};
use plimsoll_testbed::{SwapFile, TestCgroup, skip};
use rustix::process::Signal;
use std::path::Path;

#[test]
fn stalls_are_counted_under_pressure_and_only_there() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let cgroup = TestCgroup::new("agent-jvm", None);
    let swap = SwapFile::new(Path::new("/var/tmp"), 256 * MIB);
    let (cgroup, _swap) = match (cgroup, swap) {
        (Ok(cgroup), Ok(swap)) => (cgroup, swap),
        (cgroup, swap) => {
            skip(format_args!("{:?} {:?}", cgroup.err(), swap.err()));
            return;
        }
    };
    let load = format!("-agentpath:{}", library().display());
    let flags = ["-XX:+UseSerialGC", "-Xmx160m", "-Xmn80m", &load];
    // In the group from the first page on: what was touched before is counted elsewhere.
    let enter = format!("echo $$ > {}/cgroup.procs", cgroup.cgroup().dir().display());
    let enter = format!("{enter} && exec \"$0\" \"$@\"");
    let sums = Sums::start(&home, &["sh", "-c", &enter], &flags, ["60", "2"]);
    let page = sums.page();
    let quiet = sums.collects(&page, 4);
    assert_eq!((quiet.stalls, quiet.stall_ns), (0, 0), "{quiet:?}");
    // Less than what lives: it cannot but page.
    // Stopped meanwhile: the kernel gives up where a program uses pages again faster than they are taken.
    sums.process.signal(Signal::STOP).unwrap();
    eventually("the limit comes down", || {
        cgroup.cgroup().set_limit(Some(72 * MIB)).is_ok()
    });
    sums.process.signal(Signal::CONT).unwrap();
    eventually("pauses stall", || {
        sums.checked();
        let told = totals(&page);
        told.stalls > 0 || told.stall_ns > 0
    });
    eventually("pauses read from swap", || {
        sums.checked();
        totals(&page).major_faults > 0
    });
    let whole = page.view().unwrap().process().unwrap();
    let within = totals(&page);
    assert!(whole.stalls >= within.stalls && whole.major_faults >= within.major_faults);
    cgroup.cgroup().set_limit(None).unwrap();
    sums.goes_on();
    sums.quit();
}
