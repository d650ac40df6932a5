//! What goes into the core and what comes out. Sizes are bytes, times nanoseconds unless named
//! otherwise.

use plimsoll_wire::messages::{Id, Kind, Max, Priority, Statistics, Weight};
use plimsoll_wire::page::Numbers;

/// Nanoseconds of a monotonic clock; the core never reads one.
pub type Nanos = u64;

/// How the core is set up. The defaults are the documented ones; nothing here needs tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Config {
    /// Most principals at a time.
    pub max_principals: usize,
    /// The number of the first principal: after a restart, higher than any given out before.
    pub first_id: Id,
    /// Never share out more than this of the root domain; `u64::MAX` when unbounded.
    pub max_budget: u64,
    /// Hold back at least this much of the root domain; by default the measured watermark only.
    pub min_reserve: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            max_principals: 16_384,
            first_id: 1,
            max_budget: u64::MAX,
            min_reserve: 0,
        }
    }
}

/// Deepest that a tree may be; a principal directly under the root or in a user's group is at level 1.
/// The group of a user is no level of its own.
pub const MAX_DEPTH: usize = 8;

/// A new principal, already checked by the protocol layer for form, not for meaning.
#[derive(Clone, Debug)]
pub struct NewPrincipal {
    /// Shown to people.
    pub name: String,
    /// A process or a group.
    pub kind: Kind,
    /// Under whom; the root when absent.
    pub parent: Option<Id>,
    /// Against its siblings'.
    pub weight: Weight,
    /// Its class among its siblings.
    pub priority: Priority,
    /// For it and its children.
    pub max: Max,
    /// Whether somebody adapts it; passive ones are not asked, only taken from.
    pub adaptive: bool,
    /// It is the group of a user, directly under the root. Nothing is lent between the groups of users, and
    /// they are no level.
    pub tenant: bool,
    /// Nobody registered it: the daemon makes it, for a user or for a limit, as long as somebody is in it. It
    /// does not count towards the bound on the number of principals.
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

/// When the daemon should look again, nanoseconds from the tick that said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Until the next full tick at the latest.
    pub tick: Nanos,
    /// Until the next glance ([`super::Core::glance`]) at the usage of the domains; shorter than
    /// `tick` when the margin is thin, and far cheaper: it reads no principal.
    pub glance: Nanos,
}

/// What the core knows of one principal, for listings. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Which.
    pub id: Id,
    /// Under whom; absent at the top.
    pub parent: Option<Id>,
    /// A process or a group.
    pub kind: Kind,
    /// Whether somebody adapts it.
    pub adaptive: bool,
    /// Against its siblings'.
    pub weight: Weight,
    /// Its class among its siblings.
    pub priority: Priority,
    /// Weight of its own memory against its children's.
    pub own_weight: Weight,
    /// Priority of its own memory against its children's.
    pub own_priority: Priority,
    /// For it and its children.
    pub max: Max,
    /// The group of a user.
    pub tenant: bool,
    /// Its own numbers as published; for a group, those of all below it.
    pub numbers: Numbers,
    /// Accounted to it and its children.
    pub subtree_uses: u64,
    /// What it and its children may use now.
    pub subtree_limit: u64,
    /// What it should have at rest.
    pub target: u64,
    /// What it can make use of, as the core sees it.
    pub demand: u64,
    /// Touched recently, where it was measured.
    pub working_set: Option<u64>,
    /// In swap.
    pub swapped: u64,
    /// When it was registered, on the clock of the pages.
    pub joined: Nanos,
    /// As reported.
    pub live: Option<u64>,
    /// As reported.
    pub collections: Option<u64>,
    /// As reported, milliseconds.
    pub collection_ms: Option<u64>,
    /// As reported.
    pub collector: Option<Statistics>,
    /// How far the ladder has gone with it.
    pub rung: Rung,
}

