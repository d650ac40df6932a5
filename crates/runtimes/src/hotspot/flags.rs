//! The start flags that make a Java virtual machine elastic, by collector.
//!
//! They stand before the user's own on the command line, so that the user's win, and after `-XX:+IgnoreUnrecognizedVMOptions`,
//! so that a version that does not know one starts all the same. What stands in variables comes before ours, so a flag
//! whose name the user gave anywhere is left out; so are flags that would change the meaning of one that the user gave (a
//! generation size beside `-Xmn`).

mod given;
#[cfg(test)]
mod tests;

pub use given::{Given, LAUNCHER};

use super::machine::Collector;

/// A version that does not know a flag starts all the same.
const IGNORE: &str = "-XX:+IgnoreUnrecognizedVMOptions";
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
const MAX_HEAP: [&str; 6] = [
    "-Xmx",
    "-mx",
    "-XX:MaxHeapSize",
    "-XX:MaxRAM",
    "-XX:MinRAM",
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
/// Heaps that must fit into the maximum, by size: the machine does not start otherwise.
const WITHIN_MAX: [&str; 5] = [
    "-Xms",
    "-ms",
    "-XX:InitialHeapSize=",
    "-XX:MinHeapSize=",
    "-XX:SoftMaxHeapSize=",
];
/// Generations, by size: the machine makes them smaller where they do not fit.
const GENERATIONS: [&str; 4] = ["-Xmn", "-XX:NewSize=", "-XX:MaxNewSize=", "-XX:OldSize="];

/// What the choice depends on beside the user's flags.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings {
    /// Bytes that the broker has to share out.
    pub budget: Option<u64>,
    /// Processors that the machine will see.
    pub processors: usize,
    /// Bytes of memory of the machine or the container, as the virtual machine will see it.
    pub memory: Option<u64>,
    /// Address space is limited (`ulimit -v`): nothing may be reserved in advance.
    pub address_space_limited: bool,
    /// Feature version of the machine, where its installation tells it: 8, 17, 25.
    pub version: Option<u32>,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_self(budget: Option<u64>, memory: Option<u64>, version: Option<u32>) -> Surroundings {
        let limit = rustix::process::getrlimit(rustix::process::Resource::As);
        Surroundings {
            budget,
            memory,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            address_space_limited: limit.current.is_some(),
            version,
        }
    }
}

/// Before, a concurrent cycle of G1 resized nothing (JEP 346), and what is chosen without a flag was another (Java 8: Parallel).
const OLDEST: u32 = 12;

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
            "nothing is added for Java {version}: flags are known from {OLDEST} on; it is steered as far as it goes without"
        );
        return Added {
            flags: Vec::new(),
            notes: vec![note],
        };
    }
    let collector = collector(given, around);
    let mut flags = vec![IGNORE.to_owned()];
    if may_start_least(given) {
        flags.push(format!("-Xms{LEAST_HEAP_MIB}m"));
    }
    let max = max_heap(collector, around).filter(|&max| may_end_at(max, given));
    if let Some(max) = max {
        flags.push(format!("-Xmx{}m", max >> 20));
    }
    if let Some(max) = max.filter(|_| collector.has_soft_max()) {
        // Until the broker's word comes.
        let soft = (max / 9 * 8).saturating_sub(NATIVE).max(LEAST_HEAP);
        flags.push(format!("-XX:SoftMaxHeapSize={}m", soft >> 20));
    }
    let special = by_collector(collector, given.has(&MAX_HEAP), given.has(&YOUNG));
    flags.extend(special.iter().map(|&flag| flag.to_owned()));
    keep_to(given, &mut flags);
    Added {
        flags,
        notes: vec![format!(
            "{collector} is expected, by the flags given or by the machine's own choice"
        )],
    }
}

/// Flags for a machine of which nothing is known but what the environment gives it: not its version, its collector, nor
/// what its command line says. Sizes are percentages of the memory, which give way to any size that is given, wherever it
/// stands. What would mean something to another collector than the one it is for (`GCTimeRatio`, `NewRatio`) is left out.
pub fn for_any(given: &Given, around: &Surroundings) -> Added {
    let mut flags = vec![IGNORE.to_owned()];
    if let Some(memory) = around.memory.filter(|&memory| memory > 0) {
        let percent = |bytes: u64| (bytes as f64 / memory as f64 * 100.0).min(100.0);
        if may_start_least(given) {
            let least = percent(LEAST_HEAP);
            flags.push(format!("-XX:InitialRAMPercentage={least:.4}"));
        }
        let max = max_heap(Collector::Other, around).filter(|&max| may_end_at(max, given));
        if let Some(max) = max {
            flags.push(format!("-XX:MaxRAMPercentage={:.4}", percent(max)));
        }
    }
    let by_collector = [
        "-XX:-ShrinkHeapInSteps",
        "-XX:MarkSweepDeadRatio=0",
        "-XX:+UseAdaptiveSizePolicyWithSystemGC",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-XX:ZUncommitDelay=1",
        "-XX:-ZProactive",
        "-XX:+UnlockExperimentalVMOptions",
        "-XX:ShenandoahUncommitDelay=10000",
        "-XX:ShenandoahLearningSteps=0",
    ];
    flags.extend(by_collector.map(str::to_owned));
    keep_to(given, &mut flags);
    Added {
        flags,
        notes: vec!["for whatever Java virtual machine the program starts".to_owned()],
    }
}

