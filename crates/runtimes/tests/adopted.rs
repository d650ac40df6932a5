//! How Java virtual machines follow a limit that were started without our flags, and those on Parallel,
//! which hardly follow.
//!
//! Needs a JDK, as `hotspot.rs` does.

mod support;

use plimsoll_runtimes::adapter_lock::AdapterLock;
use plimsoll_runtimes::hotspot::attach::Attach;
use plimsoll_runtimes::hotspot::collector::Collector;
use plimsoll_runtimes::hotspot::footprint::Gauge;
use plimsoll_runtimes::hotspot::machine::Machine;
use plimsoll_runtimes::hotspot::snapshot::Snapshot;
use plimsoll_runtimes::{Ended, Options};
use plimsoll_testbed::cases;
use plimsoll_unit::MIB;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use support::{LONG, Program, Script, counters, eventually, jdks};

/// Several machines at a time are too slow to follow a limit.
static TURN: Mutex<()> = Mutex::new(());

/// The program's live memory and its allocation per second, in MB, and the percentage of the allocation
/// that replaces live memory.
const WORK: [&str; 3] = ["60", "200", "2"];

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that is steered.
struct Steered {
    program: Program,
    script: Script,
    steering: JoinHandle<Ended>,
    gauge: Gauge,
}

impl Steered {
    /// Steers a program to 600 MiB.
    fn new(program: Program, collector: Collector) -> Steered {
        let gauge = Gauge::new(program.machine(), collector);
        let script = Script::default();
        script.limit.store(600 * MIB, Ordering::Relaxed);
        let (mut link, pid) = (script.clone(), program.child.id());
        let steering =
            std::thread::spawn(move || plimsoll_runtimes::run(&mut link, pid, &Options::default()));
        Steered {
            program,
            script,
            steering,
            gauge,
        }
    }

    /// A program that was started without our flags.
    fn adopted(home: &Path, flag: &str, collector: Collector) -> Steered {
        let program = Program::start(home, &[], &[flag, "-Xmx600m"], &WORK);
        Steered::new(program, collector)
    }

    fn limit(&self, bytes: u64) {
        self.script.limit.store(bytes, Ordering::Relaxed);
    }

    fn uses(&self) -> u64 {
        self.gauge.uses().map_or(0, |uses| uses.0)
    }

    /// Number of collections that the adapter has reported.
    fn collections(&self) -> u64 {
        let report = *self.script.report.lock().unwrap();
        report.collections.unwrap_or(0)
    }

    fn end(self) {
        drop(self.program);
        assert_eq!(self.steering.join().unwrap(), Ended::ProgramGone);
    }
}

/// It comes down from what it takes by itself. Which versions are tested depends on the column.
fn follows(flag: &str, collector: Collector, column: usize) {
    let _turn = turn();
    for (_, home) in cases::of_column(jdks(), column, 2) {
        let name = format!("{flag} of {}", home.display());
        let one = Steered::adopted(&home, flag, collector);
        eventually(&format!("{name} grows"), || one.uses() > 350 * MIB);
        one.limit(280 * MIB);
        eventually(&format!("{name} shrinks"), || one.uses() < 330 * MIB);
        eventually(&format!("{name} reports"), || one.collections() > 0);
        one.end();
    }
}

#[test]
fn an_adopted_g1_follows_its_limit() {
    follows("-XX:+UseG1GC", Collector::G1, 0);
}

/// Serial never becomes smaller than it was at first, so it starts small. Its memory beyond the young
/// generation is garbage that has become old. That comes at a few megabytes a second, and is not waited for.
#[test]
fn an_adopted_serial_follows_its_limit() {
    let _turn = turn();
    for (_, home) in jdks() {
        let name = home.display().to_string();
        let flags = ["-XX:+UseSerialGC", "-Xms16m", "-Xmx600m"];
        let program = Program::start(&home, &[], &flags, &WORK);
        let one = Steered::new(program, Collector::Serial);
        eventually(&format!("{name} grows"), || one.uses() > 220 * MIB);
        one.limit(190 * MIB);
        eventually(&format!("{name} shrinks"), || one.uses() < 200 * MIB);
        one.end();
    }
}

#[test]
fn an_adopted_shenandoah_follows_its_limit() {
    follows("-XX:+UseShenandoahGC", Collector::Shenandoah, 1);
}