/// What the core knows of one domain: the root, or a group with a cgroup of its own. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainFigures {
    /// As sensed.
    pub capacity: u64,
    /// As sensed: not to be dropped for free.
    pub used: u64,
    /// Used by nobody that is registered here; steadied, so never below what was sensed.
    pub outsiders: u64,
    /// What outsiders are expected to take before the programs can react.
    pub expected: u64,
    /// Held back so that warnings come early enough.
    pub reserve: u64,
    /// What is shared out: capacity - outsiders - expected - reserve.
    pub budget: u64,
    /// Bytes per second by which outsiders grow (negative: shrink).
    pub growth: i64,
}

/// How far the core went with a principal that owes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// Owes nothing.
    #[default]
    None,
    /// Was told what it owes and by when.
    Asked,
    /// Its cold pages are paged out.
    PageOut,
    /// Bytes are taken from it.
    Take,
    /// Its cgroup's limit is set.
    Bound,
}

/// The settings of one principal, to be kept through a crash of the broker. The daemon adds the
/// name and pid by which it finds the principal again when its program rejoins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Kept {
    /// Its number before the crash.
    pub id: Id,
    /// Its parent's number before the crash.
    pub parent: Option<Id>,
    /// A process or a group.
    pub kind: Kind,
    /// Against its siblings'.
    pub weight: Weight,
    /// Its class among its siblings.
    pub priority: Priority,
    /// Weight of its own memory against its children's.
    pub own_weight: Weight,
    /// Priority of its own memory against its children's.
    pub own_priority: Priority,
    /// For it and its children.
    #[serde(default)]
    pub max: Max,
}

/// What was sensed of the whole domain (machine or limiting cgroup). Bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SensedDomain {
    /// The tightest limit above us.
    pub capacity: u64,
    /// In use and not to be dropped for free: usage - inactive file - swap cache.
    pub used: u64,
    /// Nothing of it can be paged out: who goes beyond the capacity is killed.
    pub cliff: bool,
}

impl SensedDomain {
    /// The part of a domain that one of several user groups in it has: what the others do not use, and
    /// at least an equal part. So only a group that uses more than its part pays for that. `others` is
    /// what is accounted to each of the other groups, bytes.
    #[must_use]
    pub fn part_beside(self, others: impl Iterator<Item = u64> + Clone) -> SensedDomain {
        let each = self.capacity / (1 + others.clone().count() as u64);
        let theirs = others.clone().fold(0, u64::saturating_add);
        let left_to_them = others.fold(0, |sum, uses| sum + uses.min(each));
        SensedDomain {
            capacity: self.capacity - left_to_them,
            used: self.used.saturating_sub(theirs),
            ..self
        }
    }
}

/// What was sensed of one principal since the last tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct SensedPrincipal {
    /// Which.
    pub id: Id,
    /// Bytes accounted to it (resident anonymous and its part of shared memory).
    pub uses: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Bytes touched recently, where it was sampled.
    pub working_set: Option<u64>,
    /// It has no cgroup of its own, or not all of its memory is charged there: it can be paged out,
    /// but nothing can be taken from its cgroup, and it cannot be bound.
    pub bare: bool,
    /// No living process is behind it: whatever is told of it, it demands nothing and is guaranteed nothing.
    pub absent: bool,
    /// For a group with a cgroup of its own: what that cgroup allows and what is used in it.
    pub domain: Option<SensedDomain>,
}

/// One thing for the daemon to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write the page; wake subscribers when `wake`.
    Publish {
        /// Whose.
        id: Id,
        /// What.
        numbers: Numbers,
        /// A change that a subscriber must hear of.
        wake: bool,
    },
    /// Rung 2: page out cold pages of this principal's processes (`process_madvise`).
    PageOut {
        /// Whose.
        id: Id,
        /// How many bytes.
        bytes: u64,
    },
    /// Rung 3: take bytes (`memory.reclaim`, a limit dip).
    Take {
        /// Whose.
        id: Id,
        /// How many bytes.
        bytes: u64,
    },
    /// Rung 4: set its cgroup's limit (`u64::MAX` lifts it).
    Bound {
        /// Whose.
        id: Id,
        /// The limit.
        bytes: u64,
    },
}
