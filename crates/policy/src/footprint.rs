//! How much memory a collected heap may take: from one collection to the next, under the tightest
//! of what a broker grants, what the machine or a group still has, and what the kernel had to take
//! away by itself.

use crate::isla_vista::{IslaVista, Ratios};

/// What stays unused below a broker's limit, at the most: what a process holds besides its heap
/// moves by so much, however large the heap is.
const MOST_UNUSED: u64 = 24 << 20;

/// How far a release goes below the threshold, at the most: what lies deeper is filled again at once.
const MOST_RELEASED: u64 = 32 << 20;

/// A heap may always allocate this between two collections, or a part of what it has in memory.
const LEAST: u64 = 1 << 20;
const LEAST_PART: u64 = 16;

/// Where nothing can be paged out, no more than this part of what is left.
const LAST_PART: u64 = 4;

/// For its own growth a heap pages out no more than this part of itself at a time.
const SHED_PART: u64 = 4;

/// The heap may grow until the process uses this much: 15/16 of the limit (Walfield, section 5.1),
/// nearer to a large one.
pub fn threshold(limit: u64) -> u64 {
    limit - (limit / 16).min(MOST_UNUSED)
}

/// A release goes down to this use: 7/8 of the threshold (Walfield, section 5.1), nearer to a large one.
pub fn low_water(limit: u64) -> u64 {
    let threshold = threshold(limit);
    threshold - (threshold / 8).min(MOST_RELEASED)
}

/// What is left free in a domain of that capacity, for what a collection itself needs: a 16th,
/// within 1 and 32 MiB.
pub fn reserve(capacity: u64) -> u64 {
    (capacity / 16).clamp(1 << 20, 32 << 20)
}

/// How much the native memory of a program may grow by before collections can give way: direct
/// buffers that are filled at once, say. Of little memory it is a quarter. Bytes.
pub fn surprise(capacity: u64) -> u64 {
    (capacity / 4).min(160 << 20)
}

/// What to allocate until the next collection where memory is not short: the square root of what a
/// collection costs (ns) and of how fast that is due again, `rate` in bytes allocated in a second
/// (Kirisame, Shenoy and Panchekha, OOPSLA 2022). The constant makes a heap take a MiB more for
/// each thousandth of its time that it would collect.
pub fn square_root(cost: u64, rate: u64) -> u64 {
    const WORTH: f64 = (1u64 << 30) as f64;
    (cost as f64 / 1e9 * WORTH * rate as f64).sqrt() as u64
}

/// What bounds a heap, and how far away that is. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Nothing that is known.
    None,
    /// A broker: what the heap may be.
    Granted(u64),
    /// The machine or a group: its capacity, and what of that is free, with what the heap has free in memory.
    Domain {
        /// All of it.
        capacity: u64,
        /// Free.
        free: u64,
    },
    /// The same where nothing can be paged out: who goes beyond it is killed.
    Cliff {
        /// Free, with what the heap has free in memory.
        left: u64,
        /// Of this, what large objects will not take that were not touched yet.
        free: u64,
        /// Of this, what is left to others.
        margin: u64,
        /// What a broker grants the heap besides, or the most that there is.
        granted: u64,
    },
}

/// Whether an excess in a domain of that capacity is death, where so much of it can be paged out.
pub fn is_cliff(capacity: u64, pageable: u64) -> bool {
    pageable < reserve(capacity)
}

/// What is beside a heap in its domain, and how fast it grows: where nothing can be paged out there has to
/// be room for what it will be when the heap has looked again and collected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// When it was looked at last, ns, and how much it was.
    last: Option<(u64, u64)>,
    /// Bytes in a second.
    rate: f64,
}

impl Beside {
    /// So long it takes to look again and to collect, s.
    const REACTION: f64 = 0.25;
    /// In so much time a growth that ended is half forgotten, s.
    const MEMORY: f64 = 1.0;
    /// In less nothing is told from noise, s.
    const SHORTEST: f64 = 0.05;

    /// It is so much, in bytes, at a time in ns.
    pub fn look(&mut self, now: u64, bytes: u64) {
        let Some((then, before)) = self.last else {
            self.last = Some((now, bytes));
            return;
        };
        let passed = now.saturating_sub(then) as f64 / 1e9;
        if passed < Beside::SHORTEST {
            return;
        }
        let fresh = bytes.saturating_sub(before) as f64 / passed;
        let forgotten = self.rate * 0.5f64.powf(passed / Beside::MEMORY);
        self.rate = fresh.max(forgotten);
        self.last = Some((now, bytes));
    }

