//! The levers that size the heap of a running machine, in one table. The row depends on collector,
//! version and flags.
//!
//! | collector | sized by | what makes it act | returns memory |
//! |---|---|---|---|
//! | G1 | free ratios, of the whole heap | a concurrent cycle (11: a full collection only) | at once |
//! | Serial | free ratios, of the old generation; the young one follows | a full collection (a) | at once |
//! | Parallel | free ratios, of the old generation, as far as they go | full collections | partly |
//! | ZGC | `SoftMaxHeapSize` (11: nothing) | its own cycles | after `ZUncommitDelay` (b) |
//! | Shenandoah | `SoftMaxHeapSize`, at least 1.25 times the live bytes | its own cycles | (c) |
//!
//! (a) Four with `ShrinkHeapInSteps`. (b) 25: in parts; 11: never. (c) When `SoftMaxHeapSize` changes, else
//! after `ShenandoahUncommitDelay`.
//!
//! Measured with 11, 17, 21 (ZGC with generations and without) and 25. In Shenandoah 11 the soft
//! maximum has another name, see [`super::attach::Attach::rename`]. An unknown version gets the row
//! of its collector, as far as its flags are manageable.

use super::collector::Collector;
use super::machine::{Flags, Machine};
use plimsoll_unit::Bytes;
use std::time::Duration;

/// The default of `ShenandoahEvacReserve` from 11 to 25, percent.
const EVACUATION_RESERVE: u64 = 5;

/// The `-Xms` that we add unless the user gives one, bytes. It deserves no remark.
const OUR_LEAST: u64 = 32 << 20;

/// The size below which the heap never shrinks, bytes. Java 11 does not tell it, and its initial
/// size may be its own choice.
fn least_heap(flags: &Flags) -> u64 {
    flags.number("MinHeapSize").unwrap_or(0)
}

/// The size of Serial's heap whose generations are those of its first size, bytes. Neither generation shrinks
/// below that, whoever chose it. (Seen with 17 and 25: 300 MiB stayed at a ratio of 5 % with 22 MiB alive.)
/// A young generation that was set apart from `new_ratio` leaves less to the old one.
fn first_heap(new_ratio: u64, flags: &Flags) -> u64 {
    let parts = new_ratio.saturating_add(1);
    let first = flags.number("InitialHeapSize").unwrap_or(0);
    let young = flags.number("NewSize").unwrap_or(0).max(first / parts);
    let old = first.saturating_sub(young);
    (old / new_ratio.max(1)).saturating_mul(parts).min(first)
}

/// How the size of a heap is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizedBy {
    /// `MinHeapFreeRatio` and `MaxHeapFreeRatio` over the whole heap.
    HeapRatios,
    /// The same ratios over the old generation; the young one is the old one divided by
    /// `new_ratio`.
    OldRatios {
        /// `NewRatio`.
        new_ratio: u64,
    },
    /// The same ratios over the old generation, which is only ever made smaller. The young
    /// generation sizes itself.
    OldOnly,
    /// `SoftMaxHeapSize` in bytes.
    SoftMax,
    /// The size cannot be set.
    Fixed,
}

/// How a collection is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// `GC.run`.
    Run,
    /// `GC.class_histogram`, which collects even under `DisableExplicitGC`, or the agent instead.
    Histogram,
}

impl Trigger {
    /// The diagnostic command.
    pub fn command(self) -> &'static str {
        match self {
            Trigger::Run => "GC.run",
            Trigger::Histogram => "GC.class_histogram",
        }
    }
}

/// The levers of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levers {
    /// How its size is set.
    pub sized_by: SizedBy,
    /// How a collection is asked for.
    pub trigger: Trigger,
    /// Whether a requested collection is concurrent.
    pub concurrent: bool,
    /// How many full collections it takes to shrink by the whole amount.
    pub shrink_collections: u32,
    /// The heap is never asked to be smaller than the live bytes times this, in percent.
    pub least_percent: u64,
    /// The heap is never asked to be smaller than this, because its user set it, or because the collector
    /// never shrinks below its first size. Bytes.
    pub least_size: Bytes,
    /// How long free memory is kept before it is returned; zero if it is returned at once.
    pub delay: Duration,
    /// A change of the size returns what is free at that moment, regardless of the delay.
    pub returns_on_change: bool,
    /// The part of the maximum heap that the collector reserves for evacuation, bytes. It is not
    /// resident, but counts as used in comparisons with the soft maximum.
    pub set_apart: Bytes,
    /// Remarks for the user, one sentence each.
    pub remarks: Vec<&'static str>,
}

