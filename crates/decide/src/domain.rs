//! Accounts of a domain: the use of outsiders, its growth, the reserve, and the budget.
//!
//! `budget = capacity - outsiders - expected - reserve`. A band keeps noise from moving all limits:
//! the budget falls at once, and rises only when it would gain more than the band.

use super::smoothed_level::{Flow, change, signed};
use super::{DomainFigures, SensedDomain};
use plimsoll_policy::footprint::surprise;
use plimsoll_unit::{Bytes, MIB, Nanos};

/// Time constant for the growth of outsiders.
const TAU: Nanos = Nanos::millis(200);
/// Time constant with which a high-water mark of the growth decays.
const FORGET: Nanos = Nanos::seconds(1);
/// After a domain was short for this long, taking only what it lacks was not enough.
const PATCHWORK: Nanos = Nanos::seconds(1);
/// Most consecutive ticks in which growth is not judged because memory is being freed.
const UNJUDGED: u32 = 4;
/// Least reserve, unless 4 % of the capacity is less: collectors overshoot by some percent.
const RESERVE_FLOOR: Bytes = Bytes::mib(64);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Domain {
    pub(super) sensed: SensedDomain,
    flow: Flow,
    /// Pages of files that the members use.
    files: Bytes,
    /// Use of the outsiders.
    outsiders: Bytes,
    /// Use of the outsiders when their growth was last judged, and the number of ticks since then.
    judged: Bytes,
    unjudged: u32,
    /// High-water mark of the growth, bytes per second.
    rate: u64,
    /// The reserve before smoothing.
    watermark: Bytes,
    /// Expected growth of the outsiders beyond the reserve.
    expected: Bytes,
    /// Capacity that is not shared out, smoothed.
    withheld: Bytes,
    /// Memory that is shared out.
    pub(super) budget: Bytes,
    /// Memory that principals lack here; computed once per tick.
    pub(super) need: Bytes,
    /// Whether some principal waits for its entitlement.
    waited_for: bool,
    /// Start of the current shortage here, in core time.
    short_since: Option<Nanos>,
}

/// Bounds that the configuration sets for a domain. The domain of a group has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) max_budget: Bytes,
    pub(super) min_reserve: Bytes,
}

/// The members of a domain, summed up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Members {
    /// Memory that is accounted to principals.
    pub(super) uses: Bytes,
    /// The part of it that is pages of files.
    pub(super) files: Bytes,
    /// Number of adaptive principals that hold memory.
    pub(super) adaptive: u32,
    /// Whether a principal of the broker, in this domain or another, is giving memory back now.
    pub(super) freeing: bool,
}

impl Members {
    /// Adds the members of a nested part.
    pub(super) fn add(&mut self, below: &Members) {
        self.uses += below.uses;
        self.files += below.files;
        self.adaptive += below.adaptive;
    }
}

impl Bounds {
    pub(super) const NONE: Bounds = Bounds {
        max_budget: Bytes::MAX,
        min_reserve: Bytes::ZERO,
    };
}

impl Domain {
    /// The same domain with what was sensed now.
    pub(super) fn with(self, sensed: SensedDomain) -> Domain {
        Domain { sensed, ..self }
    }

    /// Updates the accounts from what was sensed and from the members.
    pub(super) fn account(&mut self, members: Members, dt: Nanos, reaction: Nanos, bounds: Bounds) {
        let capacity = self.sensed.capacity;
        self.follow_files(members.files);
        self.outsiders = self.used() - members.uses;
        let level = self.judge(members.freeing);
        self.flow.feed(level.0, dt, TAU);
        let rate = self.flow.rate(TAU).max(0) as u64;
        self.rate = rate.max(forget(self.rate, dt));
        self.watermark = self
            .watermark_for(reaction, members.adaptive > 1)
            .max(bounds.min_reserve)
            .min(capacity);
        self.expected = self.expected_for(reaction);
        let taken = self.outsiders + self.expected + self.watermark;
        self.withheld = steady(self.withheld, taken, band(capacity).max(self.free() / 64));
        self.budget = (capacity - self.withheld).min(bounds.max_budget);
    }

    /// Pages of files that members begin to use were the outsiders' before, as far as they were counted, and
    /// are so again later. That is no growth.
    fn follow_files(&mut self, files: Bytes) {
        let counted = |files: Bytes| signed(files.min(self.sensed.files).0);
        self.shift(counted(self.files) - counted(files));
        self.files = files;
    }

    /// Use as sensed, and the pages of files that the members use beyond those that are counted there. This
    /// adds the fewest that are possible, so that none counts twice.
    fn used(&self) -> Bytes {
        self.sensed.used + (self.files - self.sensed.files)
    }

