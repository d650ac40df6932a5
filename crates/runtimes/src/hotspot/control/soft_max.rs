//! ZGC and Shenandoah: the size is `SoftMaxHeapSize` in bytes. The machine's own cycles follow it.

use super::collection_budget::Allowance;
use super::observation::{Action, Seen, tolerance};
use super::watch::Watch;
use crate::hotspot::sizing_flags::Levers;
use plimsoll_unit::{Bytes, Nanos};

/// How long after an upward change the use is expected to have settled.
const GROWING: Nanos = Nanos::millis(700);
/// The same after a downward change, in addition to the uncommit delay.
const SETTLING: Nanos = Nanos::millis(1700);

/// How long the use must be far above the limit before a collection is asked for.
const PATIENCE: Nanos = Nanos::millis(500);
/// The pause before each further collection.
const AGAIN: Nanos = Nanos::seconds(1);
/// The same where an excess ends the program.
const AGAIN_ON_A_CLIFF: Nanos = Nanos::millis(150);
/// The part of its soft maximum that Shenandoah keeps free when it begins a cycle.
const KEPT_FREE: f64 = 0.1;
/// After this long without a pause the machine is taken not to collect by itself.
const IDLE: Nanos = Nanos::seconds(3);
/// The pause between two nudges.
const NUDGE: Nanos = Nanos::millis(200);
/// Soft maxima are multiples of this.
const GRAIN: Bytes = Bytes::mib(2);

/// The state of the steering.
#[derive(Debug, Default)]
pub(super) struct SoftMax {
    /// The soft maximum that was set last; 0 at first.
    set: Bytes,
    /// By which part of the room the soft maximum exceeds the room, because memory that the machine
    /// keeps free is not resident. May be negative.
    bias: f64,
    /// The bytes that the process was meant to use in all at the last look.
    intended: Bytes,
    /// When the limit, the soft maximum, the bias or what the process is meant to use last changed.
    changed_at: Nanos,
    /// Whether the last change was downward.
    fell: bool,
    /// The highest use since the last change took effect, bytes.
    highest: Bytes,
    /// Pauses so far, and when the last new one was seen.
    pauses: u64,
    pauses_since: Nanos,
    /// Cycles when the soft maximum was last set or the bias last raised.
    settled_cycles: u64,
    /// When the soft maximum was last set or nudged.
    nudged_at: Nanos,
    /// A nudge lowered the soft maximum until the next look.
    lowered: bool,
    /// Since when the use exceeds the limit by more than an eighth.
    much_since: Option<Nanos>,
    /// When a collection was last asked for.
    collected_at: Nanos,
}

impl SoftMax {
    pub(super) fn describe(&self) -> String {
        format!(
            "soft maximum {} MiB, bias {:.0} %",
            self.set.0 >> 20,
            self.bias * 100.0
        )
    }

    pub(super) fn tick(
        &mut self,
        seen: &Seen,
        levers: &Levers,
        watch: &Watch,
        allowance: &mut Allowance,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if watch.collections.pauses != self.pauses {
            (self.pauses, self.pauses_since) = (watch.collections.pauses, seen.now);
        }
        if watch.limit.changes_now(seen) {
            if watch.limit.fell {
                // The free part of a larger heap tells nothing about a smaller one.
                self.bias = self.bias.min(0.0);
            } else if levers.returns_on_change {
                self.bias = self.bias.max(KEPT_FREE);
            }
            self.changed(seen);
        }
        self.settle(seen, levers, watch);
        let max = seen.heap.old.max.max(seen.heap.young.max);
        let least = watch.live.bytes * levers.least_percent / 100;
        let room = watch.heap_size.at(seen).0 as f64;
        let size = Bytes((room * (1.0 + self.bias)) as u64).max(least);
        let wanted = whole_grains((size + levers.set_apart).min(max));
        if std::mem::take(&mut self.lowered) {
            self.set = wanted;
            actions.push(Action::Set("SoftMaxHeapSize", wanted.0));
        } else if wanted > Bytes::ZERO && wanted.abs_diff(self.set) > (self.set / 200).max(GRAIN) {
            self.fell = wanted < self.set;
            self.set = wanted;
            self.changed(seen);
            self.settled_cycles = watch.collections.cycles;
            self.nudged_at = seen.now;
            actions.push(Action::Set("SoftMaxHeapSize", wanted.0));
        } else if levers.returns_on_change
            && (seen.uses > seen.limit || seen.heap.committed() > size + tolerance(seen.limit))
        {
            // Committed memory counts as well, because it may be in swap.
            actions.extend(self.nudge(whole_grains(size.min(wanted)), seen));
        }
        let over = seen.is_urgent();
        let much = seen.uses > seen.limit + seen.limit / 8;
        self.much_since = much.then(|| self.much_since.unwrap_or(seen.now));
        if over && self.must_collect(seen, levers) && allowance.must(seen.now) {
            self.collected_at = seen.now;
            actions.push(Action::Collect);
            // Where an excess ends the program, do not lengthen the pause before the next
            // collection.
            allowance.judged(seen.kept > Bytes::ZERO, seen.now);
        } else if !over {
            allowance.judged(true, seen.now);
        }
        actions
    }

