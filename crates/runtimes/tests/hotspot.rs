//! Real Java virtual machines: reading their counters, asking them, and how they follow a limit.
//!
//! Needs a JDK (11, 17, 21 and 25 are looked for in `/usr/lib/jvm` and `.cache`); says so and passes where
//! there is none.

mod support;

use plimsoll_runtimes::hotspot::attach::{Attach, AttachError};
use plimsoll_runtimes::hotspot::collector::Collector;
use plimsoll_runtimes::hotspot::footprint::Gauge;
use plimsoll_runtimes::hotspot::machine::Machine;
use plimsoll_runtimes::hotspot::sizing_flags::{Levers, SizedBy};
use plimsoll_runtimes::hotspot::snapshot::Snapshot;
use plimsoll_runtimes::process::Process;
use plimsoll_runtimes::{Ended, Options, family};
use plimsoll_testbed::{cases, children, skip};
use plimsoll_unit::{Bytes, MIB};
use rustix::process::Signal;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{LONG, Program, Script, compiled, counters, eventually, jdks};

fn follows(home: &Path, flags: &[&str], collector: Collector) {
    let program = Program::prepared(home, flags, &["60", "200", "2"]);
    let process = program.machine();
    let script = Script::default();
    script.limit.store(600 * MIB, Ordering::Relaxed);
    let (mut link, pid) = (script.clone(), program.child.id());
    let steering =
        std::thread::spawn(move || plimsoll_runtimes::run(&mut link, pid, &Options::default()));
    let gauge = Gauge::new(process, collector);
    let uses = || gauge.uses().unwrap_or_default();
    let name = format!("{flags:?} of {}", home.display());
    eventually(&format!("{name} grows"), || uses() > Bytes::mib(380));
    script.limit.store(280 * MIB, Ordering::Relaxed);
    eventually(&format!("{name} shrinks"), || uses() < Bytes::mib(330));
    script.limit.store(600 * MIB, Ordering::Relaxed);
    eventually(&format!("{name} grows again"), || uses() > Bytes::mib(380));
    eventually(&format!("{name} reports"), || {
        let report = *script.report.lock().unwrap();
        report
            .live
            .is_some_and(|l| (30 * MIB..400 * MIB).contains(&l))
            && report.collections > Some(0)
    });
    drop(program);
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}

/// A starting machine has no heap yet. A look at that time must not spoil later measurements.
#[test]
fn a_gauge_of_a_machine_that_just_starts_counts_its_heap_once() {
    for (version, home) in jdks() {
        let flags = [UNLOCK, "-XX:+UseZGC", "-Xmx300m"];
        let program = Program::start(&home, &[], &flags, &["60", "100"]);
        let early = Gauge::new(Process::new(program.child.id()).unwrap(), Collector::Z);
        let _ = early.uses();
        let process = program.machine();
        let uses = || Gauge::new(process, Collector::Z).uses().unwrap_or_default();
        let mut perf = counters(&process);
        // By then it has used each of the mappings of its heap.
        eventually("it collects", || {
            let collections = perf.read().map(|c| Snapshot::of(c).collections());
            uses() > Bytes::mib(80)
                && collections.is_ok_and(|count| count > 20 || !counts_zgc(version))
        });
        let same = || {
            early
                .uses()
                .is_ok_and(|e| e.abs_diff(uses()) < Bytes::mib(20))
        };
        eventually("both see the same", || (0..20).all(|_| same()));
    }
}

/// Tests that hold this run one at a time: several machines on two processors are too slow to follow a limit.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// ZGC was experimental before Java 15.
const UNLOCK: &str = "-XX:+UnlockExperimentalVMOptions";

/// Whether the machine counts the collections of ZGC.
fn counts_zgc(version: u32) -> bool {
    version > 11
}

/// Tests every second version from `oldest` on, beginning with the first of them in column 0 and with the
/// next one in column 1; or all, if every case is to be run.
fn each_since(oldest: u32, flag: &str, collector: Collector, column: usize) {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let since = jdks().into_iter().filter(|(version, _)| *version >= oldest);
    for (_, home) in cases::of_column(since, column, 2) {
        follows(&home, &[flag], collector);
    }
}

