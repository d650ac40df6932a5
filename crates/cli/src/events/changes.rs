//! The differences between two listings.

use crate::rows::{Faults, Order, rows};
use plimsoll_unit::MIB;
use plimsoll_wire::messages::{Id, Listing, Principal, Revocations};
use serde::Serialize;
use std::collections::HashMap;

/// A means by which memory is taken by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Rung {
    /// Its pages are paged out.
    PageOut,
    /// Bytes are taken from its cgroup.
    Take,
    /// Its cgroup is held to a limit.
    Bound,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum What {
    /// It is there.
    Joined,
    /// Its limit changed.
    Limited {
        /// Its limit before, bytes.
        was: u64,
    },
    /// It has to give memory back.
    Owes,
    /// It owes nothing any more.
    Paid,
    /// Memory was ordered to be taken from it.
    Taken {
        /// By which means.
        rung: Rung,
        /// How often since the last look.
        times: u64,
    },
    /// It waits for memory although it keeps to its limit.
    Stalled {
        /// Stalls per second.
        rate: u64,
    },
    /// It is gone.
    Left,
}

/// The numbers of a principal at the moment of an event. Sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Event {
    #[serde(flatten)]
    pub(super) what: What,
    pub(super) id: Id,
    pub(super) name: String,
    pub(super) uses: u64,
    pub(super) limit: u64,
    pub(super) owed: u64,
    pub(super) share: u64,
    pub(super) available: u64,
}

/// The state of a principal that was told last.
#[derive(Clone, Debug)]
struct Seen {
    principal: Principal,
    /// The limit that was told last, bytes.
    limit: u64,
}

/// Compares each listing with the one before.
#[derive(Debug, Default)]
pub(super) struct Changes {
    seen: HashMap<Id, Seen>,
}

impl Changes {
    /// The events since the last listing, in the order of the principals. Those that left come first.
    pub(super) fn look(&mut self, listing: &Listing) -> Vec<Event> {
        let rows = rows(listing, Order::Arrival, &Faults::new());
        let mut before = std::mem::take(&mut self.seen);
        let (mut events, mut there) = (Vec::new(), Vec::new());
        for row in rows {
            let principal = Principal {
                children: Vec::new(),
                ..row.principal.clone()
            };
            let was = before.remove(&principal.id);
            let limit = compare(was.as_ref(), &principal, &mut there);
            self.seen.insert(principal.id, Seen { principal, limit });
        }
        // In a listing that is cut, those who are missing may be there.
        if listing.left_out == 0 {
            let mut gone: Vec<&Seen> = before.values().collect();
            gone.sort_by_key(|seen| seen.principal.id);
            events.extend(gone.iter().map(|seen| event(&seen.principal, What::Left)));
        }
        events.append(&mut there);
        events
    }

    /// Forgets all: another broker gives other numbers.
    pub(super) fn forget(&mut self) {
        self.seen.clear();
    }
}

/// Adds what happened to one principal. Returns the limit that is told now.
fn compare(seen: Option<&Seen>, now: &Principal, events: &mut Vec<Event>) -> u64 {
    let mut tell = |what| events.push(event(now, what));
    let Some(seen) = seen else {
        tell(What::Joined);
        if now.owed > 0 {
            tell(What::Owes);
        }
        return now.limit;
    };
    let (was, mut limit) = (&seen.principal, seen.limit);
    if is_news(limit, now.limit) {
        tell(What::Limited { was: limit });
        limit = now.limit;
    }
    // A debt may begin and be paid between two looks.
    let is_asked = now.revocations.asked > was.revocations.asked;
    let owes = was.owed == 0 && (now.owed > 0 || is_asked);
    if owes {
        tell(What::Owes);
    }
    for (rung, times) in forced(&was.revocations, &now.revocations) {
        tell(What::Taken { rung, times });
    }
    if now.owed == 0 && (was.owed > 0 || owes) {
        tell(What::Paid);
    }
    let rate = now.stall_rate.unwrap_or(0);
    if rate > 0 && was.stall_rate.unwrap_or(0) == 0 {
        tell(What::Stalled { rate });
    }
    limit
}

