//! The programs that scenarios are made of, and where they are.

use super::scenario::Program;
use crate::report::results::root;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which Java virtual machine and collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jvm {
    /// 11, 17, 21 or 25.
    pub version: u32,
    /// As in `-XX:+UseNAMEGC`: `Serial`, `Parallel`, `G1`, `Z`, `Shenandoah`.
    pub collector: &'static str,
}

impl Jvm {
    /// `.cache/javaNN`, where `tools/setup.sh` leaves it.
    pub fn java(self) -> String {
        cache(&format!("java{}", self.version))
    }

    /// The flags that choose its collector.
    pub fn choice(self) -> Vec<String> {
        // ZGC was an experiment until 15.
        let locked = self.collector == "Z" && self.version < 15;
        let unlock = locked.then(|| "-XX:+UnlockExperimentalVMOptions".to_owned());
        let choice = format!("-XX:+Use{}GC", self.collector);
        unlock.into_iter().chain([choice]).collect()
    }

    /// For tables: `G1 17`.
    pub fn name(self) -> String {
        format!("{} {}", self.collector, self.version)
    }

    fn command(self, heap: Option<u64>) -> Vec<String> {
        let mut command = vec![self.java()];
        command.extend(self.choice());
        if let Some(bytes) = heap {
            command.push(format!("-Xms{}m", bytes >> 20));
            command.push(format!("-Xmx{}m", bytes >> 20));
        }
        command
    }
}

/// Lucene's benchmark on our algorithm file; `heap` fixes its size (`-Xms` and `-Xmx`, bytes).
pub fn lucene(jvm: Jvm, heap: Option<u64>, algorithm: &str) -> Vec<String> {
    let mut command = jvm.command(heap);
    command.extend([
        "-cp".to_owned(),
        cache("lucene/*"),
        "org.apache.lucene.benchmark.byTask.Benchmark".to_owned(),
        source(algorithm),
    ]);
    command
}

/// What the benchmark in Java does.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Trees of 4 MB that live.
    pub live: u32,
    /// Megabytes per second that it allocates at the most; 0: all it can.
    pub pace: u32,
    /// Bytes of each buffer that it fills and drops; 0: it builds trees.
    pub buffer: u32,
    /// Iterations of a burst and seconds of the rest after it, below 0 before it too; without one
    /// it works all the time.
    pub burst: Option<(u32, i32)>,
}

/// The Ellis-Kovac-Boehm benchmark in our writing, for ever; `classes` holds it compiled.
pub fn gcbench_java(jvm: Jvm, heap: Option<u64>, classes: &Path, work: Work) -> Vec<String> {
    let mut command = jvm.command(heap);
    command.extend([
        "-cp".to_owned(),
        classes.display().to_string(),
        "GcBench".to_owned(),
    ]);
    command.extend([u32::MAX, work.live, work.pace, work.buffer].map(|n| n.to_string()));
    if let Some((iterations, rest)) = work.burst {
        command.extend([iterations.to_string(), rest.to_string()]);
    }
    command
}

/// What our service in Java does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// Megabytes of records that live.
    pub live: u64,
    /// Bytes of records that a request replaces.
    pub replaced: u32,
    /// Bytes that it allocates besides.
    pub besides: u32,
    /// Seconds of a turn; 0: it works all the time.
    pub turn: u32,
    /// Which turn is its own, of how many.
    pub place: (u32, u32),
    /// Percent of the time that it works in the others' turns.
    pub quiet: u32,
}

/// Our service, for ever; `classes` holds it compiled, `flags` come before its class.
pub fn service(jvm: Jvm, flags: &[String], classes: &Path, service: &Service) -> Vec<String> {
    let mut command = jvm.command(None);
    command.extend_from_slice(flags);
    command.extend(["-cp".to_owned(), classes.display().to_string()]);
    command.push("Service".to_owned());
    command.push(service.live.to_string());
    let (place, count) = service.place;
    let numbers = [
        service.replaced,
        service.besides,
        service.turn,
        place,
        count,
        service.quiet,
    ];
    command.extend(numbers.map(|n| n.to_string()));
    command
}