fn each(flag: &str, collector: Collector, column: usize) {
    each_since(0, flag, collector, column);
}

#[test]
fn g1_follows_its_limit() {
    each("-XX:+UseG1GC", Collector::G1, 1);
}

#[test]
fn serial_follows_its_limit() {
    each("-XX:+UseSerialGC", Collector::Serial, 0);
}

#[test]
fn zgc_follows_its_limit() {
    // ZGC of Java 11 has no soft maximum, and returns no memory.
    each_since(17, "-XX:+UseZGC", Collector::Z, 0);
}

#[test]
fn generational_zgc_follows_its_limit() {
    // From Java 24 on, this mode is the only one, and the flag is gone.
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    for (_, home) in jdks().iter().filter(|(version, _)| *version == 21) {
        follows(home, &["-XX:+UseZGC", "-XX:+ZGenerational"], Collector::Z);
    }
}

#[test]
fn shenandoah_follows_its_limit() {
    each("-XX:+UseShenandoahGC", Collector::Shenandoah, 0);
}

#[test]
fn generational_shenandoah_follows_its_limit() {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let mode = "-XX:ShenandoahGCMode=generational";
    for (_, home) in jdks().iter().filter(|(version, _)| *version == 25) {
        let flags = [UNLOCK, "-XX:+UseShenandoahGC", mode];
        follows(home, &flags, Collector::Shenandoah);
    }
}

#[test]
fn a_machine_that_is_let_go_has_its_flags_back() {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    for (row, (version, home)) in jdks().into_iter().enumerate() {
        let soft = ["-XX:+UseZGC", "-XX:+UseShenandoahGC"];
        let flags = [soft[usize::from(version < 17)], "-XX:+UseG1GC"];
        for flag in cases::of_column(flags, row, 2) {
            let program = Program::start(&home, &[], &[flag, "-Xmx400m"], &["60", "200"]);
            let process = program.machine();
            let values = || {
                let machine = Machine::ask(&Attach::new(process).unwrap(), LONG).unwrap();
                ["MinHeapFreeRatio", "MaxHeapFreeRatio", "SoftMaxHeapSize"]
                    .map(|name| machine.flags.number(name))
            };
            let before = values();
            let script = Script::default();
            script.limit.store(250 * MIB, Ordering::Relaxed);
            let (mut link, pid) = (script.clone(), program.child.id());
            let steering = std::thread::spawn(move || {
                plimsoll_runtimes::run(&mut link, pid, &Options::default())
            });
            eventually("it is moved", || values() != before);
            script.stop.store(true, Ordering::Relaxed);
            assert_eq!(steering.join().unwrap(), Ended::Stopped);
            assert_eq!(values(), before, "{flag} of {}", home.display());
        }
    }
}

/// A machine that stands still takes no command, as one that hangs.
#[test]
fn flags_that_are_not_restored_are_told_once() {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let flags = ["-XX:+UseG1GC", "-Xmx400m"];
    let program = Program::start(&home, &[], &flags, &["60", "200"]);
    let process = program.machine();
    let values = || {
        let machine = Machine::ask(&Attach::new(process).unwrap(), LONG).unwrap();
        machine.flags.number("MaxHeapFreeRatio")
    };
    let before = values();
    let script = Script::default();
    script.limit.store(250 * MIB, Ordering::Relaxed);
    let log = Log::default();
    let (mut link, pid, writer) = (script.clone(), program.child.id(), log.clone());
    let steering = std::thread::spawn(move || {
        let logs = tracing_subscriber::fmt().with_writer(move || writer.clone());
        tracing::subscriber::with_default(logs.finish(), || {
            plimsoll_runtimes::run(&mut link, pid, &Options::default())
        })
    });
    eventually("it is moved", || values() != before);
    process.signal(Signal::STOP).unwrap();
    eventually("it stops", || process.status().unwrap().state == b'T');
    script.stop.store(true, Ordering::Relaxed);
    assert_eq!(steering.join().unwrap(), Ended::Stopped);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("is let go"))
        .collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("MaxHeapFreeRatio=70"), "{log}");
}