fn event(principal: &Principal, what: What) -> Event {
    Event {
        what,
        id: principal.id,
        name: principal.name.clone(),
        uses: principal.uses,
        limit: principal.limit,
        owed: principal.owed,
        share: principal.share,
        available: principal.available,
    }
}

/// Whether a limit moved by more than a twentieth, and by more than 1 MiB.
fn is_news(was: u64, now: u64) -> bool {
    was.abs_diff(now) > (was.min(now) / 20).max(MIB)
}

/// How often each means was used meanwhile.
fn forced(was: &Revocations, now: &Revocations) -> impl Iterator<Item = (Rung, u64)> {
    let all = [
        (Rung::PageOut, now.paged_out.saturating_sub(was.paged_out)),
        (Rung::Take, now.taken.saturating_sub(was.taken)),
        (Rung::Bound, now.bound.saturating_sub(was.bound)),
    ];
    all.into_iter().filter(|(_, times)| *times > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(principals: Vec<Principal>) -> Listing {
        Listing {
            principals,
            ..Listing::default()
        }
    }

    fn principal(id: Id, limit: u64, owed: u64) -> Principal {
        Principal {
            id,
            limit: limit * MIB,
            owed: owed * MIB,
            ..Principal::default()
        }
    }

    fn told(changes: &mut Changes, listing: Listing) -> Vec<(Id, What)> {
        let events = changes.look(&listing);
        events.into_iter().map(|e| (e.id, e.what)).collect()
    }

    #[test]
    fn each_change_is_told_once() {
        let mut changes = Changes::default();
        let parent = Principal {
            children: vec![principal(2, 50, 0)],
            ..principal(1, 100, 0)
        };
        let joined = [(1, What::Joined), (2, What::Joined)];
        assert_eq!(told(&mut changes, at(vec![parent.clone()])), joined);
        assert_eq!(told(&mut changes, at(vec![parent])), []);
        // Small steps are told once they add up.
        assert_eq!(
            told(&mut changes, at(vec![principal(1, 97, 0)])),
            [(2, What::Left)]
        );
        let limited = What::Limited { was: 100 * MIB };
        assert_eq!(
            told(&mut changes, at(vec![principal(1, 94, 0)])),
            [(1, limited)]
        );
        assert_eq!(
            told(&mut changes, at(vec![principal(1, 94, 3)])),
            [(1, What::Owes)]
        );
        assert_eq!(told(&mut changes, at(vec![principal(1, 94, 9)])), []);
        assert_eq!(
            told(&mut changes, at(vec![principal(1, 94, 0)])),
            [(1, What::Paid)]
        );
        assert_eq!(told(&mut changes, at(vec![])), [(1, What::Left)]);
    }

    #[test]
    fn a_debt_between_two_looks_is_told_and_how_it_was_taken() {
        let mut changes = Changes::default();
        let mut one = principal(1, 100, 0);
        changes.look(&at(vec![one.clone()]));
        one.revocations = Revocations {
            asked: 1,
            paged_out: 3,
            bound: 1,
            ..Revocations::default()
        };
        one.stall_rate = Some(7);
        let taken = |rung, times| (1, What::Taken { rung, times });
        let expected = [
            (1, What::Owes),
            taken(Rung::PageOut, 3),
            taken(Rung::Bound, 1),
            (1, What::Paid),
            (1, What::Stalled { rate: 7 }),
        ];
        assert_eq!(told(&mut changes, at(vec![one.clone()])), expected);
        assert_eq!(told(&mut changes, at(vec![one])), []);
    }

    #[test]
    fn who_is_left_out_of_a_listing_did_not_leave() {
        let mut changes = Changes::default();
        changes.look(&at(vec![principal(1, 5, 0), principal(2, 5, 0)]));
        let cut = Listing {
            left_out: 1,
            ..at(vec![principal(2, 5, 0)])
        };
        assert_eq!(told(&mut changes, cut), []);
        changes.forget();
        assert_eq!(
            told(&mut changes, at(vec![principal(2, 5, 0)])),
            [(2, What::Joined)]
        );
    }
}
