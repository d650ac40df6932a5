//! The programs of the scenarios, and their paths.

use super::scenario::Program;
use crate::report::results::root;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A Java virtual machine: its version and its collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jvm {
    /// 11, 17, 21 or 25.
    pub version: u32,
    /// As in `-XX:+UseNAMEGC`: `Serial`, `Parallel`, `G1`, `Z`, `Shenandoah`. The last two may be followed
    /// by ` generational`, for that mode.
    pub collector: &'static str,
}

/// The Java versions and collectors that are measured.
pub const JVMS: [Jvm; 10] = [
    Jvm::new(17, "G1"),
    Jvm::new(25, "G1"),
    Jvm::new(17, "Serial"),
    Jvm::new(25, "Serial"),
    Jvm::new(17, "Z"),
    Jvm::new(25, "Z"),
    Jvm::new(17, "Shenandoah"),
    Jvm::new(25, "Shenandoah"),
    Jvm::new(17, "Parallel"),
    Jvm::new(25, "Parallel"),
];

impl Jvm {
    const fn new(version: u32, collector: &'static str) -> Jvm {
        Jvm { version, collector }
    }

    /// Path of `java`: `.cache/javaNN`, where `tools/setup.sh` puts a link.
    pub fn java(self) -> String {
        cache(&format!("java{}", self.version))
    }

    /// The flags that select its collector.
    pub fn choice(self) -> Vec<String> {
        let (collector, mode) = match self.collector.split_once(' ') {
            Some(("Z", _)) => ("Z", Some("-XX:+ZGenerational")),
            Some((collector, _)) => (collector, Some("-XX:ShenandoahGCMode=generational")),
            None => (self.collector, None),
        };
        // ZGC was experimental before version 15.
        let locked = collector == "Z" && self.version < 15;
        let unlock = locked.then_some("-XX:+UnlockExperimentalVMOptions");
        let choice = format!("-XX:+Use{collector}GC");
        let flags = unlock.into_iter().chain(mode).map(str::to_owned);
        flags.chain([choice]).collect()
    }

    /// Its name in tables, such as `G1 17`.
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

/// Parameters of the benchmark in Java.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Number of trees that live; each takes 4 MB.
    pub live: u32,
    /// Highest rate of allocation, MB/s; 0 for no bound.
    pub pace: u32,
    /// Bytes of each buffer that it fills and drops; 0 if it builds trees instead.
    pub buffer: u32,
    /// Iterations of a burst, and seconds of the rest after it. A negative number of seconds means a rest
    /// before the burst too. `None`: it works all the time.
    pub burst: Option<(u32, i32)>,
}

/// Our version of the benchmark of Ellis, Kovac and Boehm, running for ever. `classes` is the folder of its
/// compiled classes.
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

/// Parameters of our service in Java.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// Megabytes of records that live.
    pub live: u64,
    /// Bytes of records that a request replaces.
    pub replaced: u32,
    /// Further bytes that a request allocates.
    pub besides: u32,
    /// Seconds of a turn; 0 if it works all the time.
    pub turn: u32,
    /// Number of its own turn, and number of turns.
    pub place: (u32, u32),
    /// Percent of the time that it works during the turns of others.
    pub quiet: u32,
}

/// Our service, running for ever. `classes` is the folder of its compiled classes; `flags` are given to the
/// machine.
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

/// Guile with a live set of this size and steady garbage.
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

/// Variables that make libgc collect only when the heap of its program reaches `bytes`, whatever other
/// programs need: the paper's fixed schedule.
pub fn fixed_libgc(bytes: u64) -> BTreeMap<String, String> {
    let adapter = libgc_adapter().display().to_string();
    BTreeMap::from([
        ("LD_PRELOAD".to_owned(), adapter),
        ("PLIMSOLL_LIBGC".to_owned(), format!("fixed:{bytes}")),
    ])
}

/// The benchmark of [`gcbench_java`] in C, linked with libgc (`make -C bench/programs`).
pub fn gcbench(iterations: u32) -> Vec<String> {
    let program = made("gcbench");
    vec![program, "--iterations".to_owned(), iterations.to_string()]
}

/// The argument of `--adapter` for a program. The benchmark in C is measured with the adapter of the system's
/// libgc.
pub fn adapter(command: &[String]) -> &'static str {
    let program = command.first().and_then(|word| word.rsplit('/').next());
    match program {
        Some("gcbench") => "libgc-stock",
        _ => "auto",
    }
}

/// The argument of `--agent`.
pub fn agent(is_wanted: bool) -> &'static str {
    if is_wanted { "auto" } else { "never" }
}

/// The adapter that `plimsoll run` preloads into programs on the system's libgc.
pub fn libgc_adapter() -> PathBuf {
    sibling("libplimsoll_libgc.so")
}

/// Path of a program of this workspace, which was built in the folder of this program.
pub fn sibling(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.parent()
        .map(|folder| folder.join(name))
        .unwrap_or_else(|| name.into())
}

/// A hog: it takes `bytes` at `rate` (bytes per second) and locks them, so that it behaves like a program
/// that uses all of its memory. It keeps them until it is killed.
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

/// A hog that keeps its memory for `hold` seconds, then gives it back at the rate at which it took it.
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

/// Bytes that a Java virtual machine takes besides its heap under these loads, as measured.
pub const NATIVE: u64 = 65 << 20;

/// The three programs that `demo` and `hog` run, with these weights: Guile, Lucene on JDK 17 with G1, Lucene
/// on JDK 25 with the Serial collector. With `fixed`, each has a fixed heap: its share of that number of
/// bytes.
pub fn trio(weights: [u32; 3], fixed: Option<u64>) -> Vec<Program> {
    let all: u32 = weights.iter().sum();
    let share = |weight: u32| fixed.map(|budget| budget * u64::from(weight) / u64::from(all));
    let heap = |weight: u32| share(weight).map(|bytes| bytes.saturating_sub(NATIVE));
    let algorithm = "bench/programs/lucene/share.alg";
    let program = |name: &str, weight, command| Program {
        name: name.to_owned(),
        weight,
        command,
        ..Program::default()
    };
    let [light, g1_weight, serial_weight] = weights;
    let mut guile = program("guile", light, guile(20));
    guile.env = share(light).map(fixed_libgc).unwrap_or_default();
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
        program(
            "lucene-g1",
            g1_weight,
            lucene(g1, heap(g1_weight), algorithm),
        ),
        program(
            "lucene-serial",
            serial_weight,
            lucene(serial, heap(serial_weight), algorithm),
        ),
    ]
}

/// Path of a program that `make -C bench/programs` built.
pub fn made(name: &str) -> String {
    source(&format!("bench/out/programs/{name}"))
}

/// Path of what `tools/setup.sh` fetched.
pub fn cache(name: &str) -> String {
    root().join(".cache").join(name).display().to_string()
}

fn source(name: &str) -> String {
    root().join(name).display().to_string()
}