/// The logged lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_machine_says_what_it_is() {
    let collectors = [
        ("-XX:+UseSerialGC", Collector::Serial),
        ("-XX:+UseParallelGC", Collector::Parallel),
        ("-XX:+UseG1GC", Collector::G1),
        ("-XX:+UseZGC", Collector::Z),
        ("-XX:+UseShenandoahGC", Collector::Shenandoah),
    ];
    for (row, (version, home)) in jdks().into_iter().enumerate() {
        for (flag, collector) in cases::of_column(collectors, row, 2) {
            let flags = [UNLOCK, flag, "-Xmx200m"];
            let program = Program::start(&home, &[], &flags, &["5", "100"]);
            let process = program.machine();
            let mut attach = Attach::new(process).unwrap();
            let machine = Machine::ask(&attach, LONG).unwrap();
            assert_eq!((machine.version, machine.collector), (version, collector));
            assert_eq!(machine.heap.is_none(), collector == Collector::Z);
            let fixed = Levers::of(&machine).sized_by == SizedBy::Fixed;
            assert_eq!(fixed, (version, collector) == (11, Collector::Z));
            assert_eq!(
                attach.negotiate(LONG).unwrap(),
                if version >= 25 { 2 } else { 1 }
            );
            let mut perf = counters(&process);
            let counted = collector != Collector::Z || counts_zgc(version);
            eventually("it collects", || {
                perf.read().is_ok_and(|c| {
                    let heap = Snapshot::of(c);
                    heap.committed() > Bytes::ZERO && (heap.collections() > 0 || !counted)
                })
            });
            let heap = Snapshot::of(perf.read().unwrap());
            assert!(
                (Bytes::mib(1)..Bytes::mib(400)).contains(&heap.committed()),
                "{heap:?}"
            );
        }
    }
}

#[test]
fn a_machine_that_does_not_answer_costs_only_the_timeout() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let program = Program::start(&home, &[], &["-Xmx64m"], &["5", "10"]);
    let process = program.machine();
    let attach = Attach::new(process).unwrap();
    attach.jcmd("VM.version", LONG).unwrap();
    children::stop(process.pid, LONG);
    let start = Instant::now();
    for _ in 0..8 {
        let answer = attach.jcmd("VM.version", Duration::from_millis(200));
        assert!(
            matches!(
                answer,
                Err(AttachError::NoAnswer { .. } | AttachError::Busy { .. })
            ),
            "{answer:?}"
        );
    }
    assert!(start.elapsed() < LONG);
    process.signal(Signal::CONT).unwrap();
    assert_eq!(attach.jcmd("VM.version", LONG).unwrap().code, 0);
}

#[test]
fn a_machine_that_exits_in_the_middle_is_told_as_gone() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let mut program = Program::start(&home, &[], &["-Xmx64m"], &["5", "10"]);
    let process = program.machine();
    let attach = Attach::new(process).unwrap();
    attach.jcmd("VM.version", LONG).unwrap();
    children::stop(process.pid, LONG);
    let (tell, told) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        tell.send(()).unwrap();
        attach.jcmd("VM.version", LONG)
    });
    told.recv().unwrap();
    process.signal(Signal::KILL).unwrap();
    program.child.wait().unwrap();
    assert!(matches!(
        waiting.join().unwrap(),
        Err(AttachError::Gone { .. })
    ));
}

#[test]
fn without_the_attach_mechanism_it_is_left_alone_and_lives() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let program = Program::start(
        &home,
        &[],
        &["-XX:+DisableAttachMechanism", "-Xmx64m"],
        &["5", "10"],
    );
    let process = program.machine();
    let answer = Attach::new(process).unwrap().jcmd("VM.version", LONG);
    assert!(
        matches!(answer, Err(AttachError::Refused { .. })),
        "{answer:?}"
    );
    assert!(process.alive());
}

