//! A domain's books: who else uses it, how fast they grow, what is held back, what is shared out.
//!
//! `budget = capacity - outsiders - expected - reserve`, steadied by a band so that noise does not
//! move everybody's limits: it falls at once and rises only when there is more than the band to gain.

use super::flow::{Flow, over};
use super::{DomainFigures, Nanos, SensedDomain};
use plimsoll_policy::footprint::surprise;

const MILLISECOND: Nanos = 1_000_000;
/// Bytes.
const MIB: u64 = 1 << 20;
/// Over how long the growth of outsiders is measured.
const TAU: Nanos = 200 * MILLISECOND;
/// How fast a high-water mark of the growth is forgotten.
const FORGET: Nanos = 1_000 * MILLISECOND;
/// After a domain was short for so long, taking no more than what it lacks was not enough.
const PATCHWORK: Nanos = 1_000 * MILLISECOND;
/// Ticks in a row in which growth is not judged because memory is being freed.
const UNJUDGED: u32 = 4;
/// The watermark's floor, unless 4 % of the capacity is less: collectors overshoot by some percent.
const RESERVE_FLOOR: u64 = 64 * MIB;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Domain {
    pub(super) sensed: SensedDomain,
    flow: Flow,
    outsiders: u64,
    /// The outsiders' bytes by which their growth was judged last, and for how many ticks it has not been.
    judged: u64,
    unjudged: u32,
    /// High-water mark of the growth, bytes per second.
    rate: u64,
    watermark: u64,
    expected: u64,
    /// Capacity that is not shared out, steadied.
    withheld: u64,
    pub(super) budget: u64,
    /// Bytes that somebody lacks here; worked out once a tick.
    pub(super) need: u64,
    /// Somebody waits for what it is entitled to.
    waited_for: bool,
    /// Since when somebody lacks something here, in core time.
    short_since: Option<Nanos>,
}

/// Bounds that the configuration sets for a domain; none for a group's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) max_budget: u64,
    pub(super) min_reserve: u64,
}

/// Who is in a domain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Members {
    /// Bytes that are accounted to principals.
    pub(super) uses: u64,
    /// Principals that adapt and hold memory.
    pub(super) adaptive: u32,
    /// One of the broker's principals, here or elsewhere, is giving memory back just now.
    pub(super) freeing: bool,
}

impl Members {
    /// With those of a part of it.
    pub(super) fn add(&mut self, below: &Members) {
        self.uses = self.uses.saturating_add(below.uses);
        self.adaptive += below.adaptive;
    }
}

impl Bounds {
    pub(super) const NONE: Bounds = Bounds {
        max_budget: u64::MAX,
        min_reserve: 0,
    };
}

impl Domain {
    /// The same domain with what was sensed now.
    pub(super) fn with(self, sensed: SensedDomain) -> Domain {
        Domain { sensed, ..self }
    }

    /// Takes over what was sensed of the domain, and who is in it.
    pub(super) fn account(&mut self, members: Members, dt: Nanos, reaction: Nanos, bounds: Bounds) {
        let capacity = self.sensed.capacity;
        self.outsiders = self.sensed.used.saturating_sub(members.uses);
        let level = self.judge(members.freeing);
        self.flow.feed(level, dt, TAU);
        let rate = self.flow.rate(TAU).max(0) as u64;
        self.rate = rate.max(forget(self.rate, dt));
        self.watermark = self
            .watermark_for(reaction, members.adaptive > 1)
            .max(bounds.min_reserve)
            .min(capacity);
        self.expected = self.expected_for(reaction);
        let taken = self
            .outsiders
            .saturating_add(self.expected)
            .saturating_add(self.watermark);
        self.withheld = steady(self.withheld, taken, band(capacity).max(self.free() / 64));
        self.budget = capacity
            .saturating_sub(self.withheld)
            .min(bounds.max_budget);
    }

    /// The outsiders' bytes as far as their growth is concerned. The kernel takes up to 10,000
    /// pages off a process before it gives them back (`include/asm-generic/tlb.h`), and in between
    /// they look like somebody else's that came with a leap.
    fn judge(&mut self, freeing: bool) -> u64 {
        let leaps = self.outsiders > self.judged;
        if freeing && leaps && self.unjudged < UNJUDGED {
            self.unjudged += 1;
        } else {
            self.judged = self.outsiders;
            self.unjudged = 0;
        }
        self.judged
    }

