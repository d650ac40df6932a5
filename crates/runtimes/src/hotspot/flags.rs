//! The start flags that make a Java virtual machine elastic, by collector.
//!
//! They stand before the user's own on the command line, so that the user's win. What stands in variables
//! comes before ours, so a flag whose name the user gave anywhere is left out; so are flags that would change
//! the meaning of one that the user gave (a generation size beside `-Xmn`).
//!
//! A machine ends at a flag that it does not know, and at an experimental one that is locked. A user's
//! mistake has to end it under us, too, so it is never told to ignore what it does not know: only flags are
//! added that the build [knows](Known), and experimental ones are locked again behind ours.

mod files;
mod given;
mod known;
#[cfg(test)]
mod tests;
mod words;

pub use files::Files;
pub(super) use files::path_below_root;
pub use given::{Given, LAUNCHER};
pub use known::Known;

use super::machine::Collector;
use plimsoll_policy::footprint::surprise;

/// Flags that may be set between these two only.
const EXPERIMENTAL: [&str; 4] = [
    "G1ExpandByPercentOfAvailable",
    "G1MaxNewSizePercent",
    "ShenandoahUncommitDelay",
    "ShenandoahLearningSteps",
];
const UNLOCK: &str = "-XX:+UnlockExperimentalVMOptions";
const LOCK: &str = "-XX:-UnlockExperimentalVMOptions";
/// The smallest heap that is started with, MiB: the floor below which no collector shrinks.
const LEAST_HEAP_MIB: u64 = 32;
/// The same, bytes.
const LEAST_HEAP: u64 = LEAST_HEAP_MIB << 20;
/// Above this a heap loses compressed object pointers, and needs about half more for the same objects.
const COMPRESSED: u64 = 31 << 30;
/// From here on a heap without compressed pointers holds more than one of [`COMPRESSED`].
const WORTH_IT: u64 = 48 << 30;

/// What sets all sizes by the machine's memory, and chooses Parallel.
const AGGRESSIVE: &str = "-XX:+AggressiveHeap";
/// Give the maximum heap; `-mx` and `-ms` are old names that the launcher still takes.
const MAX_HEAP: [&str; 7] = [
    "-Xmx",
    "-mx",
    "-XX:MaxHeapSize",
    "-XX:MaxRAM",
    "-XX:MinRAM",
    "-XX:ErgoHeapSizeLimit",
    AGGRESSIVE,
];
/// Give the heap that is started with.
const FIRST_HEAP: [&str; 6] = [
    "-Xms",
    "-ms",
    "-XX:InitialHeapSize",
    "-XX:MinHeapSize",
    "-XX:InitialRAM",
    AGGRESSIVE,
];
/// Give the young generation.
const YOUNG: [&str; 6] = [
    "-Xmn",
    "-XX:NewSize",
    "-XX:MaxNewSize",
    "-XX:NewRatio",
    "-XX:SurvivorRatio",
    AGGRESSIVE,
];
/// Maximum heaps, by size.
const MAX_SIZES: [&str; 3] = ["-Xmx", "-mx", "-XX:MaxHeapSize="];
/// Heaps that are started with, by size: the machine does not start where one is above a maximum that is
/// given.
const WITHIN_MAX: [&str; 4] = ["-Xms", "-ms", "-XX:InitialHeapSize=", "-XX:MinHeapSize="];
/// Must fit into the machine's own choice of a maximum: it does not start otherwise, and shall not under us.
const SOFT_MAX: [&str; 2] = [
    "-XX:SoftMaxHeapSize=",
    // Of Java 11.
    "-XX:ShenandoahSoftMaxHeapSize=",
];
/// Generations, by size: the machine makes them smaller where they do not fit.
const GENERATIONS: [&str; 4] = ["-Xmn", "-XX:NewSize=", "-XX:MaxNewSize=", "-XX:OldSize="];

/// What the choice depends on beside the user's flags.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Bytes that the broker has to share out.
    pub budget: Option<u64>,
    /// Processors that the machine will see.
    pub processors: usize,
    /// Bytes of memory of the machine or the container, as the virtual machine will see it.
    pub memory: Option<u64>,
    /// Bytes that the groups above the program let it use at the most, where that is less than the machine
    /// has.
    pub group: Option<u64>,
    /// Nothing can be paged out there: what is over a limit ends the program.
    pub cliff: bool,
    /// Address space is limited (`ulimit -v`): nothing may be reserved in advance.
    pub address_space_limited: bool,
    /// Feature version of the machine, where its installation tells it: 8, 17, 25.
    pub version: Option<u32>,
    /// The flags that the machine knows.
    pub known: Known,
}

impl Surroundings {
    /// Those of this process; nothing is known of the virtual machine.
    pub fn of_self() -> Surroundings {
        let limit = rustix::process::getrlimit(rustix::process::Resource::As);
        Surroundings {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            address_space_limited: limit.current.is_some(),
            ..Surroundings::default()
        }
    }

