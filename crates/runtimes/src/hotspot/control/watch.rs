//! Facts about a machine that its counters teach over time.

use super::activity::Activity;
use super::cost::Cost;
use super::heap_size::HeapSize;
use super::observation::{Seen, tolerance};
use crate::hotspot::sizing_flags::{Levers, SizedBy};

/// How long the highest use is remembered at least, nanoseconds. It is remembered longer until the
/// young generation was filled once in that time.
const WINDOW: u64 = 500_000_000;
/// The same for collectors without generations, whose cycles are further apart, nanoseconds.
const LONG_WINDOW: u64 = 1_500_000_000;

/// The facts about a machine, for the broker. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The live bytes: what was left by the last full collection, or the least use of the last
    /// seconds.
    pub live: u64,
    /// Bytes allocated per second; absent until measured a few times.
    pub allocation_rate: Option<u64>,
    /// Live bytes collected per second, as if each collection was of the whole heap; 0 until a
    /// collection was seen.
    pub collection_speed: u64,
    /// The most that the machine can use: maximum heap and native part, or less if the steps
    /// between sizes leave a part of the available memory unused.
    pub demand: u64,
    /// The least that the machine can be asked to use.
    pub floor: u64,
    /// How long the machine took to get below a lowered limit, milliseconds; 0 until that happened.
    pub reaction_ms: u64,
}

/// How long the lowest used heap is remembered, nanoseconds.
const LEAST_WINDOW: u64 = 4_000_000_000;

/// A resting program demands an eighth more than it uses, and at least this many bytes more.
const HEADROOM: u64 = 16 << 20;

/// Measurements needed before the allocation rate is reported.
const ENOUGH: u32 = 3;

/// Watches the counters. Sizes in bytes, times in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Whether there was a look already.
    started: bool,
    /// Whether the whole heap was ever collected.
    pub(super) whole_seen: bool,
    /// The policy that turns limits into heap sizes.
    pub(super) heap_size: HeapSize,
    /// The live bytes, as far as they are known.
    pub(super) live: u64,
    /// The bytes that the last collection that stopped the program left; 0 until there was one.
    compact: u64,
    /// Numbers of young, full and concurrent collections at the last look.
    collections: [u64; 3],
    /// The highest use of the old generation since it was last shrunk.
    pub(super) old_peak: u64,
    /// How far from its start the young generation was ever filled since it was committed.
    pub(super) young_touched: u64,
    /// The size of the young generation at the last look.
    young_capacity: u64,
    /// The counter of bytes allocated between the last two collections, as of the last look.
    allocated_last: u64,
    /// The time of requested commands, as of the last look.
    asked_ns: u64,
    /// Cycles seen so far, for a collector without generations.
    pub(super) cycles: u64,
    /// Bytes allocated per second, smoothed.
    rate: f64,
    /// How much of a processor the program uses.
    activity: Activity,
    /// Since when it has been resting, nanoseconds; `None` while it works.
    pub(super) rests_since: Option<u64>,
    /// Measurements of the rate so far.
    samples: u32,
    /// Bytes per second of requested collections of the whole heap, smoothed. Reported until `cost`
    /// knows better.
    speed: f64,
    /// The cost of allocation in collections.
    cost: Cost,
    /// When the present measurement of the rate began.
    epoch_ns: u64,
    /// When the limit was lowered below the use; `None` once the use is below it.
    over_since: Option<u64>,
    /// How long that usually takes, milliseconds; 0 until it happened.
    reaction_ms: u64,
    /// The limit at its last change by more than 1 %.
    last_limit: u64,
    /// When the limit was last seen to change by more than 1 %.
    pub(super) limit_changed_ns: u64,
    /// Whether the last change lowered the limit.
    pub(super) limit_fell: bool,
    /// Pauses so far.
    pub(super) pauses: u64,
    /// Young collections so far.
    pub(super) young: u64,
    /// Begin and highest use of the current window and of the one before.
    peaks: [(u64, u64); 2],
    /// Young collections when the current window began.
    peaks_young: u64,
    /// Begin and lowest used heap of the current window and of the one before.
    leasts: [(u64, u64); 2],
}