/// Takes out what would change a flag that the user gave.
fn keep_to(given: &Given, flags: &mut Vec<String>) {
    // Who wants a flag that is not known to be an error gets none that a version may not know.
    let strict = given.contradicts(IGNORE);
    let unknown = |flag: &str| strict && flag.starts_with("-XX:");
    flags.retain(|flag| !given.contradicts(flag) && !unknown(flag));
}

/// Whether the smallest heap may be started with. One that begins larger than it may become does not start, and a
/// generation that does not fit into it is made smaller.
fn may_start_least(given: &Given) -> bool {
    let fits = |size: &Option<u64>| size.is_some_and(|size| size <= LEAST_HEAP / 2);
    let holds = |size: &Option<u64>| size.is_some_and(|size| size >= LEAST_HEAP);
    !given.has(&FIRST_HEAP)
        && given.sizes(&MAX_SIZES).iter().all(holds)
        && given.sizes(&GENERATIONS).iter().all(fits)
}

/// Whether `max` may be the maximum heap, bytes: none was given, and what was given fits into it.
fn may_end_at(max: u64, given: &Given) -> bool {
    // It is given in whole mebibytes.
    let max = (max >> 20) << 20;
    let within = |size: &Option<u64>| size.is_some_and(|size| size <= max);
    let below = |size: &Option<u64>| size.is_some_and(|size| size < max);
    !given.has(&MAX_HEAP)
        && given.sizes(&WITHIN_MAX).iter().all(within)
        && given.sizes(&GENERATIONS).iter().all(below)
}

fn by_collector(
    collector: Collector,
    heap_given: bool,
    young_given: bool,
) -> &'static [&'static str] {
    match collector {
        // The young generation follows the old one, so both are followed; with a maximum heap that was given
        // NewRatio=1 could leave too little for what lives.
        // MarkSweepDeadRatio=0: no dead wood is left in the old generation, so its size comes out as computed.
        Collector::Serial if heap_given || young_given => {
            &["-XX:-ShrinkHeapInSteps", "-XX:MarkSweepDeadRatio=0"]
        }
        Collector::Serial => &[
            "-XX:-ShrinkHeapInSteps",
            "-XX:MarkSweepDeadRatio=0",
            "-XX:NewRatio=1",
        ],
        Collector::Parallel => &["-XX:+UseAdaptiveSizePolicyWithSystemGC"],
        // GCTimeRatio=1: G1 does not grow by itself as long as collecting takes less than half of the time; a heap below half of
        // its maximum does so sooner, so its steps are small, too. G1ReservePercent=20: with the usual 10 it evacuates more than it
        // has regions for, and takes new ones where it could collect garbage (213 MiB became 516 in 5 s, with 20: 224).
        Collector::G1 if young_given => &[
            "-XX:+ExplicitGCInvokesConcurrent",
            "-XX:GCTimeRatio=1",
            "-XX:+UnlockExperimentalVMOptions",
            "-XX:G1ExpandByPercentOfAvailable=1",
            "-XX:G1ReservePercent=20",
        ],
        Collector::G1 => &[
            "-XX:+ExplicitGCInvokesConcurrent",
            "-XX:GCTimeRatio=1",
            "-XX:+UnlockExperimentalVMOptions",
            "-XX:G1ExpandByPercentOfAvailable=1",
            "-XX:G1MaxNewSizePercent=80",
            "-XX:G1ReservePercent=20",
        ],
        Collector::Z => &["-XX:ZUncommitDelay=1", "-XX:-ZProactive"],
        Collector::Shenandoah | Collector::GenShenandoah => &[
            "-XX:+UnlockExperimentalVMOptions",
            "-XX:ShenandoahUncommitDelay=10000",
            "-XX:ShenandoahLearningSteps=0",
        ],
        Collector::Other => &[],
    }
}

/// Native memory of a machine and of its collector, about, bytes.
const NATIVE: u64 = 96 << 20;

/// So much that a program alone can use the budget. G1 keeps a little free. Of Serial's two generations the old one is mostly reserve,
/// and a fifth of the young one. ZGC and Shenandoah keep a part free, and fill all of it when a program outruns them. Kept below the end of compressed object pointers unless the budget is far above it.
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