    /// The machine's version is at least this one, or is not told.
    fn since(&self, version: u32) -> bool {
        self.version.is_none_or(|found| found >= version)
    }
}

/// Before, what is chosen without a flag was another (Java 8: Parallel), and flags had other defaults.
const OLDEST: u32 = 11;
/// ZGC's flags are what they are since.
const Z_SETTLED: u32 = 15;
/// A concurrent cycle of G1 resizes the heap since.
const CYCLES_RESIZE: u32 = 12;

/// Flags to insert, and what to say about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// In this order, before the user's own.
    pub flags: Vec<String>,
    /// One line each.
    pub notes: Vec<String>,
}

/// Chooses the flags for a command line, to stand before the options of its own.
pub fn start(given: &Given, around: &Surroundings) -> Added {
    if let Some(version) = around.version.filter(|&version| version < OLDEST) {
        let note = format!(
            "nothing is added for Java {version}: flags are known from {OLDEST} on; it is steered as far \
             as it goes without"
        );
        return Added {
            flags: Vec::new(),
            notes: vec![note],
        };
    }
    let collector = collector(given, around);
    let mut flags = Vec::new();
    let follows = has_lever(collector, around);
    if follows && may_start_least(given, around) {
        flags.push(format!("-Xms{LEAST_HEAP_MIB}m"));
    }
    let max = max_heap(collector, around).filter(|_| follows);
    let max = max.filter(|&max| may_end_at(max, given, around));
    if let Some(max) = max {
        flags.push(format!("-Xmx{}m", max >> 20));
    }
    if let Some((max, name)) = max.zip(soft_max(collector, around)) {
        // Until the broker's word comes.
        let soft = (max / 9 * 8)
            .saturating_sub(NATIVE)
            .max(LEAST_HEAP)
            .min(max);
        flags.push(format!("{name}{}m", soft >> 20));
    }
    let special = by_collector(collector, max, given, around);
    flags.extend(special.iter().map(|&flag| flag.to_owned()));
    flags.retain(|flag| around.known.has(flag) && !given.contradicts(flag));
    Added {
        flags: unlocked(flags, given),
        notes: vec![format!(
            "{collector} is expected, by the flags given or by the machine's own choice"
        )],
    }
}

/// Flags for a machine of which nothing is known but what the environment gives it: not its version, its
/// collector, nor what its command line says. So they are such that every version and every build since 11
/// knows. Sizes are percentages of the memory, which give way to any size that is given, wherever it stands.
/// What would mean something to another collector than the one it is for (`GCTimeRatio`, `NewRatio`) is left
/// out.
pub fn for_any(given: &Given, around: &Surroundings) -> Added {
    let mut flags = Vec::new();
    if let Some(memory) = around.memory.filter(|&memory| memory > 0) {
        let percent = |bytes: u64| (bytes as f64 / memory as f64 * 100.0).min(100.0);
        if may_start_least(given, around) {
            let least = percent(LEAST_HEAP);
            flags.push(format!("-XX:InitialRAMPercentage={least:.4}"));
        }
        let max = max_heap(Collector::Other, around).filter(|&max| may_end_at(max, given, around));
        if let Some(max) = max {
            flags.push(format!("-XX:MaxRAMPercentage={:.4}", percent(max)));
        }
    }
    let by_collector = [
        "-XX:-ShrinkHeapInSteps",
        "-XX:MarkSweepDeadRatio=0",
        "-XX:+UseAdaptiveSizePolicyWithSystemGC",
        "-XX:+ExplicitGCInvokesConcurrent",
    ];
    flags.extend(by_collector.map(str::to_owned));
    flags.retain(|flag| !given.contradicts(flag));
    Added {
        flags,
        notes: vec!["for whatever Java virtual machine the program starts".to_owned()],
    }
}

/// Whether its heap will follow a limit. One that does not keeps the size that it would have alone.
fn has_lever(collector: Collector, around: &Surroundings) -> bool {
    match collector {
        Collector::Other => false,
        Collector::Serial | Collector::Parallel | Collector::G1 => true,
        Collector::Z | Collector::Shenandoah | Collector::GenShenandoah => {
            soft_max(collector, around).is_some()
        }
    }
}

/// The option that gives a soft maximum, by the collector and what the build knows.
fn soft_max(collector: Collector, around: &Surroundings) -> Option<&'static str> {
    let names: &[&str] = match collector {
        Collector::Z if around.since(Z_SETTLED) => &SOFT_MAX[..1],
        Collector::Shenandoah | Collector::GenShenandoah => &SOFT_MAX,
        _ => &[],
    };
    names.iter().copied().find(|name| around.known.has(name))
}

