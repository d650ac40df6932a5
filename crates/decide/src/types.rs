//! Inputs and outputs of the core. Values for listings are plain numbers, as the messages have them; their
//! sizes are bytes.

use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Id, Kind, Max, Priority, Revocations, Statistics, Weight};
use plimsoll_wire::page::Numbers;

/// How the core is set up. The defaults are the documented ones; nothing here needs tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Most principals at a time.
    pub max_principals: usize,
    /// Id of the first principal; after a restart, higher than any earlier id.
    pub first_id: Id,
    /// Most memory of the root domain to share out; [`Bytes::MAX`] when unbounded.
    pub max_budget: Bytes,
    /// Least memory of the root domain to hold back; by default only the measured watermark.
    pub min_reserve: Bytes,
    /// Whether programs lend what they would hardly miss, by what their adapters report about their
    /// collectors. Without it nothing is shared out by these figures.
    pub lending: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            max_principals: 16_384,
            first_id: 1,
            max_budget: Bytes::MAX,
            min_reserve: Bytes::ZERO,
            lending: true,
        }
    }
}

/// Greatest depth of the tree. A principal directly under the root or in a user's group is at level
/// 1; a user's group adds no level.
pub const MAX_DEPTH: usize = 8;

/// A new principal. The protocol layer has checked its form but not its meaning.
#[derive(Clone, Debug)]
pub struct NewPrincipal {
    /// Name for display.
    pub name: String,
    /// A process or a group.
    pub kind: Kind,
    /// Parent; the root when `None`.
    pub parent: Option<Id>,
    /// Weight relative to its siblings.
    pub weight: Weight,
    /// Priority class among its siblings.
    pub priority: Priority,
    /// Maximum for it and its children together.
    pub max: Max,
    /// Whether an adapter serves it. A passive principal is not asked; memory is only taken from
    /// it.
    pub adaptive: bool,
    /// Whether it is the group of a user, directly under the root. Such groups lend nothing to each
    /// other and add no level.
    pub tenant: bool,
    /// Whether the daemon made it, for a user or a limit, for as long as it has members. It does
    /// not count towards the bound on the number of principals.
    pub automatic: bool,
}

/// Why the core refused a command. Each says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Refusal {
    #[error("no principal has the number {0}; `plimsoll ps` lists them")]
    NoSuchPrincipal(Id),
    #[error("{child} cannot move under {parent}: {parent} is one of its own descendants")]
    Cycle { child: Id, parent: Id },
    #[error(
        "the broker already holds {0} principals, as many as its configuration allows (`max_principals`)"
    )]
    TooMany(usize),
    #[error("the tree would be {0} deep; at most 8 levels are allowed")]
    TooDeep(usize),
}

/// When the daemon should look again, after the tick that returned this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Until the next full tick at the latest.
    pub tick: Nanos,
    /// Until the next glance ([`super::Core::glance`]) at the usage of the domains; shorter than
    /// `tick` when the margin is thin, and far cheaper: it reads no principal.
    pub glance: Nanos,
}

/// The settings of a principal, which its user may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Weight relative to its siblings.
    pub weight: Weight,
    /// Priority class among its siblings.
    pub priority: Priority,
    /// Weight of its own memory against its children's.
    pub own_weight: Weight,
    /// Priority of its own memory against its children's.
    pub own_priority: Priority,
    /// Maximum for it and its children together.
    pub max: Max,
}

/// The memory of a principal and its descendants together. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subtree {
    /// Accounted to them.
    pub uses: u64,
    /// Their part of pages of files, contained in `uses`.
    pub files: u64,
    /// They may use this now.
    pub limit: u64,
}

/// How much memory a principal could use, and what it gets of that. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// It can use this, as computed by the core.
    pub demand: u64,
    /// It should have this at rest.
    pub target: u64,
    /// The part of the target that it lacks: it is near its limit.
    pub lacks: u64,
    /// It has more than its target, and cannot go lower.
    pub at_least: bool,
}

/// The last words of a principal's adapter. Absent where it said nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Told {
    /// Live bytes.
    pub live: Option<u64>,
    /// Number of collections.
    pub collections: Option<u64>,
    /// Time spent in collections, milliseconds.
    pub collection_ms: Option<u64>,
    /// Statistics of the collector.
    pub collector: Option<Statistics>,
}

/// Allocation stalls of a principal although it kept to its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Stalls per second, as its adapter reported.
    pub rate: Option<u64>,
    /// They keep its limit from rising.
    pub doubted: bool,
}

/// Values of one principal for listings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// The principal.
    pub id: Id,
    /// Parent; `None` at the top.
    pub parent: Option<Id>,
    /// A process or a group.
    pub kind: Kind,
    /// Whether an adapter serves it.
    pub adaptive: bool,
    /// Whether it is the group of a user.
    pub tenant: bool,
    /// Registration time on the clock of the pages.
    pub joined: Nanos,
    /// Its settings.
    pub settings: Settings,
    /// Its own numbers; for a group, those of all its descendants together. Unlike the published ones, they
    /// contain its part of pages of files.
    pub numbers: Numbers,
    /// Its memory with that of its descendants.
    pub subtree: Subtree,
    /// How much memory it could use.
    pub wants: Wants,
    /// Bytes touched recently, where measured; no more than it uses now.
    pub working_set: Option<u64>,
    /// Bytes in swap.
    pub swapped: u64,
    /// The words of its adapter.
    pub told: Told,
    /// Its stalls within its limit.
    pub stalls: Stalls,
    /// Rung of the ladder that was reached with it.
    pub rung: Rung,
    /// How often memory was asked or taken back.
    pub revocations: Revocations,
}