    /// What to leave to it in a domain of that capacity: the reserve, and what it grows by, an 8th at the
    /// most.
    pub fn margin(&self, capacity: u64) -> u64 {
        let growth = (self.rate * Beside::REACTION) as u64;
        reserve(capacity) + growth.min(capacity / 8)
    }
}

impl Bound {
    /// By how much a heap may grow that has so much in memory.
    pub fn room(&self, resident: u64) -> u64 {
        match *self {
            Bound::None => u64::MAX,
            Bound::Granted(heap) => heap.saturating_sub(resident),
            // Others want some of it, too, and the kernel begins to take before all is gone.
            Bound::Domain { capacity, free } => free.saturating_sub(reserve(capacity)) / 4 * 3,
            Bound::Cliff {
                free,
                margin,
                granted,
                ..
            } => {
                let room = free.saturating_sub(margin) / 4 * 3;
                room.min(granted.saturating_sub(resident))
            }
        }
    }

    /// What a heap may take in any case that has no place for an object after a collection, where an excess
    /// is death; none, where it is not.
    pub fn last(&self) -> Option<u64> {
        match *self {
            Bound::Cliff { left, margin, .. } => Some(left.saturating_sub(margin / 2) / LAST_PART),
            _ => None,
        }
    }

    /// The same when the heap has taken so much more since, or less.
    pub fn after(self, more: i64) -> Bound {
        let without = |bytes: u64| bytes.saturating_add_signed(-more);
        match self {
            Bound::Cliff {
                left,
                free,
                margin,
                granted,
            } => Bound::Cliff {
                left: without(left),
                free: without(free),
                margin,
                granted,
            },
            other => other,
        }
    }

    /// Whether an excess is death.
    pub fn is_cliff(&self) -> bool {
        matches!(self, Bound::Cliff { .. })
    }
}

/// What a collection left. Bytes.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// What of the heap is in use and in memory.
    pub resident: u64,
    /// By how much it would grow until the next collection if memory were not short.
    pub growth: u64,
    /// Holes in what is in use, which are filled before it grows.
    pub holes: u64,
    /// What bounds it.
    pub bound: Bound,
    /// How often the kernel had to take memory since the last collection.
    pub stalls: u64,
}

/// What to do until the next collection. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What there is room for, of what it would grow by.
    room: u64,
    /// What there is too much already.
    debt: u64,
    /// What may be allocated whether there is room or not.
    least: u64,
    /// What there is room for, if it were to grow by more.
    pub most: u64,
    /// So much is to be paged out, cold first: what there is no room for.
    pub shed: u64,
    /// Memory is short: what is free is to be given back, and the limit to be kept.
    pub short: bool,
}

impl Decision {
    /// By how much the heap may grow, where so much was paged out.
    pub fn growth(&self, shed: u64) -> u64 {
        let shed = shed.saturating_sub(self.debt);
        self.room.saturating_add(shed).max(self.least)
    }
}

/// The sizing of one heap.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// From the first stall on.
    sizing: Option<IslaVista>,
}

impl Footprint {
    /// A collection ended.
    pub fn after(&mut self, seen: &Seen) -> Decision {
        let most = seen.bound.room(seen.resident);
        let least = least(seen.resident);
        let (room, wanted, debt) = match seen.bound {
            // What the broker grants is the heap's, whatever the kernel does meanwhile.
            Bound::Granted(heap) => {
                self.sizing = None;
                let wanted = seen.growth.min(most.max(least));
                (most, wanted, seen.resident.saturating_sub(heap))
            }
            Bound::None => (self.within_sizing(seen, u64::MAX), seen.growth, 0),
            Bound::Cliff { .. } => return self.before_a_cliff(seen, most),
            Bound::Domain { capacity, .. } => {
                let room = self.within_sizing(seen, capacity).min(most);
                (room, seen.growth, 0)
            }
        };
        let missing = wanted.saturating_sub(room).min(seen.resident / SHED_PART);
        let short = room < seen.growth;
        Decision {
            room,
            most: most.max(least),
            // Holes are progress, too, but where memory is short some are in swap.
            least: if short {
                least
            } else {
                least.saturating_sub(seen.holes)
            },
            debt,
            shed: missing.saturating_add(debt),
            short,
        }
    }