/// Puts what is experimental at the end, between the flags that unlock and lock it, unless it is unlocked
/// anyway.
fn unlocked(flags: Vec<String>, given: &Given) -> Vec<String> {
    let experimental = |flag: &String| given::name(flag).is_some_and(|n| EXPERIMENTAL.contains(&n));
    let (special, mut flags): (Vec<_>, Vec<_>) = flags.into_iter().partition(experimental);
    let lock = !special.is_empty() && !given.unlocked_before();
    flags.extend(lock.then(|| UNLOCK.to_owned()));
    flags.extend(special);
    flags.extend(lock.then(|| LOCK.to_owned()));
    flags
}

/// Whether the smallest heap may be started with. One that begins larger than it may become does
/// not start, and a generation that does not fit into it is made smaller.
fn may_start_least(given: &Given, around: &Surroundings) -> bool {
    let fits = |size: &Option<u64>| size.is_some_and(|size| size <= LEAST_HEAP / 2);
    let holds = |size: &Option<u64>| size.is_some_and(|size| size >= LEAST_HEAP);
    !given.has(&FIRST_HEAP)
        && around
            .group
            .is_none_or(|group| heap_in(group) >= LEAST_HEAP)
        && given.sizes(&MAX_SIZES).iter().all(holds)
        && given.sizes(&GENERATIONS).iter().all(fits)
}

/// Whether `max` may be the maximum heap, bytes: none was given, and what was given fits into it.
fn may_end_at(max: u64, given: &Given, around: &Surroundings) -> bool {
    // It is given in whole mebibytes.
    let max = (max >> 20) << 20;
    let within = |size: &Option<u64>| size.is_some_and(|size| size <= max);
    let below = |size: &Option<u64>| size.is_some_and(|size| size < max);
    let default = around.memory.map_or(0, |memory| memory / DEFAULT_PART);
    let either = |size: &Option<u64>| size.is_some_and(|size| size <= max.min(default));
    !given.has(&MAX_HEAP)
        && max >= LEAST_HEAP
        && given.sizes(&WITHIN_MAX).iter().all(within)
        && given.sizes(&SOFT_MAX).iter().all(either)
        && given.sizes(&GENERATIONS).iter().all(below)
}

/// `max`: the maximum heap that is added, bytes.
fn by_collector(
    collector: Collector,
    max: Option<u64>,
    given: &Given,
    around: &Surroundings,
) -> Vec<&'static str> {
    let young_given = given.has(&YOUNG);
    match collector {
        // MarkSweepDeadRatio=0: no dead wood is left in the old generation, so its size comes out
        // as computed.
        Collector::Serial if given.has(&MAX_HEAP) || young_given => {
            vec!["-XX:-ShrinkHeapInSteps", "-XX:MarkSweepDeadRatio=0"]
        }
        // The young generation follows the old one, which must hold what lives: with NewRatio=3
        // both can become as small as four thirds of that, with the usual 2 three halves. A heap
        // that is too small for what lives collects all of it every time.
        Collector::Serial => vec![
            "-XX:-ShrinkHeapInSteps",
            "-XX:MarkSweepDeadRatio=0",
            "-XX:NewRatio=3",
        ],
        Collector::Parallel => vec!["-XX:+UseAdaptiveSizePolicyWithSystemGC"],
        Collector::G1 => g1(young_given, stops(max, given, around), around),
        Collector::Z if !around.since(Z_SETTLED) => Vec::new(),
        Collector::Z => vec!["-XX:ZUncommitDelay=1", "-XX:-ZProactive"],
        Collector::Shenandoah | Collector::GenShenandoah => vec![
            "-XX:ShenandoahUncommitDelay=10000",
            "-XX:ShenandoahLearningSteps=0",
        ],
        Collector::Other => Vec::new(),
    }
}

/// `GCTimeRatio=1`: G1 does not grow by itself as long as collecting takes less than half of the
/// time; a heap below half of its maximum does so sooner, so its steps are as small as they can be,
/// one region: a percent of what is left of a large maximum would be 200 MiB (with 1, 250 MiB were
/// 400 for a second). `G1ReservePercent=20`: with the usual 10 it evacuates more than it has
/// regions for, and takes new ones where it could collect garbage (213 MiB became 516 in 5 s, with
/// 20: 224). Before 12 (JEP 346) a concurrent cycle resized nothing, so what is asked for stays a
/// full collection. So it does where the heap is small (`stops`): it is exact, and takes half as
/// long as the other way to ask for one, which counts the objects as well (43 and 85 ms with 115
/// MiB alive).
fn g1(young_given: bool, stops: bool, around: &Surroundings) -> Vec<&'static str> {
    let cycles = around.since(CYCLES_RESIZE) && !stops;
    let mut flags = vec!["-XX:GCTimeRatio=1", "-XX:G1ReservePercent=20"];
    flags.extend(cycles.then_some("-XX:+ExplicitGCInvokesConcurrent"));
    flags.push("-XX:G1ExpandByPercentOfAvailable=0");
    flags.extend((!young_given).then_some("-XX:G1MaxNewSizePercent=80"));
    flags
}

