//! The ladder: ask, page out, take, bound. It climbs one rung at a time, only against a principal
//! that owes, and only for bytes that are overdue and needed. It never kills.
//!
//! A principal with an active adapter gets time to collect first, at any cost to its program,
//! because pages of a live heap that are paged out come back with the next collection. So the lower
//! rungs come later for it.
//!
//! Active memory is spared: nothing is taken from a principal below its working set while a sibling that
//! owes has memory outside of its own.
//!
//! A rung that works is repeated a few times. A principal without a cgroup has one rung, paging
//! out, which is repeated as long as it owes, less often while it does not help. A bound follows
//! the limit. It is lifted some time after the debt is paid, later for a principal that overran
//! repeatedly.

use super::Rung;
use super::debt::{Debt, slop, tolerance};
use super::tally::Tally;
use plimsoll_unit::Nanos;

/// Pause between two actions against one principal, so that the first can take effect.
const PAUSE: Nanos = Nanos::millis(200);
/// An action without a reported end counts as over after this time.
const GIVEN_UP: Nanos = Nanos::seconds(2);
/// How long a first bound stays after the debt is paid; doubles each time.
const HOLD: Nanos = Nanos::seconds(1);
/// A principal that missed more deadlines than this is bound at once.
const LENIENCE: u8 = 3;
const MOST_STRIKES: u8 = 6;
/// A bound that was useless for this long is lifted, even for a repeated overrun: a program that
/// cannot shrink only pages under it.
const USELESS: Nanos = Nanos::seconds(2);
/// Earlier overruns are forgotten after this time without a debt.
const FORGIVEN: Nanos = Nanos::seconds(60);
/// How often a rung is tried in one debt.
const TRIES: u8 = 4;
/// Most doublings of the pause where paging out is the only rung and does not help: once in 6.4 s.
const MOST_DOUBLINGS: u8 = 5;
/// Fewer bytes than this are not worth an action.
pub(super) const LEAST: u64 = 64 << 10;

/// Situation of a principal at this tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) debt: Option<Debt>,
    /// Bytes accounted to it.
    pub(super) uses: u64,
    /// Its own limit in force, bytes.
    pub(super) limit: u64,
    /// Bytes needed in the domains of the principal.
    pub(super) need: u64,
    /// The use in bytes below which nothing is taken from it: its working set, while a sibling that owes has
    /// inactive bytes (paper 4.5.1); otherwise 0.
    pub(super) spared: u64,
    /// The reserve of one of these domains is nearly used up: every byte counts.
    pub(super) urgent: bool,
    /// Paging out is the only possible action.
    pub(super) bare: bool,
    /// How long after its deadline it may continue to collect before bytes are taken.
    pub(super) grace: Nanos,
    /// Core time.
    pub(super) now: Nanos,
}

impl Standing {
    /// Bytes over `limit` that are tolerated while nothing is urgent.
    fn room(&self, limit: u64) -> u64 {
        if self.urgent { 0 } else { tolerance(limit) }
    }

    /// Bytes of the batch that may be taken by force.
    fn overdue(&self, debt: &Debt) -> u64 {
        debt.overdue(self.uses, self.now - self.grace)
    }

    /// Bytes to take now.
    fn due(&self, debt: &Debt) -> u64 {
        let inactive = self.uses.saturating_sub(self.spared);
        self.overdue(debt).min(self.need).min(inactive)
    }

    /// The least bound for a principal that must come down to `bytes`.
    fn bound(&self, bytes: u64) -> u64 {
        bytes.saturating_add(self.room(bytes)).max(self.spared)
    }
}

/// The next action against a principal. Amounts are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    PageOut(u64),
    Take(u64),
    Bound(u64),
}

