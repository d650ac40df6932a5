//! Parameters and replies of `io.plimsoll`, as declared in `io.plimsoll.varlink`.

use crate::checked;
pub use crate::checked::{Adapter, CgroupPath, Name};
use crate::page::{Level, Numbers};
use crate::standing;
pub use crate::standing::{Max, Priority, Weight};
use serde::{Deserialize, Serialize};

/// The id of a principal; never reused while a broker lives.
pub type Id = u64;

/// The kind of a principal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A process and its descendants.
    #[default]
    Process,
    /// A parent of other principals without processes of its own.
    Group,
}

/// `Register`: makes a new principal that lives as long as the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// Name for display; siblings may share a name.
    pub name: Name,
    /// A process or a group.
    #[serde(default)]
    pub kind: Kind,
    /// Its process, in the broker's pid namespace; may be given later by `Attach`.
    #[serde(default, deserialize_with = "checked::optional_pid")]
    pub pid: Option<u32>,
    /// Its parent; the root when absent.
    pub parent: Option<Id>,
    /// Weight, 100 when absent; rules of the configuration take precedence.
    pub weight: Option<Weight>,
    /// Priority, 0 when absent; a higher class is served first.
    pub priority: Option<Priority>,
    /// Maximum in bytes for it and its children together.
    #[serde(default)]
    pub max: Max,
    /// For groups: the cgroup (a path under the memory controller's mount) whose limit bounds it.
    pub cgroup: Option<CgroupPath>,
    /// The adapter that steers it (`hotspot`, `libgc`, `self`); passive when absent.
    pub adapter: Option<Adapter>,
    /// Whether the process may be the first of a container, or have very many descendants, although
    /// the caller started neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<bool>,
}

/// Reply to `Register`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// Its id.
    pub id: Id,
    /// Absolute path of its availability page.
    pub page: String,
    /// Absolute path of a UNIX stream socket that speaks systemd's memory pressure protocol.
    pub pressure: String,
    /// The cgroup directory made for it, where the broker may make one.
    pub cgroup: Option<String>,
    /// Granted weight.
    pub weight: u32,
    /// Granted priority.
    pub priority: i32,
}

/// `Attach`: gives its process to a principal that was registered without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// The principal.
    pub id: Id,
    /// Its process, in the broker's pid namespace.
    #[serde(deserialize_with = "checked::pid")]
    pub pid: u32,
    /// As in [`Register`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<bool>,
}

/// `Contain`: names the cgroup that the user of a principal made for its processes and no others, for the
/// broker to bound and to take from. The broker makes none where it may not: under version 2 a program enters
/// a cgroup of its user, and only its user knows which service manager has to be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contain {
    /// The principal. It has its process already, and that is in the cgroup.
    pub id: Id,
    /// The cgroup: a path under the memory controller's mount.
    pub cgroup: CgroupPath,
}

/// `Adapt`: sets the adapter of a principal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Adapt {
    /// The principal.
    pub id: Id,
    /// As in [`Register`]; absent when no adapter steers it any more.
    pub adapter: Option<Adapter>,
    /// A name that the program gives itself; absent where it keeps the one that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
}

/// `Report`: an adapter's knowledge of its program. Absent fields keep their last value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Report {
    /// The principal.
    pub id: Id,
    /// Live bytes after the last full collection.
    pub live: Option<u64>,
    /// Bytes per second that the program allocates.
    pub allocation_rate: Option<u64>,
    /// Bytes per second that a collection processes.
    pub collection_speed: Option<u64>,
    /// Most bytes that it can use, for example a maximum heap plus the native part.
    pub demand: Option<u64>,
    /// Bytes below which it cannot go by adapting.
    pub floor: Option<u64>,
    /// Measured time to give memory back, milliseconds.
    pub reaction_ms: Option<u64>,
    /// Number of collections since its start.
    pub collections: Option<u64>,
    /// Milliseconds spent in collections since its start.
    pub collection_ms: Option<u64>,
    /// Allocation stalls since its start, although it kept to its limit: the
    /// kernel did not have the memory that was granted.
    pub stalls: Option<u64>,
    /// Time that a cache would save with one more MiB, nanoseconds per second: misses fewer, times the cost
    /// of a miss. At its present size; 0 if more memory is of no use to it.
    pub worth: Option<u64>,
    /// Statistics of its collector; replaced as a whole.
    pub collector: Option<Statistics>,
}