    /// Where nothing can be paged out: holes are progress, too, and for the rest a heap takes a part of
    /// what is left, again and again.
    fn before_a_cliff(&mut self, seen: &Seen, most: u64) -> Decision {
        self.sizing = None;
        let progress = least(seen.resident).min(seen.bound.last().unwrap_or(0));
        let least = progress.saturating_sub(seen.holes).min(seen.growth);
        Decision {
            room: most.min(seen.growth),
            most: most.max(least),
            least,
            debt: 0,
            shed: 0,
            short: most < seen.growth,
        }
    }

    /// What Isla Vista leaves of what it would grow by.
    fn within_sizing(&mut self, seen: &Seen, capacity: u64) -> u64 {
        let most = capacity.max(1);
        if seen.stalls > 0 && self.sizing.is_none() {
            let limit = seen.resident.saturating_add(seen.growth);
            self.sizing = Some(IslaVista::new(Ratios::MENDED, limit, most));
        }
        let Some(sizing) = &mut self.sizing else {
            return seen.growth;
        };
        sizing.set_most(most);
        let limit = sizing.after(seen.stalls, seen.resident);
        let room = limit.saturating_sub(seen.resident);
        if seen.stalls == 0 && room >= seen.growth {
            // The spike is over.
            self.sizing = None;
        }
        seen.growth.min(room)
    }
}

