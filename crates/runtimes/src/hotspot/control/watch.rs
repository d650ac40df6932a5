//! Facts about a machine that its counters teach over time.

use super::activity::Activity;
use super::allocation_rate::AllocationRate;
use super::collections::Collections;
use super::cost::Cost;
use super::heap_size::HeapSize;
use super::limit_changes::LimitChanges;
use super::live::Live;
use super::observation::Seen;
use super::peak_use::PeakUse;
use super::promotion::Promotion;
use super::touched::Touched;
use crate::hotspot::sizing_flags::{Levers, SizedBy};
use plimsoll_unit::{Bytes, Nanos};

/// The facts about a machine, for the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The live bytes: what was left by the last full collection, or the least use of the last
    /// seconds.
    pub live: Bytes,
    /// Bytes allocated per second; absent until measured a few times.
    pub allocation_rate: Option<u64>,
    /// Live bytes collected per second, as if each collection was of the whole heap; 0 until a
    /// collection was seen.
    pub collection_speed: u64,
    /// The most that the machine can use: maximum heap and native part, or less if the steps
    /// between sizes leave a part of the available memory unused.
    pub demand: Bytes,
    /// The least that the machine can be asked to use.
    pub floor: Bytes,
    /// How long the machine took to get below a lowered limit, milliseconds; 0 until that happened.
    pub reaction_ms: u64,
}

/// A resting program demands an eighth more than it uses, and at least this much more.
const HEADROOM: Bytes = Bytes::mib(16);

/// Watches the counters: gives each moment to all parts, in the order in which they need one another.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The collections so far.
    pub(super) collections: Collections,
    /// The live bytes.
    pub(super) live: Live,
    /// The part of the heap that can have been touched.
    pub(super) touched: Touched,
    /// How fast the old generation fills.
    pub(super) promotion: Promotion,
    /// How much of a processor the program uses.
    pub(super) activity: Activity,
    /// How fast it allocates, as collections tell.
    rate: AllocationRate,
    /// The cost of allocation in collections.
    cost: Cost,
    /// The policy that turns limits into heap sizes.
    pub(super) heap_size: HeapSize,
    /// Changes of the limit.
    pub(super) limit: LimitChanges,
    /// The highest use lately.
    pub(super) peak: PeakUse,
}

impl Watch {
    pub(super) fn look(&mut self, seen: &Seen, levers: &Levers) {
        if self.collections.is_new() {
            self.live = Live::begin(seen);
            self.rate.begin(seen.now);
        }
        let news = self.collections.look(seen);
        self.live.look(seen, levers, news.stopped);
        self.touched.look(seen, news);
        self.promotion.look(seen, news);
        self.activity.look(seen);
        let generational = levers.sized_by != SizedBy::SoftMax;
        let tells_live = if generational {
            // A collection that we asked for is no work of the program's, and hides some of that work.
            let asked = news.whole && news.asked;
            self.learn_allocation(seen, news.young, (news.stopped, asked));
            news.whole
        } else {
            self.learn_allocation(seen, u64::from(news.cycle), (false, false));
            news.cycle
        };
        self.heap_size.look(seen, self.live.bytes, tells_live);
        self.limit.look(seen);
        let young = generational.then_some(self.collections.young);
        self.peak.look(seen, young);
    }

    /// Learns the allocation between two collections (young ones, or cycles if there are no
    /// generations). A collection of the whole heap that `stopped` the program hides a part, so the
    /// measurements start again after it. If the program's own machine made it, its time counts with that of
    /// the next collection; if we `asked` for it, not.
    fn learn_allocation(&mut self, seen: &Seen, collections: u64, (stopped, asked): (bool, bool)) {
        if asked {
            self.cost.skip(seen);
        }
        if stopped || asked {
            self.rate.begin(seen.now);
            self.activity.skip(seen);
        } else if let Some(allocated) = self.rate.look(seen, collections) {
            self.activity.allocated(allocated, seen);
            self.cost.allocated(allocated, self.live.bytes, seen);
            self.heap_size.allocated(allocated);
        }
    }

    /// The allocation rate, bytes per second.
    fn rate(&self) -> f64 {
        self.activity.rate().unwrap_or(self.rate.bytes())
    }

    /// The collection time in nanoseconds that a heap larger by `more` bytes saves while a limit stays;
    /// `None` until known.
    pub(super) fn saved_ns(&self, more: Bytes, seen: &Seen) -> Option<f64> {
        let room = seen.heap.committed() - self.live.bytes;
        self.cost.saved_ns(self.rate(), room, more)
    }

    /// Notes a requested collection: how long it took, and the live bytes after it.
    pub(super) fn collected(&mut self, took: Nanos, live: Bytes) {
        self.cost.requested(took, live);
    }

    pub(super) fn facts(&self, seen: &Seen, levers: &Levers) -> Facts {
        let live = self.live.bytes;
        let least = live * levers.least_percent / 100;
        let young = match levers.sized_by {
            SizedBy::OldRatios { new_ratio } => least / new_ratio.max(1),
            _ => Bytes::ZERO,
        };
        let max = match levers.sized_by {
            SizedBy::OldRatios { .. } | SizedBy::OldOnly => seen.heap.old.max + seen.heap.young.max,
            _ => seen.heap.old.max,
        };
        let most = max + seen.native;
        let demand = if self.activity.rests() {
            (seen.uses + (seen.uses / 8).max(HEADROOM)).min(most)
        } else {
            most
        };
        Facts {
            live,
            allocation_rate: self.rate.is_known().then_some(self.rate() as u64),
            collection_speed: self.cost.speed(live) as u64,
            demand,
            floor: least + young + seen.native,
            reaction_ms: self.limit.reaction_ms(),
        }
    }
}