impl Watch {
    pub(super) fn look(&mut self, seen: &Seen, levers: &Levers) {
        let counts = seen.heap.work.map(|w| w.invocations);
        if !self.started {
            self.started = true;
            self.collections = counts;
            self.live = seen.heap.old.used;
            self.epoch_ns = seen.now_ns;
            self.leasts[0] = (seen.now_ns, u64::MAX);
        }
        let generational = levers.sized_by != SizedBy::SoftMax;
        let whole = counts[1] != self.collections[1] || counts[2] != self.collections[2];
        self.whole_seen |= (counts[1] | counts[2]) > 0;
        let stopped = counts[1] != self.collections[1];
        self.learn_live(seen, levers, stopped);
        // Memory that the generation gave up is touched again when it grows back.
        let old = seen.heap.old;
        self.old_peak = self.old_peak.min(old.capacity).max(old.used);
        self.activity.look(seen);
        let since = self.rests_since.unwrap_or(seen.now_ns);
        self.rests_since = self.activity.rests().then_some(since);
        self.learn_touched(seen, counts);
        let young = counts[0].saturating_sub(self.collections[0]);
        let tells_live = if generational {
            // A collection that we asked for is no work of the program's, and hides some of that work.
            let asked = seen.asked_ns != self.asked_ns;
            self.learn_rate(seen, young, (stopped, whole && asked));
            whole
        } else {
            // A cycle has several pauses, so the counts do not tell cycles.
            let cycles = u64::from(seen.heap.allocated_last != self.allocated_last);
            self.cycles = self.cycles.saturating_add(cycles);
            self.learn_rate(seen, cycles, (false, false));
            cycles > 0
        };
        self.heap_size.look(seen, self.live, tells_live);
        self.allocated_last = seen.heap.allocated_last;
        self.asked_ns = seen.asked_ns;
        self.collections = counts;
        self.pauses = seen.heap.collections();
        self.young = counts[0];
        self.learn_reaction(seen);
        self.learn_peak(seen, generational);
    }

    /// The memory that a collection leaves is live if it `stopped` the program. Between cycles of
    /// G1, and without generations, the old generation holds garbage too, so the lowest use of the
    /// last seconds is taken.
    fn learn_live(&mut self, seen: &Seen, levers: &Levers, stopped: bool) {
        let used = seen.heap.old.used;
        let has_cycles = match levers.sized_by {
            SizedBy::HeapRatios => true,
            SizedBy::Fixed => levers.concurrent,
            _ => false,
        };
        match levers.sized_by {
            SizedBy::SoftMax => self.learn_least(seen),
            _ if has_cycles && !stopped => {
                self.learn_least(seen);
                self.live = self.live.max(1 << 20);
            }
            _ => {
                if stopped && used > 0 {
                    (self.live, self.compact) = (used, used);
                    self.leasts = [(seen.now_ns, used), (0, 0)];
                }
                self.live = self.live.min(used).max(1 << 20);
            }
        }
    }

    fn learn_least(&mut self, seen: &Seen) {
        if seen.now_ns.saturating_sub(self.leasts[0].0) > LEAST_WINDOW {
            self.leasts[1] = self.leasts[0];
            self.leasts[0] = (seen.now_ns, u64::MAX);
        }
        self.leasts[0].1 = self.leasts[0].1.min(seen.heap.old.used);
        let before = if self.leasts[1].0 > 0 {
            self.leasts[1].1
        } else {
            u64::MAX
        };
        self.live = self.leasts[0].1.min(before);
    }

    /// Eden is filled from its start, and a shrinking young generation gives its end back.
    fn learn_touched(&mut self, seen: &Seen, counts: [u64; 3]) {
        let young = &seen.heap.young;
        let filled = counts[0] > self.collections[0] && young.capacity == self.young_capacity;
        let eden = if filled { young.first_capacity } else { 0 };
        self.young_touched = self.young_touched.min(young.capacity).max(eden);
        self.young_capacity = young.capacity;
    }

    /// Learns the allocation between two collections (young ones, or cycles if there are no
    /// generations). A collection of the whole heap that `stopped` the program hides a part, so the
    /// measurements start again after it. If the program's own machine made it, its time counts with that of
    /// the next collection; if we `asked` for it, not.
    fn learn_rate(&mut self, seen: &Seen, collections: u64, (stopped, asked): (bool, bool)) {
        if asked {
            self.cost.skip(seen);
        }
        if stopped || asked {
            self.epoch_ns = seen.now_ns;
            self.activity.skip(seen);
            return;
        }
        let seconds = seen.now_ns.saturating_sub(self.epoch_ns) as f64 / 1e9;
        if collections > 0 && seconds > 0.0 {
            let allocated = seen.heap.allocated_last as f64 * collections as f64;
            self.activity.allocated(allocated, seen);
            self.cost.allocated(allocated, self.live, seen);
            self.heap_size.allocated(allocated);
            let rate = allocated / seconds;
            self.samples = self.samples.saturating_add(1);
            self.rate = if self.rate == 0.0 {
                rate
            } else {
                self.rate * 0.6 + rate * 0.4
            };
            self.epoch_ns = seen.now_ns;
        } else if seconds > 5.0 {
            // After a long time without a collection, the program cannot have allocated more than
            // its young generation.
            let bound = seen
                .heap
                .young
                .first_capacity
                .max(seen.heap.old.capacity / 2) as f64
                / seconds;
            self.rate = self.rate.min(bound);
            self.samples = self.samples.max(ENOUGH);
        }
    }