    /// Whether to ask for a collection. An idle machine finds no free memory unless it is asked to
    /// collect. Shenandoah returns all free memory at the end of a requested collection, before the
    /// next cycle begins. Otherwise JDK 25 returns nothing during a cycle, and with little room one
    /// cycle follows the other.
    fn must_collect(&self, seen: &Seen, levers: &Levers) -> bool {
        let since = |then: Nanos| seen.now - then;
        let idle = since(self.pauses_since) > IDLE;
        let stays = self.much_since.is_some_and(|then| since(then) > PATIENCE);
        let due = if seen.kept > Bytes::ZERO {
            since(self.collected_at) > AGAIN_ON_A_CLIFF
        } else {
            stays && since(self.collected_at) > AGAIN
        };
        idle || (levers.returns_on_change && due)
    }

    /// Makes Shenandoah return memory. On a change of the soft maximum it returns what is free at
    /// that moment, down to the new value; what a later cycle frees needs another change. So the
    /// soft maximum is set to a little less than the size until the next look.
    fn nudge(&mut self, size: Bytes, seen: &Seen) -> Option<Action> {
        if seen.now - self.nudged_at < NUDGE || size <= GRAIN {
            return None;
        }
        self.nudged_at = seen.now;
        self.lowered = true;
        self.set = size - GRAIN;
        Some(Action::Set("SoftMaxHeapSize", self.set.0))
    }

    /// Corrects the bias by the highest use: upward after cycles at the new size, downward after
    /// the machine had time to return memory.
    fn settle(&mut self, seen: &Seen, levers: &Levers, watch: &Watch) {
        let delay = Nanos::from(levers.delay).min(Nanos::seconds(10));
        let settling = if levers.returns_on_change {
            GROWING
        } else {
            SETTLING + delay
        };
        let (intended, near) = (watch.heap_size.intended(seen), tolerance(seen.limit));
        if intended > self.intended + near {
            self.changed(seen);
        }
        self.intended = intended;
        let passed = seen.now - self.changed_at;
        let shown = if self.fell { settling } else { GROWING };
        if passed >= shown - GROWING / 2 {
            self.highest = self.highest.max(seen.uses);
        }
        // When its first cycle ends, ZGC is still filling the new size.
        let cycles = if levers.returns_on_change { 1 } else { 2 };
        let (peak, room) = (self.highest, watch.heap_size.at(seen).0.max(1) as f64);
        let aim = intended - near / 4;
        if passed >= settling && peak > seen.limit + near {
            self.bias = (self.bias - (peak - seen.limit).0 as f64 / room).max(-0.5);
            self.changed(seen);
        } else if passed >= shown
            && aim - peak > near / 2
            && watch.collections.cycles >= self.settled_cycles.saturating_add(cycles)
        {
            self.bias = (self.bias + 0.7 * (aim - peak).0 as f64 / room).min(0.33);
            self.changed(seen);
            self.settled_cycles = watch.collections.cycles;
        }
    }

    fn changed(&mut self, seen: &Seen) {
        (self.changed_at, self.highest) = (seen.now, Bytes::ZERO);
    }
}

/// The largest multiple of [`GRAIN`] that is not more.
fn whole_grains(bytes: Bytes) -> Bytes {
    Bytes(bytes.0 & !(GRAIN.0 - 1))
}
