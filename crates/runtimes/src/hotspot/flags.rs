//! The flags that make a Java virtual machine elastic when it starts, by collector.
//!
//! Our flags stand before the user's on the command line, so that the user's win. Flags in
//! variables are read before ours and would lose, so a flag that the user gave anywhere is left
//! out. So is a flag that would change the meaning of a user's flag (a generation size beside
//! `-Xmn`).
//!
//! A machine ends at a flag that it does not know, and at an experimental flag that is locked. A
//! mistake of the user's must still end it, so it is never told to ignore unknown flags. Instead we
//! add only flags that the build [knows](Known), and lock experimental flags again after ours.
//!
//! | module | is |
//! |---|---|
//! | `given` | the options that the user gave, from all places; `words` and `files`: how these are read |
//! | `known_flags` | the flags that a build of the machine knows |
//! | `upfront` | options with which a machine takes its whole maximum at the start |

mod files;
mod given;
mod known_flags;
#[cfg(test)]
mod tests;
mod upfront;
mod words;

pub use files::Files;
pub(super) use files::path_below_root;
pub(crate) use given::WITH_VALUE;
pub use given::{Given, LAUNCHER};
pub use known_flags::Known;
use plimsoll_unit::{Bytes, MIB};
use upfront::COMPRESSED;

use super::collector::Collector;
use plimsoll_kernel::overcommit::Overcommit;
use plimsoll_policy::footprint::surprise;

/// Experimental flags, which may be set only between [`UNLOCK`] and [`LOCK`].
const EXPERIMENTAL: [&str; 4] = [
    "G1ExpandByPercentOfAvailable",
    "G1MaxNewSizePercent",
    "ShenandoahUncommitDelay",
    "ShenandoahLearningSteps",
];
const UNLOCK: &str = "-XX:+UnlockExperimentalVMOptions";
const LOCK: &str = "-XX:-UnlockExperimentalVMOptions";
/// The initial heap, MiB. No collector shrinks below it.
const LEAST_HEAP_MIB: u64 = 32;
const LEAST_HEAP: Bytes = Bytes::mib(LEAST_HEAP_MIB);
/// From this size on a heap without compressed pointers holds more than one of
/// [`COMPRESSED`].
const WORTH_IT: Bytes = Bytes(48 << 30);

/// The flag that sets all sizes by the machine's memory and chooses Parallel.
const AGGRESSIVE: &str = "-XX:+AggressiveHeap";
/// Options that set the maximum heap. `-mx` and `-ms` are old names that the launcher still takes.
const MAX_HEAP: [&str; 7] = [
    "-Xmx",
    "-mx",
    "-XX:MaxHeapSize",
    "-XX:MaxRAM",
    "-XX:MinRAM",
    "-XX:ErgoHeapSizeLimit",
    AGGRESSIVE,
];
/// Options that set the initial heap.
const FIRST_HEAP: [&str; 6] = [
    "-Xms",
    "-ms",
    "-XX:InitialHeapSize",
    "-XX:MinHeapSize",
    "-XX:InitialRAM",
    AGGRESSIVE,
];
/// Options that set the young generation.
const YOUNG: [&str; 6] = [
    "-Xmn",
    "-XX:NewSize",
    "-XX:MaxNewSize",
    "-XX:NewRatio",
    "-XX:SurvivorRatio",
    AGGRESSIVE,
];
/// Options that give the maximum heap as a size.
const MAX_SIZES: [&str; 3] = ["-Xmx", "-mx", "-XX:MaxHeapSize="];
/// Options that give the initial or least heap as a size. The machine does not start if one exceeds
/// a given maximum.
const WITHIN_MAX: [&str; 4] = ["-Xms", "-ms", "-XX:InitialHeapSize=", "-XX:MinHeapSize="];
/// Options that give the soft maximum. The machine does not start if it exceeds the maximum of its
/// own choice, and that must stay so with our flags.
const SOFT_MAX: [&str; 2] = [
    "-XX:SoftMaxHeapSize=",
    // The name in Java 11.
    "-XX:ShenandoahSoftMaxHeapSize=",
];
/// Options with which a machine cannot be steered, or hardly.
const UNSTEERED: [&str; 3] = [
    "-XX:+DisableAttachMechanism",
    "-XX:-UsePerfData",
    "-XX:+PerfDisableSharedMem",
];
/// Options that give a generation as a size. The machine makes generations smaller if they do not
/// fit.
const GENERATIONS: [&str; 4] = ["-Xmn", "-XX:NewSize=", "-XX:MaxNewSize=", "-XX:OldSize="];

