//! What moves the heap of a running machine: one table, chosen by what the machine is.
//!
//! | collector | sizing | what makes it act | returns memory |
//! |---|---|---|---|
//! | G1 | free ratios, of the whole heap | a concurrent cycle (or a full collection) | at once |
//! | Serial | free ratios, of the old generation; the young one follows it | a full collection; four with `ShrinkHeapInSteps` | at once |
//! | Parallel | free ratios, of the old generation, as far as they go | full collections | partly |
//! | ZGC | `SoftMaxHeapSize` | its own cycles | after `ZUncommitDelay` |
//! | Shenandoah | `SoftMaxHeapSize`, at least 1.25 times the live bytes | its own cycles | when `SoftMaxHeapSize` changes, else after `ShenandoahUncommitDelay` |
//!
//! A version that is not known gets the row of its collector as far as its flags are manageable.

use super::machine::{Collector, Flags, Machine};
use std::time::Duration;

/// How the size of a heap is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizing {
    /// `MinHeapFreeRatio` and `MaxHeapFreeRatio` over the whole heap.
    HeapRatios,
    /// The same over the old generation; the young generation is the old one divided by `new_ratio`.
    OldRatios {
        /// `NewRatio`.
        new_ratio: u64,
    },
    /// The same over the old generation, whose young generation sizes itself: it is only ever made smaller.
    OldOnly,
    /// `SoftMaxHeapSize` in bytes.
    SoftMax,
    /// Nothing.
    Fixed,
}

/// How a collection is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// `GC.run`.
    Run,
    /// `GC.class_histogram`, which collects even under `DisableExplicitGC`.
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
    pub sizing: Sizing,
    /// How a collection is asked for.
    pub trigger: Trigger,
    /// The collection that is asked for runs beside the program.
    pub concurrent: bool,
    /// Full collections until it shrinks by as much as it should.
    pub shrink_collections: u32,
    /// The heap is never asked to be smaller than the live bytes times this, in percent.
    pub least_percent: u64,
    /// How long free memory is kept before it is returned; zero where it is returned at once.
    pub delay: Duration,
    /// Whatever the delay, a change of the size returns what is free at that moment.
    pub returns_on_change: bool,
    /// What the collector sets apart of the maximum heap to evacuate to, bytes: not resident, but it counts as used where the
    /// soft maximum is compared.
    pub set_apart: u64,
    /// What a person may want to know, each one sentence.
    pub remarks: Vec<&'static str>,
}

impl Levers {
    /// Chooses by what the machine is.
    pub fn of(machine: &Machine) -> Levers {
        let flags = &machine.flags;
        let mut levers = match machine.collector {
            Collector::G1 => Levers::row(Sizing::HeapRatios, 130),
            Collector::Serial => Levers::serial(flags),
            Collector::Parallel => Levers::parallel(flags),
            Collector::Z => Levers::z(machine),
            Collector::Shenandoah | Collector::GenShenandoah => Levers::shenandoah(flags),
            Collector::Other => Levers::row(Sizing::Fixed, 100),
        };
        levers.concurrent |=
            machine.collector == Collector::G1 && flags.on("ExplicitGCInvokesConcurrent");
        // Its concurrent cycles resize the heap since JDK 12 (JEP 346).
        if machine.collector == Collector::G1 && (1..12).contains(&machine.version) {
            levers.trigger = Trigger::Histogram;
            levers.concurrent = false;
        }
        if flags.on("DisableExplicitGC") {
            levers.trigger = Trigger::Histogram;
            levers.concurrent &= machine.collector != Collector::G1;
            levers
                .remarks
                .push("-XX:+DisableExplicitGC: collections are asked for by GC.class_histogram");
        }
        let missing = match levers.sizing {
            Sizing::HeapRatios | Sizing::OldRatios { .. } | Sizing::OldOnly => {
                !flags.manageable("MinHeapFreeRatio") || !flags.manageable("MaxHeapFreeRatio")
            }
            Sizing::SoftMax => !flags.manageable("SoftMaxHeapSize"),
            Sizing::Fixed => false,
        };
        if missing {
            levers.sizing = Sizing::Fixed;
        }
        if levers.sizing == Sizing::Fixed {
            levers.remarks.push(
                "this collector has no lever that is known: the heap keeps the size it takes",
            );
        }
        levers
    }

    fn row(sizing: Sizing, least_percent: u64) -> Levers {
        Levers {
            sizing,
            trigger: Trigger::Run,
            concurrent: false,
            shrink_collections: 1,
            least_percent,
            delay: Duration::ZERO,
            returns_on_change: false,
            set_apart: 0,
            remarks: Vec::new(),
        }
    }

    fn serial(flags: &Flags) -> Levers {
        let new_ratio = flags.number("NewRatio").unwrap_or(2).max(1);
        let mut levers = Levers::row(Sizing::OldRatios { new_ratio }, 105);
        if flags.on("ShrinkHeapInSteps") {
            levers.shrink_collections = 4;
            levers
                .remarks
                .push("-XX:+ShrinkHeapInSteps: each shrinking takes four full collections");
        }
        levers
    }

    fn parallel(flags: &Flags) -> Levers {
        let mut levers = Levers::row(Sizing::OldOnly, 130);
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
        let mut levers = Levers::row(Sizing::SoftMax, 125);
        levers.concurrent = true;
        levers.delay = Duration::from_secs(flags.number("ZUncommitDelay").unwrap_or(300));
        if !flags.on("ZUncommit") {
            levers
                .remarks
                .push("-XX:-ZUncommit: what the heap once took is never returned");
        } else if levers.delay > Duration::from_secs(10) {
            levers.remarks.push(
                "ZGC returns memory only after -XX:ZUncommitDelay, which cannot be changed now",
            );
        }
        if machine.version >= 25 {
            // It gives back a part after each delay: all of it took 4.6 s with a delay of 1 s.
            levers.delay *= 3;
        }
        levers
    }

    fn shenandoah(flags: &Flags) -> Levers {
        let mut levers = Levers::row(Sizing::SoftMax, 125);
        levers.concurrent = true;
        levers.returns_on_change = flags.on("ShenandoahUncommit");
        let percent = flags.number("ShenandoahEvacReserve").unwrap_or(0);
        let max = flags.number("MaxHeapSize").unwrap_or(0);
        levers.set_apart = max / 100 * percent.min(100);
        if !levers.returns_on_change {
            levers
                .remarks
                .push("-XX:-ShenandoahUncommit: what the heap once took is never returned");
        }
        levers
    }
}