/// The soft maximum of a machine, as it says itself, bytes.
fn soft_max(program: &Program) -> u64 {
    let attach = Attach::new(program.machine()).unwrap();
    let machine = Machine::ask(&attach, LONG).unwrap();
    machine.flags.number("SoftMaxHeapSize").unwrap()
}

/// Free memory goes back after the delay that the program was started with. ZGC of Java 11 has no soft
/// maximum.
#[test]
fn an_adopted_zgc_is_given_its_soft_maximum_and_gets_its_own_back() {
    let _turn = turn();
    for (_, home) in jdks().into_iter().filter(|(version, _)| *version > 11) {
        let name = home.display().to_string();
        let flags = ["-XX:+UseZGC", "-XX:ZUncommitDelay=1", "-Xmx600m"];
        let program = Program::start(&home, &[], &flags, &WORK);
        drop(counters(&program.machine()));
        let before = soft_max(&program);
        let one = Steered::new(program, Collector::Z);
        eventually(&format!("{name} grows"), || one.uses() > 350 * MIB);
        one.limit(280 * MIB);
        let is_lowered = || (1..280 * MIB).contains(&soft_max(&one.program));
        eventually(&format!("{name} is told"), is_lowered);
        eventually(&format!("{name} shrinks"), || one.uses() < 330 * MIB);
        one.limit(600 * MIB);
        let is_raised = || soft_max(&one.program) > 350 * MIB;
        eventually(&format!("{name} may grow again"), is_raised);
        one.script.stop.store(true, Ordering::Relaxed);
        assert_eq!(one.steering.join().unwrap(), Ended::Stopped);
        assert_eq!(soft_max(&one.program), before, "{name}");
    }
}

#[test]
fn one_that_another_steers_is_steered_when_that_ends() {
    let _turn = turn();
    let Some((_, home)) = jdks().into_iter().next() else {
        return;
    };
    let flags = ["-XX:+UseSerialGC", "-Xmx64m"];
    let program = Program::start(&home, &[], &flags, &["5", "20"]);
    let hold = AdapterLock::of(&program.machine()).unwrap();
    let one = Steered::new(program, Collector::Serial);
    eventually("it is told who steers it", || {
        let why = one.script.why.lock().unwrap();
        why.iter().any(|why| why.contains("is steered by"))
    });
    assert_eq!(one.collections(), 0, "nobody looked at it");
    drop(hold);
    eventually("it is steered", || one.collections() > 0);
    one.end();
}

/// ZGC gives memory back after its own delay of minutes, Parallel by its own sizes.
#[test]
fn who_hardly_follows_is_steered_and_not_enlarged() {
    let _turn = turn();
    for (row, (version, home)) in jdks().into_iter().enumerate() {
        // ZGC of Java 11 has no lever.
        let zgc = (version > 11).then_some(("-XX:+UseZGC", Collector::Z));
        let parallel = ("-XX:+UseParallelGC", Collector::Parallel);
        let both = [Some(parallel), zgc];
        for (flag, collector) in cases::of_column(both, row, 2).flatten() {
            let name = format!("{flag} of {}", home.display());
            let one = Steered::adopted(&home, flag, collector);
            eventually(&format!("{name} is steered"), || one.collections() > 3);
            let (before, collections) = (one.uses(), one.collections());
            one.limit(280 * MIB);
            eventually(&format!("{name} collects"), || {
                one.collections() > collections + 3
            });
            let most = before.max(280 * MIB) + 60 * MIB;
            assert!(one.uses() < most, "{name}: {} after {before}", one.uses());
            one.end();
        }
    }
}

#[test]
fn parallel_gives_back_what_it_can() {
    let _turn = turn();
    for (_, home) in cases::of_column(jdks(), 1, 2) {
        let name = home.display().to_string();
        let program = Program::prepared(&home, &["-XX:+UseParallelGC"], &WORK);
        let mut perf = counters(&program.machine());
        let one = Steered::new(program, Collector::Parallel);
        eventually(&format!("{name} is steered"), || one.collections() > 3);
        // Collections of the whole heap.
        let mut whole = || Snapshot::of(perf.read().unwrap()).work[1].invocations;
        let (before, collected) = (one.uses(), whole());
        one.limit(280 * MIB);
        eventually(&format!("{name} gives back, or collects"), || {
            one.uses() + 30 * MIB < before || whole() > collected
        });
        // How many follow says nothing: where little room is left, Parallel makes many by itself.
        one.end();
    }
}
