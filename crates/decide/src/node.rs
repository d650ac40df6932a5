//! One principal, as the core keeps it.

use super::allocation_rhythm::Rhythm;
use super::debt::Debt;
use super::domain::Domain;
use super::ladder::Ladder;
use super::least::Least;
use super::smoothed_level::Flow;
use super::trust::Trust;
use super::{NewPrincipal, Settings, Told, Wants};
use plimsoll_policy::shares::{Collector, Share};
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::{Id, Kind, Priority, Weight};
use plimsoll_wire::page::Numbers;

/// Reaction time of a program that did not report one.
pub(super) const REACTION: Nanos = Nanos::millis(500);
/// Reaction time of a passive principal. It is not asked, but may speak the pressure protocol.
const PASSIVE_REACTION: Nanos = Nanos::millis(100);
const REACTION_LEAST: Nanos = Nanos::millis(50);
const REACTION_MOST: Nanos = Nanos::seconds(5);
/// How long an adapter may collect before memory is taken by force. The second value holds where
/// the reserve is nearly used up and the kernel would reclaim from the neighbours next.
const GRACE: Nanos = Nanos::seconds(3);
const URGENT_GRACE: Nanos = Nanos::seconds(1);
/// An adapter that reported nothing for this long is not collecting.
const SILENT: Nanos = Nanos::seconds(4);
/// How long a principal that came near its limit counts as lacking memory.
pub(super) const LACKING: Nanos = Nanos::seconds(3);
/// Time constant for a principal's growth.
pub(super) const TREND_TAU: Nanos = Nanos::millis(500);

/// The adapter's last report, clamped to possible values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
    /// The part of it that is listed too.
    pub(super) told: Told,
    pub(super) allocation_rate: Option<u64>,
    pub(super) collection_speed: Option<u64>,
    pub(super) demand: Option<u64>,
    pub(super) floor: Option<u64>,
    pub(super) reaction: Option<Nanos>,
    pub(super) stalls: Option<u64>,
    pub(super) cache: Option<Cache>,
}

impl Reported {
    /// A cache, and no collector: that counts before a cache within its heap.
    pub(super) fn is_cache(&self) -> bool {
        self.cache.is_some() && self.collection_speed.is_none()
    }
}

/// The words of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cache {
    /// Nanoseconds per second that it would save with one more MiB.
    pub(super) worth: u64,
    /// Bytes that it used when it said so.
    pub(super) size: u64,
}

/// Sums that the account phase computes for a node and its descendants. Bytes unless said
/// otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Used by it and all below it.
    pub(super) subtree_uses: u64,
    /// The part of it that is pages of files.
    pub(super) subtree_files: u64,
    /// Number of adaptive principals that hold memory, itself included.
    pub(super) subtree_adaptive: u32,
    /// Bytes that it and its descendants want if nobody gives anything up.
    pub(super) subtree_demand: u64,
    /// Most bytes for it and its descendants.
    pub(super) bound: u64,
    /// Bytes of their entitlement that it and its descendants have lacked for too long.
    pub(super) subtree_need: u64,
    /// Inactive bytes of its children that are past their deadlines.
    pub(super) inactive: u64,
    /// Whether the demands of all descendants fit without anybody giving memory up.
    pub(super) roomy: bool,
}

/// Numbers that the subscribers and the page got last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Published {
    /// Numbers on the page.
    pub(super) numbers: Numbers,
    /// Numbers at the last wake-up of the subscribers.
    pub(super) woken: Numbers,
    /// When the page was written, in core time; `None` before the first.
    pub(super) at: Option<Nanos>,
}

/// How a principal came to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) kind: Kind,
    /// Whether it is the group of a user.
    pub(super) tenant: bool,
    /// Made by the daemon; no client registered it.
    pub(super) automatic: bool,
    /// When it was registered, on the clock of the pages.
    pub(super) joined: Nanos,
    /// When it was registered, in core time.
    pub(super) begun: Nanos,
}