/// Values of one domain: the root, or a group with a cgroup of its own. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainFigures {
    /// Capacity as sensed.
    pub capacity: u64,
    /// Use as sensed, without memory that can be dropped at no cost.
    pub used: u64,
    /// Used by programs not registered here; smoothed, so never below the sensed value.
    pub outsiders: u64,
    /// Growth of outsiders expected before the programs can react.
    pub expected: u64,
    /// Held back so that warnings come early enough.
    pub reserve: u64,
    /// Memory that is shared out: capacity - outsiders - expected - reserve.
    pub budget: u64,
    /// Growth of outsiders in bytes per second; negative when they shrink.
    pub growth: i64,
    /// Whether the reserve is nearly used up, or a principal waits for its entitlement.
    pub urgent: bool,
}

/// How far the ladder went with a principal that owes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// Owes nothing.
    #[default]
    None,
    /// Its debt and the deadline were published.
    Asked,
    /// Its cold pages are paged out.
    PageOut,
    /// Bytes are taken from it.
    Take,
    /// Its cgroup's limit is set.
    Bound,
}

/// Settings of one principal that survive a crash of the broker. The daemon adds the name and pid
/// by which it recognises the program when it rejoins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Kept {
    /// Its id before the crash.
    pub id: Id,
    /// Its parent's id before the crash.
    pub parent: Option<Id>,
    /// A process or a group.
    pub kind: Kind,
    /// Weight relative to its siblings.
    pub weight: Weight,
    /// Priority class among its siblings.
    pub priority: Priority,
    /// Weight of its own memory against its children's.
    pub own_weight: Weight,
    /// Priority of its own memory against its children's.
    pub own_priority: Priority,
    /// Maximum for it and its children together.
    #[serde(default)]
    pub max: Max,
}

/// Sensed values of a domain (machine or limiting cgroup).
#[derive(Clone, Copy, Debug, Default)]
pub struct SensedDomain {
    /// The tightest limit above us.
    pub capacity: Bytes,
    /// Use without memory that can be dropped at no cost: usage - inactive file - swap cache.
    pub used: Bytes,
    /// The most pages of files that `used` contains. Those that the principals use beyond that are on the
    /// kernel's inactive list, and cannot be dropped at no cost all the same.
    pub files: Bytes,
    /// Nothing in it can be paged out: a program that exceeds the capacity is killed.
    pub cliff: bool,
}

impl SensedDomain {
    /// The part of a domain for one of several user groups in it: what the other groups leave
    /// unused, and at least an equal part. So only a group that exceeds its part has to pay.
    /// `others` holds what is accounted to each of the other groups.
    #[must_use]
    pub fn part_beside(self, others: impl Iterator<Item = Subtree> + Clone) -> SensedDomain {
        let each = self.capacity / (1 + others.clone().count() as u64);
        let files: Bytes = others.clone().map(|one| Bytes(one.files)).sum();
        let uses = others.map(|one| Bytes(one.uses));
        let theirs: Bytes = uses.clone().sum();
        let left_to_them = uses.map(|uses| uses.min(each)).sum();
        SensedDomain {
            capacity: self.capacity - left_to_them,
            used: self.used + (files - self.files) - theirs,
            files: self.files - files,
            ..self
        }
    }
}

/// Sensed values of one principal since the last tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct SensedPrincipal {
    /// The principal.
    pub id: Id,
    /// Accounted to it (resident anonymous, and its parts of shared memory and of files).
    pub uses: Bytes,
    /// Its part of pages of files, contained in `uses`. Programs know only of memory of their own, so the
    /// numbers that it is told are without this, and so is what it reports.
    pub files: Bytes,
    /// When that was read, on the clock of the pages.
    pub read_at: Nanos,
    /// It said that it gave memory back, and was read after that: the subscribers hear what was found.
    pub answers: bool,
    /// In swap.
    pub swapped: Bytes,
    /// Processor time that it wanted lately (in which it ran or was ready to run), in thousandths of that in
    /// which it ran; 0 when unknown.
    pub wanted: u32,
    /// Touched recently, where it was sampled.
    pub working_set: Option<Bytes>,
    /// It has no cgroup of its own, or not all of its memory is charged to it. It can be paged out,
    /// but the broker can neither take bytes from its cgroup nor bind it.
    pub bare: bool,
    /// It has no live process: it demands nothing and is guaranteed nothing, whatever is reported.
    pub absent: bool,
    /// For a group with a cgroup of its own: capacity and use of that cgroup.
    pub domain: Option<SensedDomain>,
}

/// One thing for the daemon to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write the page; wake the subscribers if `wake`.
    Publish {
        /// The principal.
        id: Id,
        /// Its numbers.
        numbers: Numbers,
        /// Whether subscribers must be woken.
        wake: bool,
    },
    /// Rung 2: page out cold pages of this principal's processes (`process_madvise`).
    PageOut {
        /// The principal.
        id: Id,
        /// How much.
        bytes: Bytes,
    },
    /// Rung 3: take bytes (`memory.reclaim`, a limit dip).
    Take {
        /// The principal.
        id: Id,
        /// How much.
        bytes: Bytes,
    },
    /// Rung 4: set its cgroup's limit ([`Bytes::MAX`] lifts it).
    Bound {
        /// The principal.
        id: Id,
        /// The limit.
        bytes: Bytes,
    },
}