/// A heap that never becomes larger is collected within half a second, bytes.
const SHORT: u64 = 1 << 30;

/// Whether the heap, of which `max` is added as its maximum, is small enough to be resized while
/// the program is stopped.
fn stops(max: Option<u64>, given: &Given, around: &Surroundings) -> bool {
    let sizes = given.sizes(&MAX_SIZES);
    let most = max.or_else(|| sizes.iter().copied().flatten().max());
    most.or(around.group).is_some_and(|max| max <= SHORT)
}

/// Native memory of a machine and of its collector, about, bytes.
const NATIVE: u64 = 96 << 20;

/// The part of a small group's limit that a machine without flags takes for its heap: what lives with that
/// lives under us, too.
const SMALL_PART: u64 = 2;
/// And what it takes at least where it takes a smaller part, bytes.
const SMALL_HEAP: u64 = 126 << 20;
/// The part of the memory that it takes where there is more of it.
const DEFAULT_PART: u64 = 4;

/// The heap that a group with this limit has room for, bytes: what code, classes, threads and the collector's
/// tables take beside it grows with it. A heap that is larger would have to page, or without swap be killed.
fn heap_in(group: u64) -> u64 {
    let native = NATIVE + group / 16;
    group.saturating_sub(native).max(group / SMALL_PART)
}

/// The heap that a machine without flags may take of so much memory, bytes.
pub fn heap_alone(memory: u64) -> u64 {
    match memory <= 2 * SMALL_HEAP {
        true => memory / SMALL_PART,
        false => (memory / DEFAULT_PART).max(SMALL_HEAP),
    }
}

/// What it has room for where nothing can be paged out: what grows beside the heap faster than a
/// collection can give way must fit as well. At least what a machine without flags takes, which
/// half of a small group is.
fn heap_on_a_cliff(group: u64) -> u64 {
    let least = heap_alone(group);
    let native = NATIVE + group / 16 + surprise(group);
    group.saturating_sub(native).max(least)
}

/// So much that a program alone can use the budget, but never more than its own group has room for. G1 keeps
/// a little free. Of Serial's two generations the old one is mostly reserve, and a fifth of the young one.
/// ZGC and Shenandoah keep a part free, and fill all of it when a program outruns them. Kept below the end of
/// compressed object pointers unless the budget is far above it.
fn max_heap(collector: Collector, around: &Surroundings) -> Option<u64> {
    let budget = around
        .budget
        .filter(|&b| b >= 64 << 20 && !around.address_space_limited)?;
    let wanted = match collector {
        Collector::Serial => budget.saturating_add(budget / 10 * 12),
        Collector::G1 => budget.saturating_add(budget / 16),
        Collector::Shenandoah => budget.saturating_add(budget / 4),
        _ if collector.has_soft_max() => budget.saturating_add(budget / 8),
        _ => budget,
    };
    let room = match around.cliff {
        true => heap_on_a_cliff(around.group.unwrap_or(budget)),
        false => around.group.map_or(u64::MAX, heap_in),
    };
    let wanted = wanted.min(room);
    let compressed = match collector {
        Collector::Z => false,
        Collector::Serial => budget < WORTH_IT,
        _ => (COMPRESSED..WORTH_IT).contains(&wanted),
    };
    Some(if compressed {
        wanted.min(COMPRESSED)
    } else {
        wanted
    })
}

/// With less memory the machine takes itself for a client's: 2 GiB, less what firmware and kernel may keep.
const SERVER_CLASS: u64 = 1792 << 20;

/// The collector that the machine will choose.
fn collector(given: &Given, around: &Surroundings) -> Collector {
    let table = [
        ("UseSerialGC", Collector::Serial),
        ("UseParallelGC", Collector::Parallel),
        ("UseG1GC", Collector::G1),
        ("UseZGC", Collector::Z),
        ("UseShenandoahGC", Collector::Shenandoah),
        ("UseEpsilonGC", Collector::Other),
        ("UseConcMarkSweepGC", Collector::Other),
        ("UseParallelOldGC", Collector::Parallel),
        ("AggressiveHeap", Collector::Parallel),
    ];
    if let Some((_, collector)) = table.iter().find(|(flag, _)| given.is_on(flag)) {
        return *collector;
    }
    let processors = given.last("-XX:ActiveProcessorCount=");
    let processors = processors.and_then(|count| count.parse().ok());
    let small = around.memory.is_some_and(|memory| memory < SERVER_CLASS);
    if small || processors.unwrap_or(around.processors) < 2 {
        Collector::Serial
    } else {
        Collector::G1
    }
}