/// Where a principal is in the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// Slot of its parent in the tree; `None` at the top.
    pub(super) parent: Option<u32>,
    /// 1 at the top, 0 for the group of a user; children are one level below their parent.
    pub(super) level: u8,
    /// Place in the tree's order; parents come first.
    pub(super) place: u32,
}

/// The words of a principal's adapter.
#[derive(Debug)]
pub(super) struct Adapter {
    pub(super) reported: Reported,
    /// How often it reported the figures of its collector; counted up to 255.
    pub(super) reports: u8,
    /// When it reported last, in core time.
    pub(super) reported_at: Option<Nanos>,
    /// Smoothed figures for the square-root rule.
    pub(super) collector: Collector,
    /// How often the allocation rate turns.
    pub(super) rhythm: Rhythm,
}

/// Readings of a principal's processes, by the daemon.
#[derive(Debug, Default)]
pub(super) struct Sensed {
    /// Whether it was ever sensed.
    pub(super) seen: bool,
    /// Bytes accounted to it.
    pub(super) uses: u64,
    /// The part of it that is pages of files.
    pub(super) files: u64,
    /// When that was read, on the clock of the pages.
    pub(super) read_at: Nanos,
    /// Whether the next numbers answer a release of memory.
    pub(super) answers: bool,
    /// Bytes in swap.
    pub(super) swapped: u64,
    /// Processor time that it wanted lately, in thousandths of that in which it ran; 0 when unknown.
    pub(super) wanted: u32,
    /// Bytes touched recently, where sampled.
    pub(super) working_set: Option<u64>,
    /// Paging out is the only way to take memory from it.
    pub(super) bare: bool,
    /// It has no live process.
    pub(super) absent: bool,
    pub(super) flow: Flow,
    pub(super) domain: Option<Domain>,
}

/// How much memory a principal could use.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Smoothed demand for its own memory, bytes.
    pub(super) demand: u64,
    /// Size in bytes at which its collections still cost little; smoothed, own memory only.
    pub(super) modest: u64,
    /// Since when it has been below an entitlement that it wants, in core time.
    pub(super) waits: Option<Nanos>,
    /// When it lacked memory last, in core time.
    pub(super) lacked_at: Option<Nanos>,
    /// The size that it proved not to be able to go below.
    pub(super) least: Option<Least>,
}

/// How much memory a principal may use.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) share: Share,
    /// Numbers of this tick, published or not.
    pub(super) numbers: Numbers,
    /// Sums over its descendants; valid only within a tick.
    pub(super) below: Numbers,
    /// Bytes that it and its descendants may use now.
    pub(super) subtree_limit: u64,
    /// Own limit in force, bytes. Never above the limit decided last.
    pub(super) limit: u64,
    pub(super) published: Published,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: Id,
    pub(super) name: String,
    pub(super) adaptive: bool,
    pub(super) origin: Origin,
    pub(super) position: Position,
    pub(super) settings: Settings,
    pub(super) adapter: Adapter,
    pub(super) sensed: Sensed,
    pub(super) account: Account,
    pub(super) needs: Needs,
    pub(super) limits: Limits,
    pub(super) debt: Option<Debt>,
    pub(super) ladder: Ladder,
    /// Whether it stalls within its limit.
    pub(super) trust: Trust,
}

impl Node {
    pub(super) fn new(id: Id, new: &NewPrincipal, parent: Option<u32>, level: u8) -> Node {
        Node {
            id,
            name: new.name.clone(),
            adaptive: new.adaptive && new.kind == Kind::Process,
            origin: Origin {
                kind: new.kind,
                tenant: new.tenant,
                automatic: new.automatic,
                joined: Nanos::ZERO,
                begun: Nanos::ZERO,
            },
            position: Position {
                parent,
                level,
                place: 0,
            },
            settings: Settings {
                weight: new.weight,
                priority: new.priority,
                // The same default as for a child.
                own_weight: Weight::default(),
                own_priority: Priority::default(),
                max: new.max,
            },
            adapter: Adapter {
                reported: Reported::default(),
                reports: 0,
                reported_at: None,
                collector: Collector::default(),
                rhythm: Rhythm::from(Nanos::ZERO),
            },
            sensed: Sensed::default(),
            account: Account::default(),
            needs: Needs::default(),
            limits: Limits::default(),
            debt: None,
            ladder: Ladder::default(),
            trust: Trust::default(),
        }
    }

