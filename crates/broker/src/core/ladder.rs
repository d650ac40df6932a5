//! The ladder: ask, page out, take, bound. One rung at a time, only against who owes, only for bytes
//! that are overdue and needed, never to death.
//!
//! Whoever adapts and says so is collected first, whatever that costs its program: what is paged
//! out of a live heap comes back with the next collection. So the lower rungs come later for it.
//!
//! A rung is repeated while it works, a few times. Where a principal has no cgroup there is one
//! rung, paging out, which is repeated for as long as it owes, less often while it does not help. A
//! bound follows the limit and is lifted when the debt has been paid for a while: longer each time
//! for who overruns again and again.

use super::debt::{Debt, slop, tolerance};
use super::{Nanos, Rung};

const MILLISECOND: Nanos = 1_000_000;
/// Between two actions against the same principal: they need time to show.
const PAUSE: Nanos = 200 * MILLISECOND;
/// An action of which no end was heard counts as over after this.
const GIVEN_UP: Nanos = 2_000 * MILLISECOND;
/// How long a first bound is kept after the debt was paid; doubles each time.
const HOLD: Nanos = 1_000 * MILLISECOND;
/// Who let a deadline pass more often than this is bound at once.
const LENIENCE: u8 = 3;
const MOST_STRIKES: u8 = 6;
/// A bound that nobody had any good of for so long is lifted, whatever its owner did before: who
/// cannot become smaller pages under it.
const USELESS: Nanos = 2_000 * MILLISECOND;
/// After so long without a debt, earlier overruns are forgotten.
const FORGIVEN: Nanos = 60_000 * MILLISECOND;
/// How often a rung is tried in one debt.
const TRIES: u8 = 4;
/// Paging out that does not help, and to which there is nothing else, becomes as rare as once in 6.4 s.
const MOST_DOUBLINGS: u8 = 5;
/// Less is not worth an action.
const LEAST: u64 = 64 << 10;

/// Where a principal stands at this tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) debt: Option<Debt>,
    pub(super) uses: u64,
    pub(super) limit: u64,
    /// Bytes that are needed in the domains it is in.
    pub(super) need: u64,
    /// The reserve of one of these domains is nearly gone: every byte counts.
    pub(super) urgent: bool,
    /// Nothing can be done to it but paging out.
    pub(super) bare: bool,
    /// How long after its deadline it may go on collecting before anything is taken.
    pub(super) grace: Nanos,
    pub(super) now: Nanos,
}

impl Standing {
    /// Bytes over `limit` that are let be while nothing is urgent.
    fn room(&self, limit: u64) -> u64 {
        if self.urgent { 0 } else { tolerance(limit) }
    }

    /// Bytes of the batch that may be taken by force.
    fn overdue(&self, debt: &Debt) -> u64 {
        debt.overdue(self.uses, self.now.saturating_sub(self.grace))
    }
}

/// What to do to a principal. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    PageOut(u64),
    Take(u64),
    Bound(u64),
}

/// A bound on its way to the kernel. It is sent again when nothing is heard of it: a bound that was
/// not lifted would hold a program down for ever.
#[derive(Clone, Copy, Debug)]
struct Sent {
    bytes: u64,
    at: Nanos,
    again: u8,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ladder {
    pub(super) rung: Rung,
    /// When the last action began.
    acted_at: Nanos,
    busy: bool,
    asked: u64,
    uses_then: u64,
    /// How often this rung was tried.
    tries: u8,
    bound: Option<u64>,
    /// The last bound (or lift) of which no end was heard.
    sent: Option<Sent>,
    paid_at: Option<Nanos>,
    /// Since when nobody needs what the bound holds back.
    useless_since: Option<Nanos>,
    /// Deadlines that it let pass while bytes were needed, as far as they are not forgiven.
    strikes: u8,
}

impl Ladder {
    /// The next action, if one is due.
    pub(super) fn step(&mut self, standing: &Standing) -> Option<Step> {
        let step = self.act(standing);
        match step {
            Some(Step::Bound(bytes)) => {
                self.sent = Some(Sent {
                    bytes,
                    at: standing.now,
                    again: 0,
                })
            }
            Some(_) => {}
            None => return self.repeat(standing.now),
        }
        step
    }

    fn act(&mut self, standing: &Standing) -> Option<Step> {
        self.useless_since = match standing.need {
            0 => self.useless_since.or(Some(standing.now)),
            _ => None,
        };
        match standing.debt {
            None => self.relieve(standing),
            Some(debt) => {
                self.paid_at = None;
                match self.bound {
                    Some(bound) if !standing.bare => self.rebound(standing, &debt, bound),
                    _ => self.press(standing, &debt),
                }
            }
        }
    }

    /// The daemon finished (or gave up) the last action. A `bound` that is given up is sent again.
    pub(super) fn acted(&mut self, bound: bool) {
        self.busy = false;
        if bound {
            self.sent = None;
        }
    }

