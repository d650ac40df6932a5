//! Counters of real Java virtual machines that make no file of them. Needs a JDK; says so and passes where
//! there is none.

mod support;

use plimsoll_programs::hotspot::hsperfdata::{PerfError, PerfFile};
use plimsoll_runtimes::hotspot::attach::Attach;
use plimsoll_runtimes::hotspot::machine::Machine;
use plimsoll_runtimes::hotspot::snapshot::Snapshot;
use rustix::process::Signal;
use support::{LONG, Program, eventually, jdks};

/// Such a machine makes no file of its counters.
#[test]
fn counters_that_are_in_no_file_are_found_in_memory() {
    for (row, (_, home)) in jdks().into_iter().enumerate() {
        let flag = ["-XX:+UseSerialGC", "-XX:+UseG1GC"][row % 2];
        let flags = [flag, "-XX:+PerfDisableSharedMem", "-Xmx600m"];
        let mut program = Program::start(&home, &[], &flags, &["60", "200", "2"]);
        let process = program.machine();
        let machine = Machine::ask(&Attach::new(process).unwrap(), LONG).unwrap();
        let absent = PerfFile::open(&process);
        assert!(
            matches!(absent, Err(PerfError::Absent { .. })),
            "{absent:?}"
        );
        let size = machine.flags.number("PerfDataMemorySize").unwrap();
        let (mut perf, searched) =
            PerfFile::in_memory(&process, machine.heap.as_ref(), size).unwrap();
        assert!(searched.found && !searched.cut, "{searched:?}");
        assert!(perf.is_of(&process));
        let mut young = || Snapshot::of(perf.read().unwrap()).work[0].invocations;
        let before = young();
        eventually("they are those of this moment", || young() > before + 2);
        process.signal(Signal::KILL).unwrap();
        program.child.wait().unwrap();
        assert!(matches!(perf.read(), Err(PerfError::Gone { .. })));
    }
}

#[test]
fn without_counters_it_says_so() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let program = Program::start(&home, &[], &["-XX:-UsePerfData", "-Xmx64m"], &["5", "10"]);
    assert!(matches!(
        PerfFile::open(&program.machine()),
        Err(PerfError::Absent { .. })
    ));
}
