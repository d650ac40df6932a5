//! The parameters and replies of `io.plimsoll`, as in `io.plimsoll.varlink`.

use crate::checked;
pub use crate::checked::{Adapter, CgroupPath, Name};
use crate::page::{Level, Numbers};
use crate::standing;
pub use crate::standing::{Max, Priority, Weight};
use serde::{Deserialize, Serialize};

/// The number of a principal; never reused while a broker lives.
pub type Id = u64;

/// What a principal is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A process and its descendants.
    #[default]
    Process,
    /// Only a parent of others.
    Group,
}

/// `Register`: the connection becomes the life of a new principal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// Shown to people; siblings may share a name.
    pub name: Name,
    /// A process or a group.
    #[serde(default)]
    pub kind: Kind,
    /// The process, in the broker's pid namespace; may follow by `Attach`.
    #[serde(default, deserialize_with = "checked::optional_pid")]
    pub pid: Option<u32>,
    /// Under whom; the root when absent.
    pub parent: Option<Id>,
    /// 100 when absent (rules of the configuration come first).
    pub weight: Option<Weight>,
    /// 0 when absent; a higher class is served first.
    pub priority: Option<Priority>,
    /// Never more than this, for it and its children together.
    #[serde(default)]
    pub max: Max,
    /// The cgroup (a path under the memory controller's mount) whose limit bounds it, for groups.
    pub cgroup: Option<CgroupPath>,
    /// The adapter that steers it (`hotspot`, `libgc`, `self`); passive when absent.
    pub adapter: Option<Adapter>,
}

/// Reply to `Register`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// Its number.
    pub id: Id,
    /// Absolute path of its availability page.
    pub page: String,
    /// Absolute path of a UNIX stream socket that speaks systemd's memory pressure protocol.
    pub pressure: String,
    /// The cgroup directory made for it, where the broker may make one.
    pub cgroup: Option<String>,
    /// As granted.
    pub weight: u32,
    /// As granted.
    pub priority: i32,
}

/// `Attach`: the process of a principal that was registered without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// Which principal.
    pub id: Id,
    /// Its process, in the broker's pid namespace.
    #[serde(deserialize_with = "checked::pid")]
    pub pid: u32,
}

/// `Adapt`: who steers a principal from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Adapt {
    /// Which principal.
    pub id: Id,
    /// As in [`Register`]; absent when nobody does any more.
    pub adapter: Option<Adapter>,
}

/// `Report`: what an adapter knows of its program. Absent fields keep their last value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Report {
    /// Which principal.
    pub id: Id,
    /// Live bytes after the last full collection.
    pub live: Option<u64>,
    /// Bytes per second that the program allocates.
    pub allocation_rate: Option<u64>,
    /// Bytes per second that a collection processes.
    pub collection_speed: Option<u64>,
    /// Bytes it can make use of, at the most (a maximum heap, say, plus the native part).
    pub demand: Option<u64>,
    /// Bytes below which it cannot go by adapting.
    pub floor: Option<u64>,
    /// Milliseconds that giving memory back was measured to take.
    pub reaction_ms: Option<u64>,
    /// Collections since its start.
    pub collections: Option<u64>,
    /// Milliseconds spent in collections since its start.
    pub collection_ms: Option<u64>,
    /// What its collector knows of itself; replaced as a whole.
    pub collector: Option<Statistics>,
}

/// What a collector knows of itself: the collector's page of `top`. Numbers that it does not know
/// are absent. Part of a parameter and of replies, so fields that are not known here are passed
/// over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Statistics {
    /// Bytes of its heap, live or free, without what was given back.
    pub heap: Option<u64>,
    /// Microseconds that the program stood still for the last collection.
    pub last_pause_us: Option<u64>,
    /// The most microseconds that it stood still for any.
    pub longest_pause_us: Option<u64>,
    /// Major faults in collections since its start.
    pub faults: Option<u64>,
    /// Superpages of the heap that the last collection found evicted (at least partly in swap).
    pub absent: Option<u64>,
    /// Summaries that stand for evicted superpages.
    pub summaries: Option<u64>,
    /// Bytes that summaries may keep alive beyond what the last complete collection found to live.
    pub retained: Option<u64>,
}