/// How the threads of a program are ordered (`plimsoll run --phases`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Lower allocation rate first.
    Larf,
    /// Memory-quantum round robin.
    Mqrr,
    /// There was nothing to order so far: never were more threads ready than there are processors.
    Nothing,
    /// The program got less done with the order. It is off, but for a trial from time to time.
    Withdrawn,
    /// One that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Statistics of a collector: the collector's page of `top`. Numbers that a collector does not know
/// are absent. Unknown fields are ignored, because this type is part of both a parameter and
/// replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Statistics {
    /// Bytes of its heap, live or free, without those given back.
    pub heap: Option<u64>,
    /// Time that the program was stopped for the last collection, microseconds.
    pub last_pause_us: Option<u64>,
    /// Longest time that it was stopped for a collection, microseconds.
    pub longest_pause_us: Option<u64>,
    /// Major faults in collections since its start.
    pub faults: Option<u64>,
    /// Number of superpages that the last collection found evicted (at least partly in swap).
    pub absent: Option<u64>,
    /// Number of summaries (bookmarks) that stand for evicted superpages.
    pub summaries: Option<u64>,
    /// Most bytes that summaries may keep alive beyond the live bytes of the last complete
    /// collection.
    pub retained: Option<u64>,
    /// How the threads that allocate are ordered; absent where the kernel alone does that.
    pub order: Option<Order>,
}

/// `Set`: changes a principal; absent fields keep their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Set {
    /// The principal.
    pub id: Id,
    /// Weight relative to its siblings.
    pub weight: Option<Weight>,
    /// Priority class among its siblings.
    pub priority: Option<Priority>,
    /// Maximum, in bytes in JSON; 0 removes it.
    #[serde(with = "standing::change")]
    pub max: Option<Max>,
    /// Weight of its own memory against its children's (child-relative, paper 4.1).
    pub own_weight: Option<Weight>,
    /// Priority of its own memory against its children's.
    pub own_priority: Option<Priority>,
    /// New parent; a cycle is refused.
    pub parent: Option<Id>,
}

/// Parameters that only name a principal (`Subscribe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// The principal.
    pub id: Id,
}

/// `Released`: the program gave bytes back, so the broker may read its use at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Released {
    /// The principal.
    pub id: Id,
    /// Number of bytes.
    pub bytes: u64,
}

/// `Watch`: repeats `List`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Milliseconds between two replies, 100 to 60000.
    #[serde(deserialize_with = "checked::interval_ms")]
    pub interval_ms: u64,
}

/// Pages that are read again after they were reclaimed, and what that costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refaults {
    /// File pages per second.
    pub file: u64,
    /// Anonymous pages per second.
    pub anon: u64,
    /// Mean wait for a file page in nanoseconds, where known.
    pub file_ns: Option<u64>,
    /// Mean wait for an anonymous page in nanoseconds, where known.
    pub anon_ns: Option<u64>,
    /// Swappiness of its cgroup, 0 to 200; absent under cgroup version 2.
    pub swappiness: Option<u32>,
}

/// How often a broker acted to get memory back. Counters, which never fall while the broker lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Revocations {
    /// Batches of a debt that were published with a deadline.
    pub asked: u64,
    /// Orders to page out pages of its processes.
    pub paged_out: u64,
    /// Orders to take bytes from its cgroup.
    pub taken: u64,
    /// Orders to hold its cgroup to a limit.
    pub bound: u64,
    /// Deadlines that passed before the batch was paid.
    pub missed: u64,
}

impl Revocations {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Revocations) -> Revocations {
        Revocations {
            asked: self.asked.saturating_add(other.asked),
            paged_out: self.paged_out.saturating_add(other.paged_out),
            taken: self.taken.saturating_add(other.taken),
            bound: self.bound.saturating_add(other.bound),
            missed: self.missed.saturating_add(other.missed),
        }
    }
}

/// Pages of programs that were read again after they were reclaimed. Counters, which never fall while the
/// broker lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refaulted {
    /// Pages of files.
    pub file: u64,
    /// Anonymous pages.
    pub anon: u64,
}