impl Levers {
    /// Chooses the levers of this machine.
    pub fn of(machine: &Machine) -> Levers {
        let flags = &machine.flags;
        let mut levers = match machine.collector {
            Collector::G1 => Levers::row(SizedBy::HeapRatios, 130),
            Collector::Serial => Levers::serial(flags),
            Collector::Parallel => Levers::parallel(flags),
            Collector::Z => Levers::z(machine),
            Collector::Shenandoah | Collector::GenShenandoah => Levers::shenandoah(flags),
            Collector::Other => Levers::row(SizedBy::Fixed, 100),
        };
        levers.concurrent |=
            machine.collector == Collector::G1 && flags.on("ExplicitGCInvokesConcurrent");
        // G1's concurrent cycles resize the heap only since JDK 12 (JEP 346).
        if machine.collector == Collector::G1 && (1..12).contains(&machine.version) {
            levers.trigger = Trigger::Histogram;
            levers.concurrent = false;
        }
        if flags.on("DisableExplicitGC") {
            levers.trigger = Trigger::Histogram;
            levers.concurrent &= machine.collector != Collector::G1;
            levers.remarks.push(
                "-XX:+DisableExplicitGC: the agent collects, or else GC.class_histogram does",
            );
        }
        let missing = match levers.sized_by {
            SizedBy::HeapRatios | SizedBy::OldRatios { .. } | SizedBy::OldOnly => {
                !flags.manageable("MinHeapFreeRatio") || !flags.manageable("MaxHeapFreeRatio")
            }
            SizedBy::SoftMax => !flags.manageable("SoftMaxHeapSize"),
            SizedBy::Fixed => false,
        };
        if missing {
            levers.sized_by = SizedBy::Fixed;
        }
        if levers.sized_by == SizedBy::Fixed {
            levers.remarks.push(
                "this collector has no lever that is known: the heap keeps the size it takes",
            );
        }
        levers.keep_to_sizes(flags);
        levers
    }

    /// Restricts the levers to what the user's own sizes leave free.
    fn keep_to_sizes(&mut self, flags: &Flags) {
        let least = least_heap(flags);
        let fixed = flags.number("MaxHeapSize").is_some_and(|max| least >= max);
        let by_ratios = !matches!(self.sized_by, SizedBy::SoftMax | SizedBy::Fixed);
        if by_ratios && fixed {
            self.sized_by = SizedBy::Fixed;
            self.remarks.push(
                "-Xms as large as -Xmx: the heap keeps that size, and only the agent can give back what is \
                 free in it; leave -Xms out to have it follow a limit without the agent",
            );
        } else if by_ratios && least > OUR_LEAST {
            self.least_size = Bytes(least);
            self.remarks
                .push("-Xms: the heap never becomes smaller than that, whatever the limit");
        }
        if let SizedBy::OldRatios { new_ratio } = self.sized_by {
            let first = first_heap(new_ratio, flags);
            if first > OUR_LEAST.max(least) {
                self.remarks.push(
                    "Serial never becomes smaller than its first heap, which is large here; a small \
                     -Xms makes it small",
                );
            }
            if first > OUR_LEAST {
                self.least_size = Bytes(first);
            }
        }
        // Transparent huge pages are returned as small pages are.
        if flags.on("UseLargePages") && !flags.on("UseTransparentHugePages") {
            self.remarks.push(
                "-XX:+UseLargePages: what the heap takes of them is not counted, never returned and \
                 never paged out",
            );
        }
    }

    fn row(sized_by: SizedBy, least_percent: u64) -> Levers {
        Levers {
            sized_by,
            trigger: Trigger::Run,
            concurrent: false,
            shrink_collections: 1,
            least_percent,
            least_size: Bytes::ZERO,
            delay: Duration::ZERO,
            returns_on_change: false,
            set_apart: Bytes::ZERO,
            remarks: Vec::new(),
        }
    }

    fn serial(flags: &Flags) -> Levers {
        let new_ratio = flags.number("NewRatio").unwrap_or(2).max(1);
        let mut levers = Levers::row(SizedBy::OldRatios { new_ratio }, 105);
        if flags.on("ShrinkHeapInSteps") {
            levers.shrink_collections = 4;
            levers
                .remarks
                .push("-XX:+ShrinkHeapInSteps: each shrinking takes four full collections");
        }
        levers
    }

    fn parallel(flags: &Flags) -> Levers {
        let mut levers = Levers::row(SizedBy::OldOnly, 130);
        levers.shrink_collections = 2;
        if !flags.on("UseAdaptiveSizePolicyWithSystemGC") {
            levers
                .remarks
                .push("Parallel without -XX:+UseAdaptiveSizePolicyWithSystemGC hardly shrinks");
        }
        levers
    }