/// No collection makes such a heap smaller, so none is asked for and a remark says so.
#[test]
fn a_heap_of_one_size_is_left_alone() {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // Java 11 does not tell the least size.
    let jdks = jdks().into_iter().filter(|(version, _)| *version > 11);
    for (row, (_, home)) in jdks.enumerate() {
        for collector in cases::of_column(["-XX:+UseG1GC", "-XX:+UseSerialGC"], row, 2) {
            let flags = [collector, "-Xms200m", "-Xmx200m"];
            let program = Program::prepared(&home, &flags, &["20", "50"]);
            let process = program.machine();
            let mut perf = counters(&process);
            let machine = Machine::ask(&Attach::new(process).unwrap(), LONG).unwrap();
            let levers = Levers::of(&machine);
            assert_eq!(levers.sized_by, SizedBy::Fixed, "{collector}");
            assert!(levers.remarks.iter().any(|remark| remark.contains("-Xms")));
            let script = Script::default();
            script.limit.store(60 * MIB, Ordering::Relaxed);
            let (mut link, pid) = (script.clone(), program.child.id());
            let steering = std::thread::spawn(move || {
                plimsoll_runtimes::run(&mut link, pid, &Options::default())
            });
            // The program works and collects by itself, far above its limit. No collection of the whole heap
            // is requested.
            let mut work = || Snapshot::of(perf.read().unwrap()).work;
            let begun = work();
            eventually("it collects by itself", || {
                work()[0].invocations > begun[0].invocations + 3
            });
            assert_eq!(work()[1].invocations, begun[1].invocations, "{collector}");
            drop(program);
            assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
        }
    }
}

#[test]
fn a_machine_that_lets_nobody_attach_does_not_hide_the_one_beside_it() {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let classes = compiled("Churn.java");
    let script = "exec 3<&0\n\
                  \"$1\" -XX:+DisableAttachMechanism -Xms400m -Xmx400m Churn 250 20 <&3 &\n\
                  \"$1\" -Xmx100m Churn 10 50 <&3 &\n\
                  wait";
    let variable = format!("CLASSPATH={}", classes.path().display());
    let argv = ["sh", "-c", script, "sh"].map(OsString::from);
    let argv = argv.into_iter().chain([home.join("bin/java").into()]);
    let program = Program::run(&["env", &variable], argv.collect(), classes);
    let pid = program.child.id();
    let machines = || {
        let all = family::of(pid).into_iter().flat_map(Process::new);
        let machines: Vec<Process> = all.filter(plimsoll_programs::hotspot::is_machine).collect();
        machines
    };
    let uses = |process: &Process| family::uses(process.pid).unwrap_or_default();
    eventually("both are up, one of them large", || {
        let large = machines()
            .iter()
            .filter(|one| uses(one) > Bytes::mib(250))
            .count();
        machines().len() == 2 && large == 1
    });
    let script = Script::default();
    script.limit.store(600 * MIB, Ordering::Relaxed);
    let mut link = script.clone();
    let steering =
        std::thread::spawn(move || plimsoll_runtimes::run(&mut link, pid, &Options::default()));
    eventually("the other one is steered", || {
        let live = script.report.lock().unwrap().live;
        live.is_some_and(|live| live < 100 * MIB)
    });
    drop(program);
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}

#[test]
fn a_process_that_does_not_catch_the_signal_never_gets_it() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let process = Process::new(child.id()).unwrap();
    let answer = Attach::new(process)
        .unwrap()
        .jcmd("VM.version", Duration::from_secs(1));
    assert!(
        matches!(answer, Err(AttachError::NotCatching { .. })),
        "{answer:?}"
    );
    assert!(process.alive());
    child.kill().unwrap();
    child.wait().unwrap();
}

fn privileged(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(format_args!("{what} needs root"));
    }
    root
}