/// The facts that the choice of flags depends on, besides the user's flags.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Memory that the broker shares out.
    pub budget: Option<Bytes>,
    /// Processors that the virtual machine will see.
    pub processors: usize,
    /// Memory (of the computer or the container) that the virtual machine will see.
    pub memory: Option<Bytes>,
    /// The lowest limit of the cgroups above the program, if it is below the computer's
    /// memory.
    pub group: Option<Bytes>,
    /// How much larger a heap may be than `group` has room for: what can be paged out, where the
    /// broker shares out no more than the group has, and so keeps the program within it.
    pub beyond: Bytes,
    /// Nothing can be paged out, so an excess over a limit ends the program.
    pub cliff: bool,
    /// The machine sizes its heap by its own rule until it meets a shortage. Flags that would
    /// change that rule are left out.
    pub own_rule: bool,
    /// The kernel bounds what may be mapped (`ulimit -v` or `-d`, or strict overcommit), so a heap must not
    /// become larger than the machine makes it by itself.
    pub mappings_bounded: bool,
    /// Feature version of the virtual machine (8, 17, 25), if its installation tells it.
    pub version: Option<u32>,
    /// The flags that the virtual machine knows.
    pub known: Known,
}

impl Surroundings {
    /// The surroundings of this process. Nothing is known about the virtual machine.
    pub fn of_self() -> Surroundings {
        use rustix::process::{Resource, getrlimit};
        let limited = |what| getrlimit(what).current.is_some();
        Surroundings {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            mappings_bounded: limited(Resource::As)
                || limited(Resource::Data)
                || Overcommit::read() == Overcommit::Never,
            ..Surroundings::default()
        }
    }

    /// Whether the machine's version is at least this one, or unknown.
    fn since(&self, version: u32) -> bool {
        self.version.is_none_or(|found| found >= version)
    }
}

/// The oldest version that gets flags. Older ones have other defaults, also for the collector (Java
/// 8: Parallel).
const OLDEST: u32 = 11;
/// The version since which ZGC has its present flags.
const Z_SETTLED: u32 = 15;
/// The version since which a concurrent cycle of G1 resizes the heap.
const CYCLES_RESIZE: u32 = 12;

/// Flags to insert, with notes for the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// The flags, in this order, before the user's own.
    pub flags: Vec<String>,
    /// Notes of one line each.
    pub notes: Vec<String>,
}

/// Chooses the flags to insert before the options of a command line.
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
    let mut notes = vec![format!(
        "{collector} is expected, by the flags given or by the machine's own choice"
    )];
    if around.own_rule {
        let mut flags = levers_alone(collector, given, around);
        flags.retain(|flag| around.known.has(flag) && !given.contradicts(flag));
        return Added {
            flags: unlocked(flags, given),
            notes,
        };
    }
    let mut flags = Vec::new();
    let follows = has_lever(collector, around);
    if follows && may_start_least(given, around) {
        flags.push(least_first());
    }
    let beyond = if given.has(&UNSTEERED) {
        Bytes::ZERO
    } else {
        around.beyond
    };
    let max = max_heap(collector, beyond, around).filter(|_| follows);
    let max = max.map(|max| max.min(upfront::most(given)));
    let max = max.filter(|&max| may_end_at(max, given, around));
    if let Some(max) = max {
        flags.push(format!("-Xmx{}m", max.0 / MIB));
    }
    if let Some((max, name)) = max.zip(soft_max(collector, around)) {
        // Holds until the broker gives a limit.
        let room = around.group.map_or(max, heap_in).min(max);
        let soft = (max / 9 * 8 - NATIVE).max(LEAST_HEAP).min(room);
        flags.push(format!("{name}{}m", soft.0 / MIB));
    }
    let special = by_collector(collector, max, given, around);
    flags.extend(special.iter().map(|&flag| flag.to_owned()));
    flags.retain(|flag| around.known.has(flag) && !given.contradicts(flag));
    notes.extend(no_max(given, around));
    Added {
        flags: unlocked(flags, given),
        notes,
    }
}