    fn z(machine: &Machine) -> Levers {
        let flags = &machine.flags;
        let mut levers = Levers::row(SizedBy::SoftMax, 125);
        levers.concurrent = true;
        levers.delay = Duration::from_secs(flags.number("ZUncommitDelay").unwrap_or(300));
        if flags.number("ZUncommitDelay").is_none() {
            levers
                .remarks
                .push("ZGC of this version returns no memory that its heap once took");
        } else if !flags.on("ZUncommit") {
            levers.remarks.push(
                "-XX:-ZUncommit, or -Xms as large as -Xmx: what the heap once took is never returned",
            );
        } else if levers.delay > Duration::from_secs(10) {
            levers.remarks.push(
                "ZGC returns memory only after -XX:ZUncommitDelay, which cannot be changed now",
            );
        }
        if machine.version >= 25 {
            // ZGC returns a part after each delay. All of it took 4.6 s with a delay of 1 s.
            levers.delay *= 3;
        }
        levers
    }

    fn shenandoah(flags: &Flags) -> Levers {
        let mut levers = Levers::row(SizedBy::SoftMax, 125);
        levers.concurrent = true;
        // Experimental flags are printed only while they are unlocked; locked ones have their
        // defaults. A heap that may not shrink below its maximum returns nothing either.
        let max = flags.number("MaxHeapSize").unwrap_or(0);
        let least = flags
            .number("MinHeapSize")
            .or(flags.number("InitialHeapSize"));
        let fixed = max > 0 && least == Some(max);
        levers.returns_on_change = flags.on_or("ShenandoahUncommit", !fixed);
        let percent = flags
            .number("ShenandoahEvacReserve")
            .unwrap_or(EVACUATION_RESERVE);
        levers.set_apart = Bytes(max / 100 * percent.min(100));
        if !levers.returns_on_change {
            levers
                .remarks
                .push(
                    "-XX:-ShenandoahUncommit, or -Xms as large as -Xmx: what the heap once took is never \
                     returned",
                );
        }
        levers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: u32, collector: Collector, flags: &str) -> Levers {
        Levers::of(&Machine {
            version,
            collector,
            flags: Flags::parse(&flags.replace(';', "\n")),
            heap: None,
        })
    }

    const RATIOS: &str = "uintx MinHeapFreeRatio = 40 {manageable};uintx MaxHeapFreeRatio = 70 {manageable};\
                          bool ExplicitGCInvokesConcurrent = true {product}";

    #[test]
    fn g1_resizes_in_concurrent_cycles_since_12() {
        let g1 = |version| of(version, Collector::G1, RATIOS);
        let lever = |levers: &Levers| (levers.sized_by, levers.trigger, levers.concurrent);
        let whole = (SizedBy::HeapRatios, Trigger::Histogram, false);
        assert_eq!(lever(&g1(11)), whole);
        for version in [0, 17, 21, 25] {
            let beside = (SizedBy::HeapRatios, Trigger::Run, true);
            assert_eq!(lever(&g1(version)), beside, "{version}");
        }
    }

    #[test]
    fn zgc_of_11_has_no_lever_and_says_so() {
        let flags =
            "bool UseZGC = true {experimental};size_t ShenandoahSoftMaxHeapSize = 0 {manageable}";
        let old = of(11, Collector::Z, flags);
        assert_eq!(old.sized_by, SizedBy::Fixed);
        assert!(old.remarks[0].contains("no memory"), "{:?}", old.remarks);
        let flags = "size_t SoftMaxHeapSize = 9 {manageable};bool ZUncommit = true {product};\
                     uintx ZUncommitDelay = 1 {product}";
        for (version, seconds) in [(17, 1), (21, 1), (25, 3)] {
            let z = of(version, Collector::Z, flags);
            assert_eq!(
                (z.sized_by, z.delay),
                (SizedBy::SoftMax, Duration::from_secs(seconds))
            );
            assert!(z.remarks.is_empty(), "{:?}", z.remarks);
        }
    }

    #[test]
    fn shenandoah_of_11_has_its_soft_maximum_by_another_name() {
        let flags = "size_t ShenandoahSoftMaxHeapSize = 0 {manageable};bool UseShenandoahGC = true {product}";
        let old = of(11, Collector::Shenandoah, flags);
        assert_eq!(
            (old.sized_by, old.returns_on_change),
            (SizedBy::SoftMax, true)
        );
    }