    /// How much memory it could use, for listings.
    pub(super) fn wants(&self) -> Wants {
        Wants {
            demand: self.needs.demand,
            target: self.limits.share.target,
            lacks: self.limits.share.lacks,
            at_least: self.is_at_least(),
        }
    }

    /// The last report of its adapter. An adapter knows nothing of the part of files, which is added here.
    pub(super) fn reported(&self) -> Reported {
        let with_files = |bytes: Option<u64>| bytes.map(|it| it.saturating_add(self.sensed.files));
        let reported = self.adapter.reported;
        Reported {
            demand: with_files(reported.demand),
            floor: with_files(reported.floor),
            ..reported
        }
    }

    /// The numbers that it is told: those of memory of its own. A limit of 0 would be none.
    pub(super) fn told(&self) -> Numbers {
        let files = match self.origin.kind {
            Kind::Process => self.sensed.files,
            Kind::Group => self.account.subtree_files,
        };
        let numbers = self.limits.numbers;
        let own = |bytes: u64| bytes.saturating_sub(files).max(bytes.min(1));
        let uses = numbers.uses.saturating_sub(files);
        Numbers {
            limit: own(numbers.limit),
            available: own(numbers.available),
            owed: numbers.owed.min(uses),
            uses,
            share: numbers.share.saturating_sub(files),
            ..numbers
        }
    }

    /// Time that it may need to give bytes back.
    pub(super) fn reaction(&self) -> Nanos {
        if self.adaptive {
            self.adapter.reported.reaction.unwrap_or(REACTION)
        } else {
            PASSIVE_REACTION
        }
    }

    /// How long after its deadline it may continue to collect before memory is taken by force. Zero
    /// for a principal without an adapter, or with a silent one.
    pub(super) fn grace(&self, urgent: bool, now: Nanos) -> Nanos {
        let heard = self.adapter.reported_at.is_some_and(|at| now - at < SILENT);
        match (self.adaptive && heard, urgent) {
            (false, _) => Nanos::ZERO,
            (true, true) => URGENT_GRACE,
            (true, false) => GRACE,
        }
    }

    /// Bytes that it comes to soon, at least `margin` more than it uses. One that lacked memory lately
    /// still does: what others give back for it comes in the meantime.
    pub(super) fn reach(&self, margin: u64, now: Nanos) -> u64 {
        let lately = |at: Nanos| now - at < LACKING;
        if self.needs.lacked_at.is_some_and(lately) {
            return u64::MAX;
        }
        let growth = self.trend(super::demand::HORIZON).max(0) as u64;
        let margin = margin.max(self.sensed.uses / 6).max(growth);
        self.sensed.uses.saturating_add(margin)
    }

    /// Bytes that it says that it wants (what its adapter reports), or shows: a structure that grows takes as
    /// much again as it has, in one block, and a program that keeps to its limit never asks for that.
    pub(super) fn claims(&self) -> u64 {
        self.sensed.uses.saturating_mul(2).max(self.asks_for())
    }

    /// Bytes that its adapter reports that it can use; 0 if it reports none.
    pub(super) fn asks_for(&self) -> u64 {
        self.reported()
            .demand
            .filter(|_| self.adaptive)
            .unwrap_or(0)
    }

    /// Expected change of its own memory within `horizon`, bytes.
    pub(super) fn trend(&self, horizon: Nanos) -> i64 {
        let most = super::smoothed_level::signed(self.sensed.uses.max(64 << 20));
        super::smoothed_level::change(self.sensed.flow.rate(TREND_TAU), horizon)
            .clamp(-super::smoothed_level::signed(self.sensed.uses), most)
    }
}

/// A reported reaction time, clamped to believable values.
pub(super) fn believed_reaction(ms: u64) -> Nanos {
    Nanos::millis(ms).clamp(REACTION_LEAST, REACTION_MOST)
}