/// Chooses flags for a machine of unknown version, collector and command line; only its environment
/// is known. Every version and build since 11 knows these flags. Sizes are percentages of the
/// memory, because those give way to any size given anywhere. Flags that also affect a collector
/// other than the intended one (`GCTimeRatio`, `NewRatio`) are left out.
pub fn for_any(given: &Given, around: &Surroundings) -> Added {
    let mut flags = Vec::new();
    if let Some(memory) = around.memory.filter(|&memory| memory > Bytes::ZERO) {
        let percent = |part: Bytes| (part.0 as f64 / memory.0 as f64 * 100.0).min(100.0);
        if may_start_least(given, around) {
            let least = percent(LEAST_HEAP);
            flags.push(format!("-XX:InitialRAMPercentage={least:.4}"));
        }
        let max = max_heap(Collector::Other, Bytes::ZERO, around)
            .map(|max| max.min(upfront::most(given)));
        let max = max.filter(|&max| may_end_at(max, given, around));
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
    let mut notes = vec!["for whatever Java virtual machine the program starts".to_owned()];
    notes.extend(no_max(given, around));
    Added { flags, notes }
}

/// A note that no maximum heap is added, where a person may wonder.
fn no_max(given: &Given, around: &Surroundings) -> Option<String> {
    let bounded = "`ulimit -v`, `ulimit -d` or vm.overcommit_memory=2 bounds what may be mapped";
    let reason = if around.mappings_bounded {
        Some(bounded.to_owned())
    } else {
        upfront::reason(given)
    };
    let reason = reason.filter(|_| !given.has(&MAX_HEAP))?;
    Some(format!("no maximum heap is added: {reason}"))
}

/// Whether the heap will follow a limit. If not, it keeps the size that it would have alone.
fn has_lever(collector: Collector, around: &Surroundings) -> bool {
    match collector {
        Collector::Other => false,
        Collector::Serial | Collector::Parallel | Collector::G1 => true,
        Collector::Z | Collector::Shenandoah | Collector::GenShenandoah => {
            soft_max(collector, around).is_some()
        }
    }
}

/// The option that gives a soft maximum, if the collector has one and the build knows it.
fn soft_max(collector: Collector, around: &Surroundings) -> Option<&'static str> {
    let names: &[&str] = match collector {
        Collector::Z if around.since(Z_SETTLED) => &SOFT_MAX[..1],
        Collector::Shenandoah | Collector::GenShenandoah => &SOFT_MAX,
        _ => &[],
    };
    names.iter().copied().find(|name| around.known.has(name))
}

/// Moves experimental flags to the end, between the flags that unlock and lock them, unless they
/// are unlocked anyway.
fn unlocked(flags: Vec<String>, given: &Given) -> Vec<String> {
    let experimental = |flag: &String| given::name(flag).is_some_and(|n| EXPERIMENTAL.contains(&n));
    let (special, mut flags): (Vec<_>, Vec<_>) = flags.into_iter().partition(experimental);
    let lock = !special.is_empty() && !given.unlocked_before();
    flags.extend(lock.then(|| UNLOCK.to_owned()));
    flags.extend(special);
    flags.extend(lock.then(|| LOCK.to_owned()));
    flags
}

/// Whether the heap may start at its smallest. A machine whose initial heap exceeds its maximum
/// does not start, and a generation that does not fit would be made smaller.
fn may_start_least(given: &Given, around: &Surroundings) -> bool {
    let fits = |size: &Option<Bytes>| size.is_some_and(|size| size <= LEAST_HEAP / 2);
    let holds = |size: &Option<Bytes>| size.is_some_and(|size| size >= LEAST_HEAP);
    !given.has(&FIRST_HEAP)
        && around
            .group
            .is_none_or(|group| heap_in(group) >= LEAST_HEAP)
        && given.sizes(&MAX_SIZES).iter().all(holds)
        && given.sizes(&GENERATIONS).iter().all(fits)
}

