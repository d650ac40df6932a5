//! The start flags that make a Java virtual machine elastic, by collector.
//!
//! They stand before the user's own, so that the user's win, and after `-XX:+IgnoreUnrecognizedVMOptions`, so
//! that a version that does not know one starts all the same. Flags that would change the meaning of one that the
//! user gave (a generation size beside `-Xmn`) are left out.

use super::machine::Collector;

/// The smallest heap that is started with, MiB: the floor below which no collector shrinks.
const LEAST_HEAP_MIB: u64 = 32;
/// Above this a heap loses compressed object pointers, and needs about half more for the same objects.
const COMPRESSED: u64 = 31 << 30;
/// From here on a heap without compressed pointers holds more than one of [`COMPRESSED`].
const WORTH_IT: u64 = 48 << 30;

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
}

impl Surroundings {
    /// Those of this process.
    pub fn of_self(budget: Option<u64>, memory: Option<u64>) -> Surroundings {
        let limit = rustix::process::getrlimit(rustix::process::Resource::As);
        Surroundings {
            budget,
            memory,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            address_space_limited: limit.current.is_some(),
        }
    }
}

/// Flags to insert, and what to say about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// In this order, before the user's own.
    pub flags: Vec<String>,
    /// One line each.
    pub notes: Vec<String>,
}

/// Chooses the flags for a command line (without `java` itself).
pub fn start(arguments: &[String], around: &Surroundings) -> Added {
    let given = options(arguments);
    let has = |prefixes: &[&str]| {
        given
            .iter()
            .any(|g| prefixes.iter().any(|p| g.starts_with(p)))
    };
    let mut added = Added::default();
    let collector = collector(&given, around);
    let mut flag = |text: String| added.flags.push(text);
    flag("-XX:+IgnoreUnrecognizedVMOptions".to_owned());
    let heap_given = has(&["-Xmx", "-XX:MaxHeapSize", "-XX:MaxRAM"]);
    let young_given = has(&[
        "-Xmn",
        "-XX:NewSize",
        "-XX:MaxNewSize",
        "-XX:NewRatio",
        "-XX:SurvivorRatio",
    ]);
    let max_given = sizes(&given, &["-Xmx", "-XX:MaxHeapSize="]);
    let min_given = sizes(
        &given,
        &["-Xms", "-XX:InitialHeapSize=", "-XX:MinHeapSize="],
    );
    // A heap that begins larger than it may become does not start.
    let least = LEAST_HEAP_MIB << 20;
    if min_given.is_empty()
        && !has(&["-XX:InitialRAMPercentage"])
        && max_given.iter().all(|&max| max >= least)
    {
        flag(format!("-Xms{LEAST_HEAP_MIB}m"));
    }
    let max = max_heap(collector, around)
        .filter(|&max| !heap_given && min_given.iter().all(|&min| min <= max));
    if let Some(max) = max {
        flag(format!("-Xmx{}m", max >> 20));
    }
    if let Some(max) = max.filter(|_| collector.has_soft_max()) {
        // Until the broker's word comes.
        let soft = (max / 9 * 8).saturating_sub(NATIVE).max(least);
        flag(format!("-XX:SoftMaxHeapSize={}m", soft >> 20));
    }
    for text in by_collector(collector, heap_given, young_given) {
        flag((*text).to_owned());
    }
    added.notes.push(format!(
        "{collector} is expected, by the flags given or by the machine's own choice"
    ));
    added
}