fn least(resident: u64) -> u64 {
    (resident / LEAST_PART).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn seen(bound: Bound, stalls: u64) -> Seen {
        Seen {
            resident: 160 * MIB,
            growth: 100 * MIB,
            holes: 0,
            bound,
            stalls,
        }
    }

    fn domain(free: u64) -> Bound {
        Bound::Domain {
            capacity: 512 * MIB,
            free: free * MIB,
        }
    }

    /// Growth without paging out, what is to be paged out, and whether memory is short.
    fn after(footprint: &mut Footprint, seen: &Seen) -> (u64, u64, bool) {
        let decision = footprint.after(seen);
        (
            decision.growth(0) / MIB,
            decision.shed / MIB,
            decision.short,
        )
    }

    #[test]
    fn where_there_is_room_a_heap_grows_as_usual() {
        let mut footprint = Footprint::default();
        let usual = (100, 0, false);
        assert_eq!(after(&mut footprint, &seen(domain(300), 0)), usual);
        assert_eq!(after(&mut footprint, &seen(Bound::None, 0)), usual);
    }

    #[test]
    fn it_stays_a_reserve_below_what_is_free_and_sheds_the_rest() {
        let short = after(&mut Footprint::default(), &seen(domain(72), 0));
        assert_eq!(short, (30, 40, true));
    }

    #[test]
    fn what_there_is_room_for_is_said_even_if_a_heap_would_grow_by_less() {
        let most = |bound| Footprint::default().after(&seen(bound, 0)).most;
        assert_eq!(most(Bound::None), u64::MAX);
        assert_eq!(most(Bound::Granted(400 * MIB)), 240 * MIB);
        assert_eq!(most(domain(232)), 150 * MIB);
        assert_eq!(most(domain(0)), 10 * MIB, "as much as may be in any case");
    }

    #[test]
    fn it_always_makes_progress() {
        let none = after(&mut Footprint::default(), &seen(domain(0), 9));
        assert_eq!(none, (10, 40, true));
    }

    #[test]
    fn holes_are_progress_while_memory_is_not_short() {
        let mut footprint = Footprint::default();
        let holes = |bytes| Seen {
            growth: 0,
            holes: bytes,
            ..seen(Bound::None, 0)
        };
        assert_eq!(footprint.after(&holes(0)).growth(0), 10 * MIB);
        assert_eq!(footprint.after(&holes(4 * MIB)).growth(0), 6 * MIB);
        assert_eq!(footprint.after(&holes(90 * MIB)).growth(0), 0);
        let short = Seen {
            holes: 90 * MIB,
            ..seen(domain(0), 0)
        };
        assert_eq!(footprint.after(&short).growth(0), 10 * MIB);
    }

    #[test]
    fn what_a_broker_grants_is_used() {
        let mut footprint = Footprint::default();
        let much = seen(Bound::Granted(400 * MIB), 5);
        assert_eq!(after(&mut footprint, &much), (240, 0, false));
        let little = seen(Bound::Granted(100 * MIB), 0);
        assert_eq!(after(&mut footprint, &little), (10, 70, true));
    }

    /// What is free but for a margin, as elsewhere; nothing in any case, as long as there are holes, and
    /// then a part of what is left.
    #[test]
    fn on_a_cliff_it_fills_holes_first_and_pages_nothing_out() {
        let cliff = |free, granted, holes| {
            let bound = Bound::Cliff {
                left: free * MIB,
                free: free * MIB,
                margin: 32 * MIB,
                granted,
            };
            let holes = holes * MIB;
            let decision = Footprint::default().after(&Seen {
                holes,
                ..seen(bound, 3)
            });
            assert_eq!((decision.shed, decision.debt), (0, 0));
            (decision.growth(0) / MIB, decision.short)
        };
        assert_eq!(cliff(300, u64::MAX, 0), (100, false));
        assert_eq!(cliff(72, u64::MAX, 0), (30, true));
        assert_eq!(cliff(300, 200 * MIB, 0), (40, true), "a broker says so");
        assert_eq!(cliff(32, u64::MAX, 20), (0, true));
        assert_eq!(
            cliff(32, u64::MAX, 0),
            (4, true),
            "a quarter of what is left"
        );
        assert_eq!(cliff(32, u64::MAX, 3), (1, true), "with holes");
        assert_eq!(
            cliff(16, u64::MAX, 0),
            (0, true),
            "but for half of the margin"
        );
    }

    #[test]
    fn little_swap_is_a_cliff_too() {
        assert!(is_cliff(512 * MIB, 0) && is_cliff(512 * MIB, 31 * MIB));
        assert!(!is_cliff(512 * MIB, 32 * MIB));
    }

    #[test]
    fn a_margin_is_left_to_what_grows_until_that_ends() {
        let mut beside = Beside::default();
        let (capacity, mut now) = (512 * MIB, 0);
        let least = 32 * MIB;
        let mut after = |milliseconds: u64, bytes: u64| {
            now += milliseconds * 1_000_000;
            beside.look(now, bytes);
            beside.margin(capacity)
        };
        assert_eq!(after(0, 10 * MIB), least);
        assert_eq!(
            after(1, 20 * MIB),
            least,
            "in so little time nothing is told"
        );
        let growing = after(99, 14 * MIB);
        assert_eq!(growing, least + 10 * MIB, "40 MiB in a second");
        let half = after(1000, 14 * MIB);
        assert!((least + 4 * MIB..least + 6 * MIB).contains(&half), "{half}");
        assert!(after(20_000, 5 * MIB) < least + MIB);
        assert_eq!(
            after(100, 400 * MIB),
            least + 64 * MIB,
            "no more than an 8th"
        );
    }

    #[test]
    fn stalls_shrink_it_and_a_spike_is_forgotten() {
        let mut footprint = Footprint::default();
        let (growth, _, short) = after(&mut footprint, &seen(domain(300), 1));
        assert!(short && growth <= 75, "{growth}");
        let grown = (0..200).find(|_| after(&mut footprint, &seen(domain(300), 0)).0 == 100);
        assert!(grown.is_some());
        assert!(footprint.sizing.is_none());
    }

    #[test]
    fn heaps_that_hardly_allocate_take_less() {
        let cost = 100_000_000;
        let slow = square_root(cost, 10 * MIB);
        assert!((31 * MIB..33 * MIB).contains(&slow), "{slow}");
        assert!(square_root(cost, 1000 * MIB) > 300 * MIB);
        assert_eq!(square_root(cost, 0), 0);
    }

    #[test]
    fn of_a_small_limit_threshold_and_low_water_are_the_papers() {
        assert_eq!(threshold(1600), 1500);
        assert_eq!(low_water(1600), 1313);
        let limit = 4096 * MIB;
        assert_eq!(limit - threshold(limit), MOST_UNUSED);
        assert_eq!(threshold(limit) - low_water(limit), MOST_RELEASED);
    }

    proptest! {
        #[test]
        fn growth_is_bounded_by_the_usual_the_room_and_progress(
            resident in 0u64..1 << 40,
            growth in 0u64..1 << 40,
            free in any::<u64>(),
            capacity in any::<u64>(),
            stalls in proptest::collection::vec(0u64..2, 1..20),
        ) {
            let mut footprint = Footprint::default();
            for stalls in stalls {
                let bound = Bound::Domain { capacity, free };
                let decision = footprint.after(&Seen { resident, growth, holes: 0, bound, stalls });
                let least = least(resident);
                prop_assert!(decision.growth(0) >= least);
                prop_assert!(decision.growth(0) <= growth.max(least));
                prop_assert!(decision.growth(0) <= free.max(least));
                prop_assert!(decision.growth(decision.shed) <= growth.max(least));
            }
        }
    }
}
