use plimsoll_unit::MIB;

/// Nanoseconds in a second.
const NANOS_IN_SECOND: f64 = 1e9;
/// Larger sizes count as these, so that sums cannot overflow: 256 TiB used by one principal, 64 PiB
/// to share.
pub(super) const MOST_USED: u64 = 1 << 48;
pub(super) const MOST_BUDGET: u64 = 1 << 56;

/// Known figures of a collector, for the square-root rule. All zero means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collector {
    /// Live bytes after the last full collection.
    pub live: u64,
    /// Bytes per second that the program allocates.
    pub allocation_rate: u64,
    /// Bytes per second that a collection processes.
    pub collection_speed: u64,
}

/// The collection speed of a cache that counts as a collector, bytes per second: it gives memory back without
/// looking at all that it keeps.
const CACHE_SPEED: u64 = 1 << 40;

impl Collector {
    /// The figures of a collector to which memory is worth as much as to a cache. Collections take
    /// k / (size - live) seconds per second, where k is live x allocation rate / collection speed. So one
    /// more byte saves k / (size - live)^2. A cache of `size` bytes that cannot go below `floor`, and saves
    /// `worth` nanoseconds per second with one more MiB, has k by that. Misses fall otherwise than
    /// collections when a cache grows, so k holds near that size, and the next report corrects it.
    #[must_use]
    pub fn of_cache(floor: u64, size: u64, worth: u64) -> Collector {
        let live = floor.clamp(1, MOST_USED);
        let room = size.min(MOST_USED).saturating_sub(live).max(MIB) as f64;
        let saved = worth as f64 / NANOS_IN_SECOND / MIB as f64;
        let rate = saved * room * room * CACHE_SPEED as f64 / live as f64;
        Collector {
            live,
            // Floating point ends at the greatest number.
            allocation_rate: rate as u64,
            collection_speed: CACHE_SPEED,
        }
    }

    /// Whether the figures are known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.live > 0 && self.collection_speed > 0
    }
}

/// One principal as input of a decision. In the slice a parent precedes its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Index of its parent in the slice; `None` at the top.
    pub parent: Option<u32>,
    /// 1 to 10000, relative to its siblings.
    pub weight: u32,
    /// -100 to 100; a higher class is served first.
    pub priority: i32,
    /// Weight of its own memory against its children's.
    pub own_weight: u32,
    /// Priority of its own memory against its children's.
    pub own_priority: i32,
    /// Bytes of its own (without children) that it uses now.
    pub uses: u64,
    /// Bytes of its own that it touched recently; protected first (Algorithm 1).
    pub working_set: u64,
    /// Expected change of its own use soon, in bytes (Algorithm 3's `rec_alloc`).
    pub trend: i64,
    /// Bytes that its own memory can make use of; `u64::MAX` when unbounded.
    pub demand: u64,
    /// Bytes of its own memory at which its collections still cost it little. It lends the part of
    /// its entitlement beyond this to members with known collectors that save more with it.
    /// `u64::MAX` when it lends nothing.
    pub modest: u64,
    /// Most bytes for it and its children together; `u64::MAX` when unbounded.
    pub max: u64,
    /// Its own limit as decided last, bytes; 0 for a new one.
    pub last_limit: u64,
    /// Its own target as decided last, bytes; 0 for a new one.
    pub last_target: u64,
    /// Bytes that its own memory comes to soon. While it may use more, it lacks nothing.
    pub reach: u64,
    /// Bytes that it says or shows that it wants. While it may use less, it lacks what is missing of its
    /// entitlement, even if it does not come near its limit.
    pub claims: u64,
    /// A lack of no more bytes than this is none, and a use that changes by no more moves no limit.
    pub slight: u64,
    /// Bytes below which it has shown or said that it cannot go; 0 when unknown. It owes these only to
    /// those who wait for their entitlements.
    pub least: u64,
    /// Whether it waits for a good part of its entitlement.
    pub waits: bool,
    /// Known figures of its collector.
    pub collector: Collector,
    /// For how long these figures are expected to hold, milliseconds.
    pub lasts_ms: u32,
    /// How long its program is known to take to follow a lower limit, milliseconds; 0 when unknown. It
    /// counts as a collection of the whole heap if that takes longer.
    pub resizing_ms: u32,
    /// It stands apart from its siblings: they lend each other nothing, whatever is reported about
    /// the collectors below it.
    pub apart: bool,
}

/// Decision for one principal, for its own memory unless said otherwise. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Weighted share that it is guaranteed.
    pub entitlement: u64,
    /// The memory that it should have at rest.
    pub target: u64,
    /// The memory that it may use now.
    pub limit: u64,
    /// The memory that it could have if it asked (Algorithm 2 over Algorithm 3).
    pub available: u64,
    /// Bytes that it must give back: its use beyond its limit.
    pub owed: u64,
    /// The limit of it and its children together.
    pub subtree_limit: u64,
    /// The memory that it and its children together could have if they asked.
    pub subtree_available: u64,
    /// Bytes of its target that it lacks: it is near its limit.
    pub lacks: u64,
}

/// The principal to revoke memory from first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Index of the principal; its own memory, not its children's.
    pub principal: usize,
    /// Bytes that it uses outside its working set, as far as that was still protected.
    pub excess: u64,
}