    /// How long a new debt may take, for who would need `reaction`: less for who overran before, and
    /// next to nothing under a bound, where the kernel does the work.
    pub(super) fn patience(&self, reaction: Nanos) -> Nanos {
        let patience = reaction >> self.strikes;
        if self.bound.is_some() {
            patience.min(PAUSE)
        } else {
            patience
        }
    }

    /// Sends a bound again of which nothing was heard.
    fn repeat(&mut self, now: Nanos) -> Option<Step> {
        let sent = self.sent.as_mut()?;
        if now.saturating_sub(sent.at) < GIVEN_UP {
            return None;
        }
        if sent.again == TRIES {
            self.sent = None;
            return None;
        }
        *sent = Sent {
            at: now,
            again: sent.again + 1,
            ..*sent
        };
        Some(Step::Bound(sent.bytes))
    }

    fn relieve(&mut self, standing: &Standing) -> Option<Step> {
        let paid_at = *self.paid_at.get_or_insert(standing.now);
        let paid_for = standing.now.saturating_sub(paid_at);
        let Some(bound) = self.bound else {
            self.rung = Rung::None;
            if paid_for > FORGIVEN {
                self.strikes = 0;
            }
            return None;
        };
        // While bytes are needed it stays: it binds nobody who keeps to its limit.
        let held = paid_for >= HOLD << self.strikes.saturating_sub(1);
        let useless = self
            .useless_since
            .is_some_and(|since| paid_for.min(standing.now.saturating_sub(since)) >= USELESS);
        if standing.need == 0 && (held || useless) {
            self.bound = None;
            self.rung = Rung::None;
            return Some(Step::Bound(u64::MAX));
        }
        (standing.limit > bound).then(|| self.raise_bound(standing.limit))
    }

    /// A bound never stands below the limit; it follows it down as deadlines pass.
    fn rebound(&mut self, standing: &Standing, debt: &Debt, bound: u64) -> Option<Step> {
        if standing.limit > bound {
            return Some(self.raise_bound(standing.limit));
        }
        let overdue = standing.overdue(debt).min(standing.need);
        let lower = debt.due.saturating_add(standing.room(debt.due)) < bound;
        let escaped = standing.uses > bound.saturating_add(slop(bound));
        if overdue >= LEAST && (lower || escaped) && self.is_ready(standing) {
            self.begin(standing, overdue);
            let least = debt.due.max(standing.limit);
            return Some(self.set_bound(least.saturating_add(standing.room(least))));
        }
        None
    }

    fn press(&mut self, standing: &Standing, debt: &Debt) -> Option<Step> {
        let overdue = standing.overdue(debt);
        if overdue <= standing.room(debt.due) {
            self.rung = Rung::Asked;
            return None;
        }
        self.rung = self.rung.max(Rung::Asked);
        let bytes = overdue.min(standing.need);
        if bytes < LEAST || !self.is_ready(standing) {
            return None;
        }
        self.climb(standing);
        self.begin(standing, bytes);
        Some(match self.rung {
            Rung::PageOut => Step::PageOut(bytes),
            Rung::Take => Step::Take(bytes),
            _ => self.set_bound(debt.due.saturating_add(standing.room(debt.due))),
        })
    }

    /// To the next rung, unless this one works and was not tried too often.
    fn climb(&mut self, standing: &Standing) {
        let worked = self.uses_then.saturating_sub(standing.uses) >= self.asked / 4;
        let next = match self.rung {
            Rung::None | Rung::Asked => {
                self.strikes = (self.strikes + 1).min(MOST_STRIKES);
                if self.strikes > LENIENCE {
                    Rung::Bound
                } else {
                    Rung::PageOut
                }
            }
            rung if worked && self.tries < TRIES => rung,
            Rung::PageOut => Rung::Take,
            Rung::Take | Rung::Bound => Rung::Bound,
        };
        let next = match standing.bare {
            true => next.min(Rung::PageOut),
            false => next,
        };
        let again = next == self.rung && !(standing.bare && worked);
        self.tries = if again {
            self.tries.saturating_add(1)
        } else {
            1
        };
        self.rung = next;
    }

    fn is_ready(&self, standing: &Standing) -> bool {
        let since = standing.now.saturating_sub(self.acted_at);
        let in_vain = self.tries.saturating_sub(TRIES).min(MOST_DOUBLINGS);
        let wait = match self.busy {
            true => GIVEN_UP,
            false => PAUSE << in_vain,
        };
        self.asked == 0 || since >= wait
    }

    fn begin(&mut self, standing: &Standing, bytes: u64) {
        self.acted_at = standing.now;
        self.busy = true;
        self.asked = bytes;
        self.uses_then = standing.uses;
    }

    /// A little above the limit, so that not each small step of it is an action.
    fn raise_bound(&mut self, limit: u64) -> Step {
        self.set_bound(limit.saturating_add(slop(limit) / 2))
    }

    fn set_bound(&mut self, bytes: u64) -> Step {
        self.bound = Some(bytes);
        Step::Bound(bytes)
    }
}