/// Guile with a live set and steady garbage.
pub fn guile(live_mib: u64) -> Vec<String> {
    let script = source("bench/programs/churn.scm");
    vec![
        "guile".to_owned(),
        "--no-auto-compile".to_owned(),
        script,
        live_mib.to_string(),
        "100000".to_owned(),
    ]
}

/// Lets libgc in a program collect only when its heap reaches `bytes`, whatever happens around it:
/// the paper's fixed schedule.
pub fn fixed_libgc(bytes: u64) -> BTreeMap<String, String> {
    let adapter = libgc_adapter().display().to_string();
    BTreeMap::from([
        ("LD_PRELOAD".to_owned(), adapter),
        ("PLIMSOLL_LIBGC".to_owned(), format!("fixed:{bytes}")),
    ])
}

/// The same benchmark in C, linked with libgc (`make -C bench/programs`).
pub fn gcbench(iterations: u32) -> Vec<String> {
    let program = made("gcbench");
    vec![program, "--iterations".to_owned(), iterations.to_string()]
}

/// The `--adapter` for a program. Figures of the benchmark in C are for the adapter with the
/// system's libgc.
pub fn adapter(command: &[String]) -> &'static str {
    let program = command.first().and_then(|word| word.rsplit('/').next());
    match program {
        Some("gcbench") => "libgc-stock",
        _ => "auto",
    }
}

/// The adapter that `plimsoll run` preloads into programs on the system's libgc.
pub fn libgc_adapter() -> PathBuf {
    sibling("libplimsoll_libgc.so")
}

/// A program of this workspace: it was built next to this one.
pub fn sibling(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.parent()
        .map(|folder| folder.join(name))
        .unwrap_or_else(|| name.into())
}

/// A hog: takes `bytes` at `rate` (bytes a second) and locks them, as one whose memory is all in
/// use; holds until it is ended.
pub fn hog(bytes: u64, rate: u64) -> Vec<String> {
    let program = sibling("plimsoll-misbehave").display().to_string();
    let sizes = [
        "hog".to_owned(),
        "--bytes".to_owned(),
        bytes.to_string(),
        "--rate".to_owned(),
        rate.to_string(),
    ];
    [program]
        .into_iter()
        .chain(sizes)
        .chain(["--lock".to_owned()])
        .collect()
}

/// The same, but it holds for `hold` seconds only and then gives back at the same rate.
pub fn hog_that_leaves(bytes: u64, rate: u64, hold: f64) -> Vec<String> {
    let mut command = hog(bytes, rate);
    command.extend([
        "--hold".to_owned(),
        hold.to_string(),
        "--release-rate".to_owned(),
        rate.to_string(),
    ]);
    command
}

/// Bytes of a virtual machine besides its heap under these loads, measured.
pub const NATIVE: u64 = 65 << 20;

/// The three programs of the demo and the hog: Guile (weight 10), Lucene on JDK 17 with G1 (40),
/// Lucene on JDK 25 with the Serial collector (20). With `fixed`, each has the size of its share of
/// so many bytes, for good.
pub fn trio(fixed: Option<u64>) -> Vec<Program> {
    let share = |weight: u32| fixed.map(|budget| budget * u64::from(weight) / 70);
    let heap = |weight: u32| share(weight).map(|bytes| bytes.saturating_sub(NATIVE));
    let algorithm = "bench/programs/lucene/share.alg";
    let program = |name: &str, weight, command| Program {
        name: name.to_owned(),
        weight,
        command,
        ..Program::default()
    };
    let mut guile = program("guile", 10, guile(20));
    guile.env = share(10).map(fixed_libgc).unwrap_or_default();
    let g1 = Jvm {
        version: 17,
        collector: "G1",
    };
    let serial = Jvm {
        version: 25,
        collector: "Serial",
    };
    vec![
        guile,
        program("lucene-17-g1", 40, lucene(g1, heap(40), algorithm)),
        program("lucene-25-serial", 20, lucene(serial, heap(20), algorithm)),
    ]
}

/// A program that `make -C bench/programs` made.
pub fn made(name: &str) -> String {
    source(&format!("bench/out/programs/{name}"))
}

fn cache(name: &str) -> String {
    root().join(".cache").join(name).display().to_string()
}

fn source(name: &str) -> String {
    root().join(name).display().to_string()
}
