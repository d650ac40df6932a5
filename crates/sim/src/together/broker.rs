//! The broker's core in virtual time: what the daemon does with it, without processes and pages.

use super::seat::Room;
use super::settings::{Entrant, Policy};
use plimsoll_decide::{Action, Config, Core, NewPrincipal, Refusal, SensedDomain, SensedPrincipal};
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Id, Kind, Max, Report};
use plimsoll_wire::page::Numbers;

/// Time from one report of a program to the next, as in the shipped adapters.
const REPORT: Nanos = Nanos::seconds(1);

/// The daemon's record of a program. Times are since the beginning of all, sizes bytes.
#[derive(Clone, Copy, Debug)]
struct Member {
    id: Id,
    /// The last report: when, what was allocated by then, and the allocation rate in a second.
    reported: Nanos,
    allocated: Bytes,
    rate: u64,
}

/// An order of the ladder against a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Pages of it are paged out.
    PageOut(Bytes),
    /// It may have at most this much in memory.
    Bound(Bytes),
}

/// The decision of a tick for one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Its page says this now; whether it is woken.
    Page(Numbers, bool),
    /// Something is done to it.
    Order(Order),
}

/// A broker.
pub(super) struct Broker {
    core: Core,
    /// The programs that are there, by their index.
    members: Vec<Option<Member>>,
    /// Whether programs report their collectors' figures.
    tells: bool,
    /// When the next tick and the next glance are due.
    tick_at: Nanos,
    glance_at: Nanos,
    sensed: Vec<SensedPrincipal>,
}

impl Broker {
    /// A broker where the policy has one.
    pub(super) fn new(policy: Policy, programs: usize) -> Option<Broker> {
        policy.is_brokered().then(|| Broker {
            core: Core::new(Config::default()),
            members: vec![None; programs],
            tells: policy == Policy::Shares,
            tick_at: Nanos::ZERO,
            glance_at: Nanos::ZERO,
            sensed: Vec::new(),
        })
    }

    /// A program starts, and registers at once.
    pub(super) fn join(
        &mut self,
        index: usize,
        entrant: &Entrant,
        now: Nanos,
    ) -> Result<(), Refusal> {
        let new = NewPrincipal {
            name: entrant.name.clone(),
            kind: Kind::Process,
            parent: None,
            weight: entrant.weight,
            priority: entrant.priority,
            max: Max::NONE,
            adaptive: true,
            tenant: false,
            automatic: false,
        };
        self.members[index] = Some(Member {
            id: self.core.register(&new, now)?,
            reported: now,
            allocated: Bytes::ZERO,
            rate: 0,
        });
        self.tick_at = now;
        Ok(())
    }

    /// A program has ended.
    pub(super) fn leave(&mut self, index: usize, now: Nanos) {
        if let Some(member) = self.members[index].take() {
            // It was registered, so it is known.
            let _ = self.core.remove(member.id);
            self.tick_at = self.tick_at.min(now + self.core.pace().tick);
        }
    }

    /// When it looks next.
    pub(super) fn due(&self) -> Nanos {
        self.tick_at.min(self.glance_at)
    }

    /// The memory that is shared out.
    pub(super) fn budget(&self) -> Bytes {
        Bytes(self.core.domain(None).map_or(0, |domain| domain.budget))
    }

    /// Looks at the memory. Where a tick is due, appends what it decided for each.
    pub(super) fn look(
        &mut self,
        now: Nanos,
        capacity: Bytes,
        room: &Room,
        entrants: &[Entrant],
        words: &mut Vec<(usize, Word)>,
    ) {
        let domain = SensedDomain {
            capacity,
            used: room.used(),
            ..SensedDomain::default()
        };
        if now < self.tick_at && !self.core.glance(None, domain.used) {
            self.glance_at = now + self.core.pace().glance;
            return;
        }
        self.sensed.clear();
        for (index, entrant) in entrants.iter().enumerate() {
            self.report(index, now, room, entrant);
            let sensed = self.members[index].map(|member| SensedPrincipal {
                id: member.id,
                uses: room.uses(index),
                swapped: room.swapped(index),
                ..SensedPrincipal::default()
            });
            self.sensed.extend(sensed);
        }
        let actions = self.core.tick(now, &domain, &self.sensed);
        for action in actions {
            let (id, word) = match *action {
                Action::Publish { id, numbers, wake } => (id, Word::Page(numbers, wake)),
                Action::PageOut { id, bytes } | Action::Take { id, bytes } => {
                    (id, Word::Order(Order::PageOut(bytes)))
                }
                Action::Bound { id, bytes } => (id, Word::Order(Order::Bound(bytes))),
            };
            let is_its = |member: &Option<Member>| member.is_some_and(|member| member.id == id);
            if let Some(index) = self.members.iter().position(is_its) {
                words.push((index, word));
            }
        }
        let pace = self.core.pace();
        self.tick_at = now + pace.tick;
        self.glance_at = now + pace.glance;
    }

    /// An order was carried out.
    pub(super) fn acted(&mut self, index: usize, order: Order) {
        if let Some(member) = self.members[index] {
            self.core.acted(member.id, matches!(order, Order::Bound(_)));
        }
    }

    /// A program's adapter reports, once a second.
    fn report(&mut self, index: usize, now: Nanos, room: &Room, entrant: &Entrant) {
        let Some(member) = &mut self.members[index] else {
            return;
        };
        let passed = now - member.reported;
        if passed < REPORT {
            return;
        }
        let seat = &room.seats[index];
        let sums = seat.sums;
        let per_second = |bytes: Bytes, time: u64| {
            let rate = u128::from(bytes.0) * 1_000_000_000 / u128::from(time.max(1));
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        // The mean of this second and of what was known: one second may see no collection.
        let fresh = per_second(sums.allocated - member.allocated, passed.0);
        member.rate = (member.rate + fresh) / 2;
        (member.reported, member.allocated) = (now, sums.allocated);
        let known = |value: u64| Some(value).filter(|value| self.tells && *value > 0);
        let report = Report {
            id: member.id,
            live: known(sums.live.0),
            allocation_rate: known(member.rate),
            collection_speed: known(per_second(sums.work, sums.collecting.0)),
            demand: Some(entrant.settings.heap.0),
            floor: Some(sums.live.0),
            reaction_ms: Some(seat.releases.reaction().0 / 1_000_000).filter(|it| *it > 0),
            collections: Some(sums.collections),
            collection_ms: Some(sums.collecting.0 / 1_000_000),
            ..Report::default()
        };
        // It was registered, so it is known.
        let _ = self.core.report(&report);
    }
}