/// One principal as `ps --json` shows it. Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Principal {
    /// Its id.
    pub id: Id,
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: Option<u32>,
    /// The user that it counts for; absent where the caller may not know.
    pub uid: Option<u32>,
    /// A process or a group.
    pub kind: Kind,
    /// The adapter, absent for passive ones.
    pub adapter: Option<String>,
    /// 1 to 10000.
    pub weight: u32,
    /// -100 to 100.
    pub priority: i32,
    /// Accounted to it without its children; for a group, to all its descendants.
    pub uses: u64,
    /// It may use this now.
    pub limit: u64,
    /// It could have this if it asked.
    pub available: u64,
    /// It must give this back.
    pub owed: u64,
    /// Guaranteed weighted share (entitlement).
    pub share: u64,
    /// Maximum for it and its children; absent when unbounded.
    pub max: Option<u64>,
    /// Touched recently, where measured.
    pub working_set: Option<u64>,
    /// In swap.
    pub swapped: u64,
    /// Major faults since it was registered.
    pub major_faults: u64,
    /// How often its pages are read again after they were reclaimed, where measured.
    pub refaults: Option<Refaults>,
    /// How often memory was asked or taken back since it was registered.
    pub revocations: Revocations,
    /// How urgent its numbers are.
    pub level: Level,
    /// Live bytes as reported.
    pub live: Option<u64>,
    /// Number of collections as reported.
    pub collections: Option<u64>,
    /// Time spent in collections as reported, milliseconds.
    pub collection_ms: Option<u64>,
    /// Allocation stalls per second although it kept to its limit, as reported.
    pub stall_rate: Option<u64>,
    /// Such stalls keep its limit from rising: the kernel did not have what was granted.
    pub doubted: bool,
    /// It can make use of this, as far as the broker knows; for a group 0.
    pub demand: u64,
    /// It should have this when all have come to rest; for a group 0.
    pub target: u64,
    /// It lacks this of its target now: it is near its limit.
    pub lacks: u64,
    /// It uses more than its target and cannot go lower: it was asked in vain, or its adapter says so.
    pub at_least: bool,
    /// Statistics of the collector as reported.
    pub collector: Option<Statistics>,
    /// Absolute path of its availability page, if the broker reports it.
    pub page: Option<String>,
    /// Its children.
    pub children: Vec<Principal>,
}

/// File pages that the broker keeps in memory (`[pin]` of its configuration). Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pinned {
    /// `watching`, `holding`, `short`, `refused` or `failed`.
    pub state: String,
    /// Held now.
    pub held: u64,
    /// The most that may be held now.
    pub allowance: u64,
    /// The most that is ever held.
    pub budget: u64,
    /// Why nothing is held, where that has a reason.
    pub why: Option<String>,
}

/// Reply to `List` and `Watch`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Listing {
    /// The broker's version.
    pub version: String,
    /// The broker's process id.
    pub pid: u32,
    /// Memory of the machine or of the limiting cgroup, bytes.
    pub capacity: u64,
    /// Used by programs outside the broker, without memory that can be dropped at no cost, bytes.
    pub outsiders: u64,
    /// Held back so that warnings come early enough, bytes.
    pub reserve: u64,
    /// Memory that is shared out, bytes.
    pub budget: u64,
    /// Source of the capacity: `machine` or a cgroup's path.
    pub domain: String,
    /// Whether the broker may be bound by a limit that is not visible to it.
    #[serde(default)]
    pub unseen: bool,
    /// Top-level principals.
    pub principals: Vec<Principal>,
    /// Number of principals left out because the listing would be too long.
    pub left_out: u64,
    /// File pages that are kept in memory; absent where that is switched off.
    pub pinned: Option<Pinned>,
    /// How often memory was asked or taken back since the broker's start, also from principals that are gone.
    pub revocations: Revocations,
    /// Pages that were read again since the broker's start, as far as that is measured.
    pub refaulted: Refaulted,
}

/// Parameters or a reply without a field (`List`, `Reload`; replies to `Attach`, `Adapt`,
/// `Report`, `Released`, `Set`, `Reload`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

/// Reply to `Subscribe`: the first at once, then one at each relevant change. A slow subscriber may
/// miss intermediate changes but never the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The principal.
    pub id: Id,
    /// Generation of the page with these numbers.
    pub generation: u64,
    /// The numbers.
    pub numbers: Numbers,
}