    fn learn_reaction(&mut self, seen: &Seen) {
        if seen.limit.abs_diff(self.last_limit) > self.last_limit / 100 {
            self.limit_changed_ns = seen.now_ns;
            self.limit_fell = seen.limit < self.last_limit;
            self.last_limit = seen.limit;
            if self.limit_fell && seen.uses > seen.limit {
                self.over_since = Some(seen.now_ns);
            }
        }
        let Some(since) = self.over_since else { return };
        if seen.uses <= seen.limit.saturating_add(tolerance(seen.limit)) {
            let ms = seen.now_ns.saturating_sub(since) / 1_000_000;
            self.reaction_ms = if self.reaction_ms == 0 {
                ms
            } else {
                self.reaction_ms.saturating_add(ms).div_ceil(2)
            };
            self.over_since = None;
        }
    }

    /// Keeps the highest use of the last one to two windows.
    fn learn_peak(&mut self, seen: &Seen, generational: bool) {
        let age = seen.now_ns.saturating_sub(self.peaks[0].0);
        let over = if generational {
            age > WINDOW && self.young > self.peaks_young
        } else {
            age > LONG_WINDOW
        };
        if over {
            self.peaks_young = self.young;
            self.peaks[1] = self.peaks[0];
            self.peaks[0] = (seen.now_ns, 0);
        }
        self.peaks[0].1 = self.peaks[0].1.max(seen.uses);
    }

    pub(super) fn peak(&self) -> u64 {
        self.peaks[0].1.max(self.peaks[1].1)
    }

    /// The live bytes. Until the whole heap was collected once, half of the young generation's use
    /// may be live.
    pub(super) fn live_estimate(&self, seen: &Seen) -> u64 {
        if self.whole_seen {
            self.live
        } else {
            self.live.max(seen.heap.young.used / 2)
        }
    }

    /// The live bytes that a collection which stops the program will find: as many as the last one
    /// did, at most. Between two of them garbage counts as live, for minutes in a program that
    /// hardly works.
    pub(super) fn compact_estimate(&self, seen: &Seen) -> u64 {
        match self.compact {
            0 => self.live_estimate(seen),
            known => self.live_estimate(seen).min(known),
        }
    }

    /// The allocation rate, bytes per second.
    fn rate(&self) -> f64 {
        self.activity.rate().unwrap_or(self.rate)
    }

    /// The collection time in nanoseconds that a heap larger by `more` bytes saves while a limit stays;
    /// `None` until known.
    pub(super) fn saved_ns(&self, more: u64, seen: &Seen) -> Option<f64> {
        let room = seen.heap.committed().saturating_sub(self.live);
        self.cost.saved_ns(self.rate(), room, more)
    }

    /// Whether the program has not worked for about a second.
    pub(super) fn rests(&self) -> bool {
        self.activity.rests()
    }

    /// Whether the use still rises because committed memory is being filled.
    pub(super) fn rising(&self) -> bool {
        self.peaks[0].1 > self.peaks[1].1.saturating_add(self.peaks[1].1 / 66)
    }

    /// Whether the limit changed within the last three seconds.
    pub(super) fn changed_lately(&self, seen: &Seen) -> bool {
        self.changed_within(seen, 3_000_000_000)
    }

    /// Whether the limit changed within the last `span` nanoseconds.
    pub(super) fn changed_within(&self, seen: &Seen, span: u64) -> bool {
        seen.now_ns.saturating_sub(self.limit_changed_ns) < span
    }

    pub(super) fn collected(&mut self, took_ns: u64, live: u64) {
        if took_ns > 0 && live > 0 {
            let speed = live as f64 / (took_ns as f64 / 1e9);
            self.speed = if self.speed == 0.0 {
                speed
            } else {
                self.speed * 0.7 + speed * 0.3
            };
        }
    }

    pub(super) fn facts(&self, seen: &Seen, levers: &Levers) -> Facts {
        let least = self.live.saturating_mul(levers.least_percent) / 100;
        let young = match levers.sized_by {
            SizedBy::OldRatios { new_ratio } => least / new_ratio.max(1),
            _ => 0,
        };
        let max = match levers.sized_by {
            SizedBy::OldRatios { .. } | SizedBy::OldOnly => {
                seen.heap.old.max.saturating_add(seen.heap.young.max)
            }
            _ => seen.heap.old.max,
        };
        let most = max.saturating_add(seen.native);
        let demand = if self.rests() {
            seen.uses
                .saturating_add((seen.uses / 8).max(HEADROOM))
                .min(most)
        } else {
            most
        };
        let rate = self.rate();
        Facts {
            live: self.live,
            allocation_rate: (self.samples >= ENOUGH).then_some(rate as u64),
            collection_speed: self.cost.speed(self.live).unwrap_or(self.speed) as u64,
            demand,
            floor: least.saturating_add(young).saturating_add(seen.native),
            reaction_ms: self.reaction_ms,
        }
    }
}