/// Whether `max` may be the maximum heap: the user gave none, and the given sizes fit into
/// it.
fn may_end_at(max: Bytes, given: &Given, around: &Surroundings) -> bool {
    // The flag is written in whole mebibytes.
    let max = Bytes::mib(max.0 / MIB);
    let within = |size: &Option<Bytes>| size.is_some_and(|size| size <= max);
    let below = |size: &Option<Bytes>| size.is_some_and(|size| size < max);
    let default = around
        .memory
        .map_or(Bytes::ZERO, |memory| memory / DEFAULT_PART);
    let either = |size: &Option<Bytes>| size.is_some_and(|size| size <= max.min(default));
    !given.has(&MAX_HEAP)
        && max >= LEAST_HEAP
        && given.sizes(&WITHIN_MAX).iter().all(within)
        && given.sizes(&SOFT_MAX).iter().all(either)
        && given.sizes(&GENERATIONS).iter().all(below)
        && upfront::reason(given).is_none()
}

/// The flags that depend on the collector. `max`: the maximum heap that is added.
fn by_collector(
    collector: Collector,
    max: Option<Bytes>,
    given: &Given,
    around: &Surroundings,
) -> Vec<&'static str> {
    let young_given = given.has(&YOUNG);
    match collector {
        // MarkSweepDeadRatio=0: no garbage is left in the old generation, so its size is as
        // computed.
        Collector::Serial if given.has(&MAX_HEAP) || young_given => {
            vec!["-XX:-ShrinkHeapInSteps", "-XX:MarkSweepDeadRatio=0"]
        }
        // The size of the young generation follows the old one, which must hold the live bytes.
        // With NewRatio=3 the heap can shrink to four thirds of the live bytes, with the default 2
        // only to three halves. A heap that is too small for them is collected as a whole every
        // time.
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

/// The flags without which a machine could not follow a limit that comes later. Serial and Parallel never
/// shrink below their first heap, a 64th of the memory unless a flag says otherwise, so that is the least.
/// G1 enlarges its heap by itself soon after it was made smaller, and the flag against that cannot be changed
/// while it runs, so its heap is sized from the start.
fn levers_alone(collector: Collector, given: &Given, around: &Surroundings) -> Vec<String> {
    let first = may_start_least(given, around).then(least_first);
    let with_first = |flag: &str| {
        first
            .into_iter()
            .chain([flag.to_owned()])
            .collect::<Vec<_>>()
    };
    match collector {
        Collector::Serial => with_first("-XX:-ShrinkHeapInSteps"),
        Collector::Parallel => with_first("-XX:+UseAdaptiveSizePolicyWithSystemGC"),
        Collector::G1 => {
            let flags = g1(given.has(&YOUNG), stops(None, given, around), around);
            flags.into_iter().map(str::to_owned).collect()
        }
        Collector::Z if around.since(Z_SETTLED) => vec!["-XX:ZUncommitDelay=1".to_owned()],
        _ => Vec::new(),
    }
}

/// The option by which the heap starts at its smallest.
fn least_first() -> String {
    format!("-Xms{LEAST_HEAP_MIB}m")
}

/// The flags of G1. `GCTimeRatio=1`: G1 does not grow by itself while collecting takes less than
/// half of the time. A heap below half of its maximum grows sooner, so its steps are set to the
/// least, one region (`G1ExpandByPercentOfAvailable=0`): one percent of what is left of a large
/// maximum would be 200 MiB (with 1, a heap of 250 MiB had 400 for a second).
/// A larger `G1ReservePercent` would keep it from taking regions in an evacuation, but leaves up to a fifth
/// of the heap without young objects, and so costs a full heap more collections than it saves. Before 12
/// (JEP 346) a concurrent cycle did not resize the heap, so a requested collection stays a full one. It
/// also stays one for small heaps (`stops`): it is exact, and takes half as long as the alternative
/// request, which also counts the objects (43 against 85 ms with 115 MiB live).
fn g1(young_given: bool, stops: bool, around: &Surroundings) -> Vec<&'static str> {
    let cycles = around.since(CYCLES_RESIZE) && !stops;
    let mut flags = vec!["-XX:GCTimeRatio=1"];
    flags.extend(cycles.then_some("-XX:+ExplicitGCInvokesConcurrent"));
    flags.push("-XX:G1ExpandByPercentOfAvailable=0");
    flags.extend((!young_given).then_some("-XX:G1MaxNewSizePercent=80"));
    flags
}

