//! One principal, as the core keeps it.

use super::debt::Debt;
use super::domain::Domain;
use super::flow::Flow;
use super::ladder::Ladder;
use super::{Nanos, NewPrincipal};
use plimsoll_policy::shares::{Collector, Share};
use plimsoll_wire::messages::{Id, Kind, Max, Priority, Statistics, Weight};
use plimsoll_wire::page::Numbers;

const MILLISECOND: Nanos = 1_000_000;
/// Reaction time of a program that did not report one.
pub(super) const REACTION: Nanos = 500 * MILLISECOND;
/// Passive principals are not asked, but those that speak the pressure protocol get this long.
const PASSIVE_REACTION: Nanos = 100 * MILLISECOND;
const REACTION_LEAST: Nanos = 50 * MILLISECOND;
const REACTION_MOST: Nanos = 5_000 * MILLISECOND;
/// How long an adapter collects before something is taken by force; and where the reserve is nearly
/// gone, so that the kernel would take from its neighbours next.
const GRACE: Nanos = 3_000 * MILLISECOND;
const URGENT_GRACE: Nanos = 1_000 * MILLISECOND;
/// An adapter that reported nothing for so long is not collecting.
const SILENT: Nanos = 4_000 * MILLISECOND;
/// Over how long a principal's growth is measured.
pub(super) const TREND_TAU: Nanos = 500 * MILLISECOND;

/// What the adapter reported last, clamped to what is possible.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
    pub(super) live: Option<u64>,
    pub(super) allocation_rate: Option<u64>,
    pub(super) collection_speed: Option<u64>,
    pub(super) demand: Option<u64>,
    pub(super) floor: Option<u64>,
    pub(super) reaction: Option<Nanos>,
    pub(super) collections: Option<u64>,
    pub(super) collection_ms: Option<u64>,
    pub(super) collector: Option<Statistics>,
}

/// What the account phase works out for a node and what is below it. Bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Used by it and all below it.
    pub(super) subtree_uses: u64,
    /// Of it and all below it, how many adapt and hold memory.
    pub(super) subtree_adaptive: u32,
    /// Wanted by it and all below it if everybody kept what it has.
    pub(super) subtree_wish: u64,
    /// Never more than this for it and all below it.
    pub(super) bound: u64,
    /// Lacked for too long by it and all below it, of what they are entitled to.
    pub(super) subtree_need: u64,
    /// Whether everything below it fits without anybody giving up what it has.
    pub(super) roomy: bool,
}

/// What the subscribers and the page were told last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// On the page.
    pub(super) numbers: Numbers,
    /// With the last wake-up.
    pub(super) woken: Numbers,
    /// When the page was written, in core time; `None` before the first.
    pub(super) at: Option<Nanos>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: Id,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) adaptive: bool,
    /// Slot of its parent.
    pub(super) parent: Option<u32>,
    /// 1 at the top, 0 for the group of a user.
    pub(super) level: u8,
    /// The group of a user.
    pub(super) tenant: bool,
    /// Nobody registered it.
    pub(super) automatic: bool,
    /// Place in the tree's order; parents come first.
    pub(super) place: u32,
    pub(super) weight: Weight,
    pub(super) priority: Priority,
    pub(super) own_weight: Weight,
    pub(super) own_priority: Priority,
    pub(super) max: Max,
    /// When it was registered, on the clock of the pages.
    pub(super) joined: Nanos,
    pub(super) reported: Reported,
    /// When its adapter reported last, in core time.
    pub(super) reported_at: Option<Nanos>,
    /// Steadied, for the square-root rule.
    pub(super) collector: Collector,

    // Sensed.
    /// Whether it was sensed at all.
    pub(super) seen: bool,
    pub(super) uses: u64,
    pub(super) swapped: u64,
    pub(super) working_set: Option<u64>,
    /// Only to be paged out.
    pub(super) bare: bool,
    /// No living process is behind it.
    pub(super) absent: bool,
    pub(super) flow: Flow,
    pub(super) domain: Option<Domain>,

    // Worked out.
    pub(super) account: Account,
    /// Steadied, own memory only.
    pub(super) demand: u64,
    /// With so much its collections still cost it little; steadied, own memory only.
    pub(super) modest: u64,
    pub(super) share: Share,
    /// As of this tick, whether or not they were told.
    pub(super) numbers: Numbers,
    /// Sums over all below it; only within a tick.
    pub(super) below: Numbers,
    /// What it and all below it may use now.
    pub(super) subtree_limit: u64,
    /// Own limit now in force. Never above what was decided last.
    pub(super) limit: u64,
    /// Since when it is under its entitlement and wants it, in core time.
    pub(super) waits: Option<Nanos>,
    pub(super) debt: Option<Debt>,
    pub(super) ladder: Ladder,
    pub(super) told: Told,
}

impl Node {
    pub(super) fn new(id: Id, new: &NewPrincipal, parent: Option<u32>, level: u8) -> Node {
        Node {
            id,
            name: new.name.clone(),
            kind: new.kind,
            adaptive: new.adaptive && new.kind == Kind::Process,
            parent,
            level,
            tenant: new.tenant,
            automatic: new.automatic,
            place: 0,
            weight: new.weight,
            priority: new.priority,
            // As much as a child's that nobody gave one.
            own_weight: Weight::default(),
            own_priority: Priority::default(),
            max: new.max,
            joined: 0,
            reported: Reported::default(),
            reported_at: None,
            collector: Collector::default(),
            seen: false,
            uses: 0,
            swapped: 0,
            working_set: None,
            bare: false,
            absent: false,
            flow: Flow::default(),
            domain: None,
            account: Account::default(),
            demand: 0,
            modest: 0,
            share: Share::default(),
            numbers: Numbers::default(),
            below: Numbers::default(),
            subtree_limit: 0,
            limit: 0,
            waits: None,
            debt: None,
            ladder: Ladder::default(),
            told: Told::default(),
        }
    }

    /// How long it may take to give bytes back.
    pub(super) fn reaction(&self) -> Nanos {
        if self.adaptive {
            self.reported.reaction.unwrap_or(REACTION)
        } else {
            PASSIVE_REACTION
        }
    }

    /// How long after its deadline it may go on collecting before anything is taken by force:
    /// nothing for who does not adapt, or whose adapter is silent.
    pub(super) fn grace(&self, urgent: bool, now: Nanos) -> Nanos {
        let heard = self
            .reported_at
            .is_some_and(|at| now.saturating_sub(at) < SILENT);
        match (self.adaptive && heard, urgent) {
            (false, _) => 0,
            (true, true) => URGENT_GRACE,
            (true, false) => GRACE,
        }
    }

    /// Expected change of its own memory within `horizon`, bytes.
    pub(super) fn trend(&self, horizon: Nanos) -> i64 {
        let most = super::flow::signed(self.uses.max(64 << 20));
        super::flow::over(self.flow.rate(TREND_TAU), horizon)
            .clamp(-super::flow::signed(self.uses), most)
    }
}

/// A reported reaction time, as far as it is believed.
pub(super) fn believed_reaction(ms: u64) -> Nanos {
    ms.saturating_mul(MILLISECOND)
        .clamp(REACTION_LEAST, REACTION_MOST)
}