#[test]
fn a_machine_in_other_namespaces_is_reached() {
    if !privileged("another mount and pid namespace") {
        return;
    }
    let namespaces = ["--pid", "--fork", "--mount"];
    let tried = Command::new("unshare")
        .args(namespaces)
        .arg("true")
        .output();
    if let Some(why) = tried.ok().filter(|tried| !tried.status.success()) {
        skip(String::from_utf8_lossy(&why.stderr));
        return;
    }
    for (version, home) in jdks() {
        // The namespace has a new /tmp. This checkout keeps its path, even if that is below /tmp.
        let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let shell = format!(
            "mount --bind {tree} /mnt && mount -t tmpfs tmp /tmp && mkdir -p {tree} && mount --move /mnt \
             {tree} && exec \"$0\" \"$@\""
        );
        let before = [
            "unshare",
            "--pid",
            "--fork",
            "--mount",
            "--kill-child",
            "sh",
            "-c",
            &shell,
        ];
        let program = Program::start(&home, &before, &["-Xmx64m"], &["5", "100"]);
        let process = program.machine();
        assert_ne!(process.status().unwrap().inner_pid, process.pid);
        assert_eq!(
            Machine::ask(&Attach::new(process).unwrap(), LONG)
                .unwrap()
                .version,
            version
        );
        let mut perf = counters(&process);
        eventually("it publishes", || {
            perf.read().is_ok_and(|c| c.iter().count() > 100)
        });
    }
}

#[test]
fn another_users_machine_is_reached_by_root() {
    if !privileged("another user's machine") {
        return;
    }
    for (version, home) in jdks() {
        let before = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ];
        let mut reach = Command::new(before[0]);
        reach
            .args(&before[1..])
            .args(["test", "-x"])
            .arg(home.join("bin/java"));
        if !reach.status().unwrap().success() {
            skip(format_args!(
                "{} is in a directory that another user cannot enter",
                home.display()
            ));
            continue;
        }
        let program = Program::start(&home, &before, &["-Xmx64m"], &["5", "100"]);
        let process = program.machine();
        assert_eq!(process.status().unwrap().euid, 65534);
        assert_eq!(
            Machine::ask(&Attach::new(process).unwrap(), LONG)
                .unwrap()
                .version,
            version
        );
        let mut perf = counters(&process);
        eventually("it publishes", || {
            perf.read().is_ok_and(|c| c.iter().count() > 100)
        });
    }
}

/// Before 22 a machine under G1 prints a warning where it was asked for objects while a thread is in a
/// critical section.
#[test]
fn what_we_ask_a_machine_for_prints_nothing_into_the_output_of_its_program() {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    for (_, home) in jdks().into_iter().filter(|(version, _)| *version < 22) {
        let classes = compiled("Critical.java");
        let mut argv: Vec<OsString> = vec![home.join("bin/java").into()];
        // Collections are asked for as if they were objects. One that succeeds leaves the heap large, so that
        // there is something to ask for.
        let flags = ["-XX:+UseG1GC", "-XX:+DisableExplicitGC", "-Xmx700m"];
        let ratios = ["-XX:MinHeapFreeRatio=90", "-XX:MaxHeapFreeRatio=95", "-cp"];
        argv.extend(flags.into_iter().chain(ratios).map(OsString::from));
        argv.extend([classes.path().into(), "Critical".into()]);
        let program = Program::run(&[], argv, classes);
        let process = program.machine();
        eventually("it is ready", || program.printed().contains("ready"));
        let attach = Attach::new(process).unwrap();
        let ask = |command: &str| attach.command("jcmd", &[command], LONG).unwrap().text;
        let warned = || program.printed().contains("GC locker is held");
        eventually("it warns of what another asks", || {
            ask("GC.class_histogram");
            warned()
        });
        let before = program.printed();
        let script = Script::default();
        script.limit.store(100 * MIB, Ordering::Relaxed);
        let (mut link, pid) = (script.clone(), program.child.id());
        let steering =
            std::thread::spawn(move || plimsoll_runtimes::run(&mut link, pid, &Options::default()));
        eventually("it is asked", || {
            ask("VM.log list").contains("(reconfigured)")
        });
        // Several more requests come while it is above its limit.
        std::thread::sleep(Duration::from_secs(3));
        script.stop.store(true, Ordering::Relaxed);
        assert_eq!(steering.join().unwrap(), Ended::Stopped);
        assert_eq!(program.printed(), before, "{}", home.display());
        let log = ask("VM.log list");
        assert!(log.contains("#0: stdout all=warning uptime,"), "{log}");
    }
}