/// A bound on its way to the kernel. It is sent again when no end is reported: a bound that is
/// never lifted would hold a program down for ever.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// The bound; `u64::MAX` lifts it.
    bytes: u64,
    /// Core time when it was sent last.
    at: Nanos,
    /// Number of repetitions.
    again: u8,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ladder {
    pub(super) rung: Rung,
    /// When the last action began.
    acted_at: Nanos,
    /// Whether the last action has not ended yet.
    busy: bool,
    /// Bytes that the last action was to take.
    asked: u64,
    /// Use in bytes when the last action began.
    uses_then: u64,
    /// Number of times that this rung was tried.
    tries: u8,
    /// The bound in force, bytes.
    bound: Option<u64>,
    /// The last bound or lift whose end was not reported yet.
    sent: Option<Sent>,
    /// Core time when the debt was paid; `None` while one exists.
    paid_at: Option<Nanos>,
    /// Start of the time in which nobody needs the bytes that the bound holds back.
    useless_since: Option<Nanos>,
    /// Number of deadlines missed while bytes were needed and not forgiven yet.
    strikes: u8,
    /// Counts for listings; nothing is decided by them.
    pub(super) tally: Tally,
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
                });
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

    /// Bytes that its present rung, or one above it, is about to take: nothing within the tolerance.
    pub(super) fn yields(&self, standing: &Standing) -> u64 {
        let is_worn = self.rung >= Rung::Bound || self.tries > TRIES;
        let debt = standing.debt.filter(|_| !is_worn);
        let debt = debt.filter(|debt| standing.overdue(debt) > standing.room(debt.due));
        let due = debt.map_or(0, |debt| standing.due(&debt));
        if due < LEAST { 0 } else { due }
    }

    /// Notes that the daemon finished or gave up the last action. A `bound` that was given up is
    /// sent again.
    pub(super) fn acted(&mut self, bound: bool) {
        self.busy = false;
        if bound {
            self.sent = None;
        }
    }

    /// Time to pay a new debt, for a principal with this `reaction` time. It is shorter after
    /// earlier overruns, and almost zero under a bound, where the kernel reclaims.
    pub(super) fn patience(&self, reaction: Nanos) -> Nanos {
        let patience = reaction / (1 << self.strikes);
        if self.bound.is_some() {
            patience.min(PAUSE)
        } else {
            patience
        }
    }

    /// Repeats a bound whose end was not reported.
    fn repeat(&mut self, now: Nanos) -> Option<Step> {
        let sent = self.sent.as_mut()?;
        if now - sent.at < GIVEN_UP {
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
        let paid_for = standing.now - paid_at;
        let Some(bound) = self.bound else {
            self.rung = Rung::None;
            if paid_for > FORGIVEN {
                self.strikes = 0;
            }
            return None;
        };
        // The bound stays while bytes are needed: it does not affect a principal that keeps to its
        // limit.
        let held = paid_for >= HOLD * (1 << self.strikes.saturating_sub(1));
        let useless = self
            .useless_since
            .is_some_and(|since| paid_for.min(standing.now - since) >= USELESS);
        if standing.need == 0 && (held || useless) {
            self.bound = None;
            self.rung = Rung::None;
            return Some(Step::Bound(u64::MAX));
        }
        (standing.limit > bound).then(|| self.raise_bound(standing.limit))
    }

    /// A bound is never below the limit. It follows a falling limit as deadlines pass.
    fn rebound(&mut self, standing: &Standing, debt: &Debt, bound: u64) -> Option<Step> {
        if standing.limit > bound {
            return Some(self.raise_bound(standing.limit));
        }
        let overdue = standing.due(debt);
        let lower = standing.bound(debt.due) < bound;
        let escaped = standing.uses > bound.saturating_add(slop(bound));
        if overdue >= LEAST && (lower || escaped) && self.is_ready(standing) {
            self.start(standing, overdue);
            let least = debt.due.max(standing.limit);
            return Some(self.set_bound(standing.bound(least)));
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
        let bytes = standing.due(debt);
        if bytes < LEAST || !self.is_ready(standing) {
            return None;
        }
        self.climb(standing);
        self.start(standing, bytes);
        Some(match self.rung {
            Rung::PageOut => Step::PageOut(bytes),
            Rung::Take => Step::Take(bytes),
            _ => self.set_bound(standing.bound(debt.due)),
        })
    }

    /// Climbs to the next rung, unless this one works and has tries left.
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
        let next = if standing.bare {
            next.min(Rung::PageOut)
        } else {
            next
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
        let since = standing.now - self.acted_at;
        let in_vain = self.tries.saturating_sub(TRIES).min(MOST_DOUBLINGS);
        let wait = if self.busy {
            GIVEN_UP
        } else {
            PAUSE * (1 << in_vain)
        };
        self.asked == 0 || since >= wait
    }

    fn start(&mut self, standing: &Standing, bytes: u64) {
        self.acted_at = standing.now;
        self.busy = true;
        self.asked = bytes;
        self.uses_then = standing.uses;
        self.tally.note_action(self.rung);
    }

    /// Raises the bound to a little above the limit, so that a small step of the limit is no
    /// action.
    fn raise_bound(&mut self, limit: u64) -> Step {
        self.set_bound(limit.saturating_add(slop(limit) / 2))
    }

    fn set_bound(&mut self, bytes: u64) -> Step {
        self.bound = Some(bytes);
        Step::Bound(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::MIB;

    /// Collectors come to a limit within some percent, and stay there for long.
    #[test]
    fn nothing_is_expected_within_the_tolerance_nor_of_active_memory() {
        let yields = |uses: u64, spared: u64, urgent: bool| {
            let debt = Debt {
                due: 320 * MIB,
                from: 450 * MIB,
                deadline: Nanos::ZERO,
            };
            let standing = Standing {
                debt: Some(debt),
                uses: uses * MIB,
                limit: 320 * MIB,
                need: 100 * MIB,
                spared: spared * MIB,
                urgent,
                bare: false,
                grace: Nanos::ZERO,
                now: Nanos(1),
            };
            Ladder::default().yields(&standing) / MIB
        };
        assert_eq!(yields(324, 150, false), 0);
        assert_eq!(yields(324, 150, true), 4);
        assert_eq!(yields(400, 150, false), 80);
        assert_eq!(yields(400, 370, false), 30);
        assert_eq!(yields(400, 400, false), 0);
    }
}
