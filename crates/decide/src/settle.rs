//! From decisions to published numbers: the limit in force, the debt, the level, and whether
//! subscribers must be woken.

use super::Rung;
use super::debt::{Debt, slop, tolerance};
use super::node::{LACKING, Node, Published};
use plimsoll_unit::{MIB, Nanos};
use plimsoll_wire::page::{Level, Numbers};

/// A page is rewritten if it would be older than this by the next tick; a little under the promised
/// second.
const HEARTBEAT: Nanos = Nanos::millis(950);

/// Times of one tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Time on the clock of the pages.
    pub(super) clock: Nanos,
    /// Core time: the same clock without its jumps.
    pub(super) now: Nanos,
    /// Longest time until the next tick.
    pub(super) next: Nanos,
    /// The clock jumped, so the times on the pages are wrong.
    pub(super) jumped: bool,
}

/// Puts the limit in force and computes the debt. A fall takes effect at once, a rise only when it
/// is large enough or spares a debt. So the sum of the limits in force never exceeds the sum of the
/// decided limits.
pub(super) fn settle(node: &mut Node, now: Nanos) {
    let decided = node.limits.share.limit;
    let over = node.sensed.uses
        > node
            .limits
            .limit
            .saturating_add(slop(node.limits.limit) / 2);
    let frees = over && decided >= node.sensed.uses;
    if decided < node.limits.limit
        || frees
        || decided > node.limits.limit.saturating_add(step(node.limits.limit))
    {
        node.limits.limit = decided;
    }
    let reaction = node.ladder.patience(node.reaction());
    let (before, uses) = (node.debt, node.sensed.uses);
    node.debt = Debt::step(before, uses, node.limits.limit, now, reaction);
    node.ladder.tally.note_debt(before, node.debt, uses, now);
    node.learn_least(now);
    // A principal that claims only its guarantee did not come near its limit.
    let near = node
        .limits
        .share
        .limit
        .saturating_add(node.limits.share.lacks)
        >= node.limits.share.target;
    if node.limits.share.lacks > 0
        && near
        && node.needs.lacked_at.is_none_or(|at| now - at >= LACKING)
    {
        node.needs.lacked_at = Some(now);
    }
    let lacks = node.gap() > tolerance(node.limits.limit);
    node.needs.waits = if lacks {
        node.needs.waits.or(Some(now))
    } else {
        None
    };
}

impl Node {
    /// Whether it uses nearly all that it may use.
    pub(super) fn is_full(&self) -> bool {
        self.sensed.uses.saturating_add(self.limits.limit / 8) >= self.limits.limit
    }

    /// Bytes that it lacks of the entitlement that it wants and does not lend. A principal that is
    /// not near its limit, and does not say that it wants more, lacks nothing.
    pub(super) fn gap(&self) -> u64 {
        if !self.is_full() && self.asks_for() <= self.limits.limit {
            return 0;
        }
        self.limits
            .share
            .entitlement
            .min(self.limits.share.target)
            .min(self.needs.demand)
            .saturating_sub(self.limits.limit)
    }

    /// Its own numbers at this moment.
    pub(super) fn own_numbers(&self, moment: &Moment) -> Numbers {
        Numbers {
            limit: self.limits.limit,
            available: self.limits.share.available.max(self.limits.limit),
            owed: self
                .debt
                .map_or(0, |_| self.sensed.uses.saturating_sub(self.limits.limit)),
            deadline: self
                .debt
                .map_or(0, |debt| on_clock(debt.deadline, moment).0),
            uses: self.sensed.uses,
            share: self.limits.share.entitlement,
            level: self.urgency(moment.now),
            sensed: self.sensed.read_at.0,
        }
    }

    fn urgency(&self, now: Nanos) -> Level {
        if let Some(debt) = self.debt {
            let near = debt.deadline - now <= self.reaction() / 4;
            return if near || self.ladder.rung > Rung::Asked {
                Level::Critical
            } else {
                Level::Warning
            };
        }
        // A principal with more than its target is not held back, whatever it wants.
        let more = self.sensed.uses > self.limits.share.target;
        let held_back =
            !more && self.needs.demand > self.limits.limit.saturating_add(slop(self.limits.limit));
        let margin = if self.limits.published.numbers.level == Level::Normal {
            2
        } else {
            4
        } * slop(self.limits.limit);
        let full = self.sensed.uses.saturating_add(margin) >= self.limits.limit;
        if held_back && full && self.sensed.uses > 0 {
            Level::Warning
        } else {
            Level::Normal
        }
    }
}

/// How new numbers are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Publication {
    /// Nothing new.
    None,
    /// Write the page.
    Write,
    /// Write the page and wake the subscribers.
    Wake,
}

/// Compares new numbers with those published last.
pub(super) fn publication(published: &Published, new: &Numbers, moment: &Moment) -> Publication {
    let Some(at) = published.at else {
        return Publication::Wake;
    };
    if is_news(&published.woken, new) {
        return Publication::Wake;
    }
    let old = &published.numbers;
    let age = moment.now - at + moment.next;
    let must = moment.jumped
        || new.limit != old.limit
        || new.deadline != old.deadline
        || new.level != old.level;
    let moved = moved(old.uses, new.uses)
        || moved(old.available, new.available)
        || moved(old.share, new.share)
        || moved(old.owed, new.owed);
    if must || moved || age >= HEARTBEAT {
        Publication::Write
    } else {
        Publication::None
    }
}

/// Whether a subscriber must be woken, for relief as well as for demands.
fn is_news(woken: &Numbers, new: &Numbers) -> bool {
    let settled = (new.owed == 0) != (woken.owed == 0);
    let owes_more = new.owed > woken.owed && moved(woken.owed, new.owed);
    settled || owes_more || new.level != woken.level || moved(woken.limit, new.limit)
}

/// Whether a value moved by more than 1 % and 1 MiB; for the smallest, by more than a sixteenth.
fn moved(old: u64, new: u64) -> bool {
    let base = old.min(new);
    old.abs_diff(new) > (base / 100).max(MIB.min(base / 16))
}

/// Least rise of a limit that takes effect, bytes.
fn step(limit: u64) -> u64 {
    (limit / 128).clamp(64 << 10, 8 * MIB)
}

/// Converts core time to the clock of this tick; past times stay in the past.
fn on_clock(time: Nanos, moment: &Moment) -> Nanos {
    let on_clock = if time >= moment.now {
        moment.clock + (time - moment.now)
    } else {
        moment.clock - (moment.now - time)
    };
    on_clock.max(Nanos(1))
}