    /// Use of the outsiders, as it counts for their growth. The kernel unmaps up to 10,000
    /// pages of a process before it frees them (`include/asm-generic/tlb.h`). In between they look
    /// like a sudden growth of outsiders, so growth is not judged while memory is being freed.
    fn judge(&mut self, freeing: bool) -> Bytes {
        let leaps = self.outsiders > self.judged;
        if freeing && leaps && self.unjudged < UNJUDGED {
            self.unjudged += 1;
        } else {
            self.judged = self.outsiders;
            self.unjudged = 0;
        }
        self.judged
    }

    /// The reserve: growth x reaction time, at least the floor, at most a tenth of the capacity
    /// (the research's section 3: a watermark from the measured growth rate).
    ///
    /// Where exceeding the capacity kills, several programs share one floor that covers a sudden
    /// growth. Each keeps its own margin as well, but when they grow together their collections
    /// wait for each other. A program that is alone in a domain is not affected.
    fn watermark_for(&self, reaction: Nanos, several: bool) -> Bytes {
        let capacity = self.sensed.capacity;
        let usual = RESERVE_FLOOR.min(capacity / 25);
        let floor = if self.sensed.cliff && several {
            usual.max(surprise(capacity))
        } else {
            usual
        };
        self.grown(reaction).clamp(floor, floor.max(capacity / 10))
    }

    /// Memory that outsiders will have taken when programs have reacted, beyond what the watermark
    /// covers. At most what is left, and at most a quarter of the capacity.
    fn expected_for(&self, reaction: Nanos) -> Bytes {
        let horizon = reaction.min(Nanos::seconds(1)) + reaction;
        let left = self.sensed.capacity - self.outsiders - self.watermark;
        (self.grown(horizon) - self.watermark)
            .min(self.sensed.capacity / 4)
            .min(left)
    }

    /// Growth of the outsiders within a time, by the high-water mark.
    fn grown(&self, time: Nanos) -> Bytes {
        Bytes(change(signed(self.rate), time).max(0) as u64)
    }

    /// Moves `by` bytes between members and outsiders: changes the level of outsiders, not their
    /// growth.
    pub(super) fn shift(&mut self, by: i64) {
        self.flow.shift(by);
        self.judged = Bytes(self.judged.0.saturating_add_signed(by));
    }

    /// Free memory, including the reserve.
    pub(super) fn free(&self) -> Bytes {
        self.sensed.capacity - self.used()
    }

    /// Memory missing from the upper half of the reserve. The lower half is there for fluctuations.
    pub(super) fn lack(&self) -> Bytes {
        self.used() + self.watermark / 2 - self.sensed.capacity
    }

    /// Whether three quarters of the reserve are gone, or a principal waits for a good part of its
    /// share.
    pub(super) fn urgent(&self) -> bool {
        self.free() < self.watermark / 4 || self.waited_for
    }

    /// Computes the need: what the reserve lacks, or what the owners of `waiting` lack. A
    /// domain that stays short needs all overdue bytes, because its debtors grow faster than memory
    /// is taken.
    pub(super) fn assess(&mut self, waiting: Bytes, now: Nanos) {
        let need = waiting.max(self.lack());
        self.waited_for = waiting > Bytes::ZERO;
        self.short_since = if need > Bytes::ZERO {
            self.short_since.or(Some(now))
        } else {
            None
        };
        let short = self
            .short_since
            .is_some_and(|since| now - since >= PATCHWORK);
        self.need = if short { Bytes::MAX } else { need };
    }

    /// Subtracts what is being taken already.
    pub(super) fn deduct(&mut self, bytes: Bytes) {
        if self.need != Bytes::MAX {
            self.need -= bytes;
        }
    }

    pub(super) fn watermark(&self) -> Bytes {
        self.watermark
    }

    /// Growth of the outsiders, bytes per second.
    pub(super) fn growth(&self) -> i64 {
        self.flow.rate(TAU)
    }

    pub(super) fn figures(&self) -> DomainFigures {
        let capacity = self.sensed.capacity;
        let reserve = self.withheld.min(capacity) - (self.outsiders + self.expected);
        DomainFigures {
            capacity: capacity.0,
            used: self.used().0,
            outsiders: self.outsiders.0,
            expected: self.expected.0,
            reserve: reserve.0,
            budget: self.budget.0,
            growth: self.growth(),
            urgent: self.urgent(),
        }
    }
}

/// Step in which a budget changes where memory is short. Where much is free, the caller
/// takes a 64th of that instead: that is precise enough, and fluctuations of a busy
/// machine change no limit.
fn band(capacity: Bytes) -> Bytes {
    (capacity / 1024)
        .clamp(Bytes(MIB / 4), Bytes::mib(8))
        .min(capacity / 64)
}

/// Follows `new` from above: rises at once, and falls when it is more than three bands too high.
/// The result is one band above `new`.
fn steady(held: Bytes, new: Bytes, band: Bytes) -> Bytes {
    if new > held || new + band * 3 < held {
        new + band
    } else {
        held
    }
}

fn forget(rate: u64, dt: Nanos) -> u64 {
    (u128::from(rate) * u128::from(FORGET.0) / u128::from((FORGET + dt).0)) as u64
}
