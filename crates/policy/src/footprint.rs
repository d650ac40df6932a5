//! How much memory a collected heap may take: from one collection to the next, under the tightest of what a broker grants,
//! what the machine or a group still has, and what the kernel had to take away by itself.

use crate::isla_vista::{IslaVista, Ratios};

/// What stays unused below a broker's limit, at the most: what a process holds besides its heap moves by so much, however
/// large the heap is.
const MOST_UNUSED: u64 = 24 << 20;

/// How far a release goes below the threshold, at the most: what lies deeper is filled again at once.
const MOST_RELEASED: u64 = 32 << 20;

/// A heap may always allocate this between two collections, or a part of what it has in memory.
const LEAST: u64 = 1 << 20;
const LEAST_PART: u64 = 16;

/// For its own growth a heap pages out no more than this part of itself at a time.
const SHED_PART: u64 = 4;

/// The heap may grow until the process uses this much: 15/16 of the limit (Walfield, section 5.1), nearer to a large one.
pub fn threshold(limit: u64) -> u64 {
    limit - (limit / 16).min(MOST_UNUSED)
}

/// A release goes down to this use: 7/8 of the threshold (Walfield, section 5.1), nearer to a large one.
pub fn low_water(limit: u64) -> u64 {
    let threshold = threshold(limit);
    threshold - (threshold / 8).min(MOST_RELEASED)
}

/// What is left free in a domain of that capacity, for what a collection itself needs: a 16th, within 1 and 32 MiB.
pub fn reserve(capacity: u64) -> u64 {
    (capacity / 16).clamp(1 << 20, 32 << 20)
}

/// What to allocate until the next collection where memory is not short: the square root of what a collection costs (ns) and of
/// how fast that is due again, `rate` in bytes allocated in a second (Kirisame, Shenoy and Panchekha, OOPSLA 2022). The
/// constant makes a heap take a MiB more for each thousandth of its time that it would collect.
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
}

impl Bound {
    /// By how much a heap may grow that has so much in memory.
    pub fn room(&self, resident: u64) -> u64 {
        match *self {
            Bound::None => u64::MAX,
            Bound::Granted(heap) => heap.saturating_sub(resident),
            // Others want some of it, too, and the kernel begins to take before all is gone.
            Bound::Domain { capacity, free } => free.saturating_sub(reserve(capacity)) / 4 * 3,
        }
    }
}

/// What a collection left. Bytes.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// What of the heap is in use and in memory.
    pub resident: u64,
    /// By how much it would grow until the next collection if memory were not short.
    pub growth: u64,
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
        let least = least(seen.resident);
        let most = seen.bound.room(seen.resident);
        let (room, wanted, debt) = match seen.bound {
            // What the broker grants is the heap's, whatever the kernel does meanwhile.
            Bound::Granted(heap) => {
                self.sizing = None;
                let wanted = seen.growth.min(most.max(least));
                (most, wanted, seen.resident.saturating_sub(heap))
            }
            Bound::None => (self.within_sizing(seen, u64::MAX), seen.growth, 0),
            Bound::Domain { capacity, .. } => {
                let room = self.within_sizing(seen, capacity).min(most);
                (room, seen.growth, 0)
            }
        };
        let missing = wanted.saturating_sub(room).min(seen.resident / SHED_PART);
        Decision {
            room,
            most: most.max(least),
            least,
            debt,
            shed: missing.saturating_add(debt),
            short: room < seen.growth,
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
    fn what_a_broker_grants_is_used() {
        let mut footprint = Footprint::default();
        let much = seen(Bound::Granted(400 * MIB), 5);
        assert_eq!(after(&mut footprint, &much), (240, 0, false));
        let little = seen(Bound::Granted(100 * MIB), 0);
        assert_eq!(after(&mut footprint, &little), (10, 70, true));
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
            resident in 0u64..1 << 40, growth in 0u64..1 << 40, free in any::<u64>(), capacity in any::<u64>(),
            stalls in proptest::collection::vec(0u64..2, 1..20),
        ) {
            let mut footprint = Footprint::default();
            for stalls in stalls {
                let bound = Bound::Domain { capacity, free };
                let decision = footprint.after(&Seen { resident, growth, bound, stalls });
                let least = least(resident);
                prop_assert!(decision.growth(0) >= least);
                prop_assert!(decision.growth(0) <= growth.max(least));
                prop_assert!(decision.growth(0) <= free.max(least));
                prop_assert!(decision.growth(decision.shed) <= growth.max(least));
            }
        }
    }
}