    /// Growth x reaction time, at least the floor, at most a tenth of the capacity
    /// (the research's section 3: a watermark from the measured growth rate).
    ///
    /// Where an excess is death, the floor of `several` programs is one surprise: each keeps room
    /// for its own, but when they grow at the same time their collections wait for each other. Who
    /// is alone in a domain loses nothing by that.
    fn watermark_for(&self, reaction: Nanos, several: bool) -> u64 {
        let capacity = self.sensed.capacity;
        let usual = RESERVE_FLOOR.min(capacity / 25);
        let floor = match self.sensed.cliff && several {
            true => usual.max(surprise(capacity)),
            false => usual,
        };
        let grown = over(super::flow::signed(self.rate), reaction).max(0) as u64;
        grown.clamp(floor, floor.max(capacity / 10))
    }

    /// What outsiders will have taken by the time that programs have reacted, beyond what the
    /// watermark holds back anyway; never more than what is left, nor than a quarter.
    fn expected_for(&self, reaction: Nanos) -> u64 {
        let horizon = reaction.min(1_000 * MILLISECOND).saturating_add(reaction);
        let grown = over(super::flow::signed(self.rate), horizon).max(0) as u64;
        let left = self
            .sensed
            .capacity
            .saturating_sub(self.outsiders)
            .saturating_sub(self.watermark);
        grown
            .saturating_sub(self.watermark)
            .min(self.sensed.capacity / 4)
            .min(left)
    }

    /// Bytes that became or ceased to be a member's: outsiders' level moves, their growth does not.
    pub(super) fn shift(&mut self, by: i64) {
        self.flow.shift(by);
        self.judged = self.judged.saturating_add_signed(by);
    }

    /// Bytes in use by nobody, the reserve included.
    pub(super) fn free(&self) -> u64 {
        self.sensed.capacity.saturating_sub(self.sensed.used)
    }

    /// Bytes that are missing from the better half of the reserve: the other half is there for what
    /// comes and goes.
    pub(super) fn lack(&self) -> u64 {
        self.sensed
            .used
            .saturating_add(self.watermark / 2)
            .saturating_sub(self.sensed.capacity)
    }

    /// Three quarters of the reserve are gone, or somebody waits for a good part of its share.
    pub(super) fn urgent(&self) -> bool {
        self.free() < self.watermark / 4 || self.waited_for
    }

    /// Works out what is needed: what the reserve lacks, or what `waiting` bytes' owners lack. A
    /// domain that stays short needs all that is overdue: its debtors outgrow what is taken.
    pub(super) fn assess(&mut self, waiting: u64, now: Nanos) {
        let need = waiting.max(self.lack());
        self.waited_for = waiting > 0;
        self.short_since = if need > 0 {
            self.short_since.or(Some(now))
        } else {
            None
        };
        let short = self
            .short_since
            .is_some_and(|since| now.saturating_sub(since) >= PATCHWORK);
        self.need = if short { u64::MAX } else { need };
    }

    /// Bytes are on their way.
    pub(super) fn meet(&mut self, bytes: u64) {
        if self.need != u64::MAX {
            self.need = self.need.saturating_sub(bytes);
        }
    }

    pub(super) fn watermark(&self) -> u64 {
        self.watermark
    }

    /// Growth of the outsiders, bytes per second.
    pub(super) fn growth(&self) -> i64 {
        self.flow.rate(TAU)
    }

    pub(super) fn figures(&self) -> DomainFigures {
        let outsiders = self.outsiders;
        DomainFigures {
            capacity: self.sensed.capacity,
            used: self.sensed.used,
            outsiders,
            expected: self.expected,
            reserve: (self.withheld.min(self.sensed.capacity))
                .saturating_sub(outsiders.saturating_add(self.expected)),
            budget: self.budget,
            growth: self.growth(),
        }
    }
}

/// Steps in which a budget moves where memory is short. Where much is free, a 64th of that is no finer than
/// anybody needs, and the come and go of a busy machine moves no limits.
fn band(capacity: u64) -> u64 {
    (capacity / 1024).clamp(MIB / 4, 8 * MIB).min(capacity / 64)
}

/// Follows `new` from above: at once when it rises over `held`, by steps of `band` when it falls.
pub(super) fn steady(held: u64, new: u64, band: u64) -> u64 {
    if new > held || new.saturating_add(band.saturating_mul(3)) < held {
        new.saturating_add(band)
    } else {
        held
    }
}

fn forget(rate: u64, dt: Nanos) -> u64 {
    (u128::from(rate) * u128::from(FORGET) / u128::from(FORGET + dt)) as u64
}