    #[test]
    fn what_shenandoah_does_not_tell_has_its_default() {
        let sizes = "size_t SoftMaxHeapSize = 9 {manageable};size_t MaxHeapSize = 1000 {product}";
        let of = |more: &str| {
            let levers = of(25, Collector::Shenandoah, &format!("{sizes};{more}"));
            (levers.returns_on_change, levers.set_apart.0)
        };
        assert_eq!(of(""), (true, 50));
        assert_eq!(
            of("bool ShenandoahUncommit = false {experimental}"),
            (false, 50)
        );
        assert_eq!(
            of("uintx ShenandoahEvacReserve = 10 {experimental}"),
            (true, 100)
        );
        assert_eq!(of("size_t MinHeapSize = 8 {product}"), (true, 50));
        assert_eq!(of("size_t MinHeapSize = 1000 {product}"), (false, 50));
        assert_eq!(of("size_t InitialHeapSize = 1000 {product}"), (false, 50));
    }

    #[test]
    fn a_size_that_the_user_fixed_is_left_and_told() {
        let of = |version, collector, sizes: &str| {
            let levers = of(version, collector, &format!("{RATIOS};{sizes}"));
            (levers.sized_by, levers.least_size.0, levers.remarks.len())
        };
        let both =
            "size_t InitialHeapSize = 900000000 {product};size_t MaxHeapSize = 900000000 {product}";
        // Java 11 chooses a small initial heap by itself.
        assert_eq!(of(11, Collector::G1, both), (SizedBy::HeapRatios, 0, 0));
        for collector in [Collector::G1, Collector::Serial] {
            let since = format!("{both};size_t MinHeapSize = 900000000 {{product}}");
            assert_eq!(of(17, collector, &since), (SizedBy::Fixed, 0, 1));
        }
        // If the machine tells a least size, -XX:InitialHeapSize alone sets none.
        let initial = format!("{both};size_t MinHeapSize = 8388608 {{product}}");
        assert_eq!(of(17, Collector::G1, &initial), (SizedBy::HeapRatios, 0, 0));
        let some =
            "size_t MinHeapSize = 100000000 {product};size_t MaxHeapSize = 900000000 {product}";
        let floor = (SizedBy::HeapRatios, 100_000_000, 1);
        assert_eq!(of(25, Collector::G1, some), floor);
        let large = "bool UseLargePages = true {product}";
        assert_eq!(of(17, Collector::G1, large).2, 1);
        let small = format!("{large};bool UseTransparentHugePages = true {{product}}");
        assert_eq!(of(17, Collector::G1, &small).2, 0);
    }

    #[test]
    fn serial_keeps_to_its_first_size_whoever_chose_it() {
        let of = |sizes: &str| {
            let levers = of(17, Collector::Serial, &format!("{RATIOS};{sizes}"));
            assert_eq!(levers.sized_by, SizedBy::OldRatios { new_ratio: 2 });
            (levers.least_size.0, levers.remarks.len())
        };
        let own =
            "size_t InitialHeapSize = 300000000 {product};size_t MinHeapSize = 8388608 {product}";
        assert_eq!(of(own), (300_000_000, 1));
        // A young generation of two thirds leaves 100 MB to the old one.
        let young = format!("{own};size_t NewSize = 200000000 {{product}}");
        assert_eq!(of(&young), (150_000_000, 1));
        assert_eq!(of("size_t InitialHeapSize = 33554432 {product}"), (0, 0));
        let given =
            "size_t InitialHeapSize = 300000000 {product};size_t MinHeapSize = 300000000 {product}";
        assert_eq!(of(given), (300_000_000, 1));
    }

    #[test]
    fn where_nobody_may_ask_for_a_collection_a_histogram_makes_one() {
        let disabled = format!("{RATIOS};bool DisableExplicitGC = true {{product}}");
        for (collector, version) in [Collector::G1, Collector::Serial, Collector::Parallel]
            .into_iter()
            .flat_map(|collector| [11, 17, 25].map(|version| (collector, version)))
        {
            let levers = of(version, collector, &disabled);
            assert_eq!(levers.trigger, Trigger::Histogram, "{collector} {version}");
            assert!(!levers.concurrent && levers.sized_by != SizedBy::Fixed);
            let told = |remark: &&str| remark.contains("DisableExplicitGC");
            assert!(levers.remarks.iter().any(told), "{:?}", levers.remarks);
        }
    }

    #[test]
    fn what_is_not_known_is_left_its_size() {
        for collector in [Collector::Other, Collector::G1, Collector::Shenandoah] {
            let levers = of(99, collector, "");
            assert_eq!(levers.sized_by, SizedBy::Fixed);
            assert!(!levers.remarks.is_empty());
        }
    }
}