/// Flags for a machine of which nothing is known: not its version, its collector, nor what its command line says.
/// Sizes are percentages of the memory, which give way to any size that is given, wherever it stands. What would mean
/// something to another collector than the one it is for (`GCTimeRatio`, `NewRatio`) is left out.
pub fn for_any(around: &Surroundings) -> Added {
    let mut flags = vec!["-XX:+IgnoreUnrecognizedVMOptions".to_owned()];
    if let Some(memory) = around.memory.filter(|&memory| memory > 0) {
        let percent = |bytes: u64| (bytes as f64 / memory as f64 * 100.0).min(100.0);
        let least = percent(LEAST_HEAP_MIB << 20);
        flags.push(format!("-XX:InitialRAMPercentage={least:.4}"));
        if let Some(max) = max_heap(Collector::Other, around) {
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
    Added {
        flags,
        notes: vec!["for whatever Java virtual machine the program starts".to_owned()],
    }
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
        // GCTimeRatio=1: G1 does not grow by itself as long as collecting takes less than half of the time.
        Collector::G1 if young_given => &["-XX:+ExplicitGCInvokesConcurrent", "-XX:GCTimeRatio=1"],
        Collector::G1 => &[
            "-XX:+ExplicitGCInvokesConcurrent",
            "-XX:GCTimeRatio=1",
            "-XX:+UnlockExperimentalVMOptions",
            "-XX:G1MaxNewSizePercent=80",
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
    let compressed = (COMPRESSED..WORTH_IT).contains(&wanted)
        || (collector == Collector::Serial && budget < WORTH_IT);
    Some(if compressed {
        wanted.min(COMPRESSED)
    } else {
        wanted
    })
}

/// The words of an option file or variable.
pub fn words(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Bytes that options of these names give; 0 where that cannot be read.
fn sizes(given: &[&str], names: &[&str]) -> Vec<u64> {
    let value = |option: &&str| {
        names
            .iter()
            .find_map(|name| option.strip_prefix(name))
            .map(bytes)
    };
    given.iter().filter_map(value).collect()
}

/// A size as the machine takes it: `300m`.
fn bytes(text: &str) -> u64 {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return 0,
    };
    let number: u64 = digits.parse().unwrap_or(0);
    number.checked_shl(shift).unwrap_or(0)
}

/// The options that are the machine's: everything before the class, the jar or the module.
fn options(arguments: &[String]) -> Vec<&str> {
    let with_value = [
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "--add-modules",
        "--upgrade-module-path",
    ];
    let mut options = Vec::new();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        if !argument.starts_with(['-', '@']) || matches!(argument, "-jar" | "-m" | "--module") {
            break;
        }
        options.push(argument);
        if with_value.contains(&argument) {
            rest.next();
        }
    }
    options
}

/// The collector that the machine will choose.
fn collector(given: &[&str], around: &Surroundings) -> Collector {
    let table = [
        ("-XX:+UseSerialGC", Collector::Serial),
        ("-XX:+UseParallelGC", Collector::Parallel),
        ("-XX:+UseG1GC", Collector::G1),
        ("-XX:+UseZGC", Collector::Z),
        ("-XX:+UseShenandoahGC", Collector::Shenandoah),
        ("-XX:+UseEpsilonGC", Collector::Other),
    ];
    if let Some((_, collector)) = table.iter().find(|(flag, _)| given.contains(flag)) {
        return *collector;
    }
    let processors = given
        .iter()
        .find_map(|g| g.strip_prefix("-XX:ActiveProcessorCount=")?.parse().ok());
    if processors.unwrap_or(around.processors) < 2 {
        Collector::Serial
    } else {
        Collector::G1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(arguments: &[&str], around: &Surroundings) -> Vec<String> {
        let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
        start(&arguments, around).flags
    }

    fn two() -> Surroundings {
        Surroundings {
            budget: Some(1500 << 20),
            memory: Some(24 << 30),
            processors: 2,
            address_space_limited: false,
        }
    }

    #[test]
    fn a_program_alone_can_use_the_budget() {
        assert!(flags(&["-jar", "a.jar"], &two()).contains(&"-Xmx1593m".to_owned()));
        assert!(flags(&["-XX:+UseSerialGC", "A"], &two()).contains(&"-Xmx3300m".to_owned()));
        let z = flags(&["-XX:+UseZGC", "A"], &two());
        assert!(z.contains(&"-Xmx1687m".to_owned()), "{z:?}");
        assert!(z.contains(&"-XX:SoftMaxHeapSize=1404m".to_owned()), "{z:?}");
    }

    #[test]
    fn what_the_user_gave_is_not_touched() {
        let added = flags(&["-Xmx200m", "-Xms10m", "-XX:+UseSerialGC", "A"], &two()).join(" ");
        assert!(
            !added.contains("-Xm") && !added.contains("NewRatio"),
            "{added}"
        );
        let added = flags(&["-Xmn20m", "A"], &two()).join(" ");
        assert!(!added.contains("G1MaxNewSizePercent"), "{added}");
    }

    #[test]
    fn sizes_that_contradict_each_other_are_not_made() {
        // "Initial heap size set to a larger value than the maximum heap size" ends a machine.
        for (given, not) in [
            ("-Xmx16m", "-Xms"),
            ("-XX:MaxHeapSize=8388608", "-Xms"),
            ("-Xmxodd", "-Xms"),
            ("-Xms4g", "-Xmx"),
            ("-XX:InitialHeapSize=2T", "-Xmx"),
        ] {
            let added = flags(&[given, "A"], &two()).join(" ");
            assert!(!added.contains(not), "{given}: {added}");
        }
        let added = flags(&["-Xms1g", "A"], &two()).join(" ");
        assert!(added.contains("-Xmx1593m"), "{added}");
    }

    #[test]
    fn a_machine_of_which_nothing_is_known_gets_no_size_that_could_contradict() {
        let added = for_any(&two()).flags.join(" ");
        assert!(added.starts_with("-XX:+IgnoreUnrecognizedVMOptions "));
        assert!(
            added.contains("-XX:MaxRAMPercentage=6.1035") && !added.contains("-Xm"),
            "{added}"
        );
        for others in ["GCTimeRatio", "NewRatio", "UseG1", "NewSize"] {
            assert!(!added.contains(others), "{added}");
        }
        let unknown = Surroundings {
            memory: None,
            ..two()
        };
        assert!(!for_any(&unknown).flags.join(" ").contains("Percentage"));
    }

    #[test]
    fn what_comes_after_the_class_is_the_programs() {
        let added = flags(
            &["-cp", "-Xmx9m", "A", "-Xmx200m", "-XX:+UseSerialGC"],
            &two(),
        )
        .join(" ");
        assert!(
            added.contains("-Xmx1593m") && !added.contains("NewRatio"),
            "{added}"
        );
    }

    #[test]
    fn one_processor_means_serial() {
        let one = Surroundings {
            processors: 1,
            ..two()
        };
        assert!(flags(&["A"], &one).contains(&"-XX:-ShrinkHeapInSteps".to_owned()));
        assert!(
            flags(&["-XX:ActiveProcessorCount=1", "A"], &two())
                .contains(&"-XX:NewRatio=1".to_owned())
        );
    }

    #[test]
    fn compressed_pointers_are_kept() {
        let big = |gib: u64| Surroundings {
            budget: Some(gib << 30),
            ..two()
        };
        assert!(flags(&["A"], &big(40)).contains(&format!("-Xmx{}m", 31 << 10)));
        assert!(flags(&["A"], &big(64)).contains(&format!("-Xmx{}m", 68 << 10)));
        assert!(
            flags(&["-XX:+UseSerialGC", "A"], &big(20)).contains(&format!("-Xmx{}m", 31 << 10))
        );
        let limited = Surroundings {
            address_space_limited: true,
            ..two()
        };
        assert!(!flags(&["A"], &limited).join(" ").contains("-Xmx"));
    }
}