/// A heap of at most this size is collected within half a second.
const SHORT: Bytes = Bytes::mib(1024);

/// Whether the heap is small enough to be resized while the program is stopped. `max`: the maximum
/// that is added.
fn stops(max: Option<Bytes>, given: &Given, around: &Surroundings) -> bool {
    let sizes = given.sizes(&MAX_SIZES);
    let most = max.or_else(|| sizes.iter().copied().flatten().max());
    most.or(around.group).is_some_and(|max| max <= SHORT)
}

/// About the native memory of a machine and of its collector.
const NATIVE: Bytes = Bytes::mib(96);

/// A machine without flags takes one part in this many of a small cgroup's limit for its heap. We
/// never leave less, so that a program that runs without us runs with us.
const SMALL_PART: u64 = 2;
/// The least heap of a machine without flags in a larger cgroup.
const SMALL_HEAP: Bytes = Bytes::mib(126);
/// With more memory a machine without flags takes one part in this many.
const DEFAULT_PART: u64 = 4;

/// The heap that fits into a cgroup with this limit. Code, classes, threads and the
/// collector's tables grow with the heap. A larger heap would page, or be killed without swap.
fn heap_in(group: Bytes) -> Bytes {
    let native = NATIVE + group / 16;
    (group - native).max(group / SMALL_PART)
}

/// The heap that a machine without flags may take if it sees this much memory.
pub fn heap_alone(memory: Bytes) -> Bytes {
    if memory <= SMALL_HEAP * 2 {
        memory / SMALL_PART
    } else {
        (memory / DEFAULT_PART).max(SMALL_HEAP)
    }
}

/// The heap that fits into a cgroup if nothing can be paged out. Native memory that grows
/// faster than a collection can make room must fit too. At least what a machine without flags
/// takes, which is half of a small cgroup.
fn heap_on_a_cliff(group: Bytes) -> Bytes {
    let native = NATIVE + group / 16 + surprise(group);
    (group - native).max(heap_alone(group))
}

/// The maximum heap to set, or none. Large enough that a program alone can use the whole
/// budget, but no more than its own cgroup has room for, and `beyond`. G1 keeps a little free.
/// Serial's old generation (three quarters of the heap, by our `NewRatio=3`) is mostly reserve, and so is
/// a fifth of its young one. ZGC and Shenandoah keep a part free and fill it when a program outruns them.
/// Stays below the end of compressed object pointers unless the budget is far above it.
fn max_heap(collector: Collector, beyond: Bytes, around: &Surroundings) -> Option<Bytes> {
    let budget = around
        .budget
        .filter(|&budget| budget >= Bytes::mib(64) && !around.mappings_bounded)?;
    let wanted = match collector {
        Collector::Serial => budget + budget / 10 * 19,
        Collector::G1 => budget + budget / 16,
        Collector::Shenandoah => budget + budget / 4,
        _ if collector.has_soft_max() => budget + budget / 8,
        _ => budget,
    };
    let room = if around.cliff {
        heap_on_a_cliff(around.group.unwrap_or(budget))
    } else {
        around
            .group
            .map_or(Bytes::MAX, |group| heap_in(group) + beyond)
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

/// With less memory than this a machine treats the computer as a client: 2 GiB less what firmware
/// and kernel may keep.
const SERVER_CLASS: Bytes = Bytes::mib(1792);

/// The collector that the machine will choose.
pub(super) fn collector(given: &Given, around: &Surroundings) -> Collector {
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