/// `Set`: changes a principal; absent fields stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Set {
    /// Which principal.
    pub id: Id,
    /// Against its siblings'.
    pub weight: Option<Weight>,
    /// Its class among its siblings.
    pub priority: Option<Priority>,
    /// Bytes in JSON; 0 takes the bound away.
    #[serde(with = "standing::change")]
    pub max: Option<Max>,
    /// Weight of its own memory against its children's (child-relative, paper 4.1).
    pub own_weight: Option<Weight>,
    /// Priority of its own memory against its children's.
    pub own_priority: Option<Priority>,
    /// Under whom; a cycle is refused.
    pub parent: Option<Id>,
}

/// A principal that a call names and nothing else (`Subscribe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// Which principal.
    pub id: Id,
}

/// `Released`: the program gave bytes back; the broker may look at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Released {
    /// Which principal.
    pub id: Id,
    /// How many bytes.
    pub bytes: u64,
}

/// `Watch`: `List` again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Milliseconds between two replies, 100 to 60000.
    #[serde(deserialize_with = "checked::interval_ms")]
    pub interval_ms: u64,
}

/// One principal as `ps --json` shows it. Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Principal {
    /// Its number.
    pub id: Id,
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: Option<u32>,
    /// A process or a group.
    pub kind: Kind,
    /// The adapter, absent for passive ones.
    pub adapter: Option<String>,
    /// 1 to 10000.
    pub weight: u32,
    /// -100 to 100.
    pub priority: i32,
    /// Accounted to it without its children; for a group, to all below it.
    pub uses: u64,
    /// May use now.
    pub limit: u64,
    /// Could have if it asked.
    pub available: u64,
    /// Must give back.
    pub owed: u64,
    /// Guaranteed weighted share.
    pub share: u64,
    /// Never more than this.
    pub max: Option<u64>,
    /// Touched recently, where it was measured.
    pub working_set: Option<u64>,
    /// In swap.
    pub swapped: u64,
    /// Major faults since it was registered.
    pub major_faults: u64,
    /// Level.
    pub level: Level,
    /// As reported.
    pub live: Option<u64>,
    /// As reported.
    pub collections: Option<u64>,
    /// As reported, milliseconds.
    pub collection_ms: Option<u64>,
    /// As reported.
    pub collector: Option<Statistics>,
    /// Absolute path of its availability page, where the broker tells it.
    pub page: Option<String>,
    /// Its children.
    pub children: Vec<Principal>,
}

/// Reply to `List` and `Watch`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Listing {
    /// The broker's version.
    pub version: String,
    /// The broker's process.
    pub pid: u32,
    /// Memory of the machine or of the limiting cgroup, bytes.
    pub capacity: u64,
    /// Used by programs outside the broker that cannot be dropped for free, bytes.
    pub outsiders: u64,
    /// Held back so that warnings come early enough, bytes.
    pub reserve: u64,
    /// What is shared out, bytes.
    pub budget: u64,
    /// Where the capacity comes from: `machine` or a cgroup's path.
    pub domain: String,
    /// Top-level principals.
    pub principals: Vec<Principal>,
    /// How many principals are not shown because the listing would be too long.
    pub left_out: u64,
}

/// Parameters or a reply without a field (`List`, `Reload`; replies to `Attach`, `Adapt`,
/// `Report`, `Released`, `Set`, `Reload`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

/// Reply to `Subscribe`: the first at once, then one at each change that matters. Between two a
/// slow subscriber may miss some; the last is never missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Which principal.
    pub id: Id,
    /// The page's generation that these numbers are of.
    pub generation: u64,
    /// The numbers.
    pub numbers: Numbers,
}
