//! Which collections examine only young objects: those where that is worth it. They stay within the
//! memory that whole collections would use, and stop when they have cost as much as a whole one.
//!
//! A collection of young objects leaves dead old objects behind. So each whole collection fixes how
//! much may live and be allocated until the next whole one. When to run the next whole one is the
//! rent-or-buy problem: buying when the rent paid reaches the price costs at most twice the minimum
//! (Karlin and others, 1988).

use plimsoll_unit::{Bytes, Nanos};

/// Result of a collection.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its cost, including what tracking writes has cost the program since the previous collection.
    pub cost: Nanos,
    /// Live memory, as far as known.
    pub live: Bytes,
    /// Memory allocated since the previous collection.
    pub allocated: Bytes,
}

/// The last whole collection.
#[derive(Clone, Copy, Debug)]
struct Whole {
    cost: Nanos,
    /// The memory that lived.
    live: Bytes,
    /// Most that may live and be allocated in all until the next whole collection.
    most: Bytes,
    allowance: Bytes,
}

/// The decisions for one heap.
#[derive(Clone, Debug, Default)]
pub struct Generations {
    whole: Option<Whole>,
    /// Number of collections of young objects since the last whole one, and their cost.
    count: u32,
    spent: Nanos,
    /// Memory allocated since the last whole collection, as of the last collection.
    allocated: Bytes,
    live: Bytes,
    /// Fraction (0 to 1) of the bytes allocated before the last collection that survived it.
    survival: f64,
    /// Number of collections to come that are whole because young ones were not worth it.
    rest: u32,
    /// Length of the last rest in collections.
    rested: u32,
    /// How much of what was allocated the heap grew by (0 to 1) from one whole collection to the next
    /// when that rest began; `None` until the whole collection that ends this interval.
    failed: Option<f64>,
}

/// Least room that a collection of young objects must be expected to leave, as a fraction of the
/// room that the last whole one left.
const LEAST_ROOM: f64 = 1.0 / 3.0;

/// Largest survival with which writes are tracked. It is slightly more than `LEAST_ROOM` implies:
/// survival is known only approximately, and tracking costs little for memory that is not written.
const MOST_SURVIVAL: f64 = 0.8;

/// The longest rest, in collections.
const LONGEST: u32 = 16;

/// If the heap grew by a smaller fraction of what was allocated, young collections did not fail
/// because it grew.
const GREW: f64 = 0.1;

impl Generations {
    /// Whether the next collection may be a young one, so that tracking writes is worthwhile.
    /// `survival` is the approximate fraction of the recently allocated bytes that lives.
    pub fn may_be_young(&self, survival: f64) -> bool {
        self.rest == 0 && survival <= MOST_SURVIVAL
    }

    /// Whether the collection that begins now should be a young one, after this much was `allocated`
    /// since the last collection: whether it will leave enough room.
    pub fn is_young(&self, allocated: Bytes) -> bool {
        let live = self.live + Bytes((self.survival * allocated.0 as f64) as u64);
        self.whole.is_some_and(|whole| {
            self.rest == 0
                && self.spent < whole.cost
                && (whole.most - live).0 as f64 >= whole.allowance.0 as f64 * LEAST_ROOM
        })
    }

    /// Number of collections of young objects since the last whole one.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Mean cost of recent collections: the one that just ended and is not noted yet, the
    /// young ones since the last whole one, and that whole one, unless the one that just ended is
    /// whole.
    pub fn mean_cost(&self, young: bool, cost: Nanos) -> Nanos {
        let whole = self.whole.filter(|_| young);
        let before = whole.map_or(Nanos::ZERO, |whole| whole.cost);
        (cost + self.spent + before) / u64::from(self.count + 1 + u32::from(whole.is_some()))
    }

    /// Notes a whole collection; `allowance` is the memory to allocate until the next.
    pub fn after_whole(&mut self, ended: &Ended, allowance: Bytes) {
        self.note(ended);
        self.note_growth(ended.live);
        (self.count, self.spent, self.allocated) = (0, Nanos::ZERO, Bytes::ZERO);
        self.whole = Some(Whole {
            cost: ended.cost,
            live: ended.live,
            most: ended.live + allowance,
            allowance,
        });
    }

    /// Notes a collection of young objects; returns how much may be allocated until the next.
    pub fn after_young(&mut self, ended: &Ended) -> Bytes {
        self.note(ended);
        self.count += 1;
        self.spent += ended.cost;
        let Some(whole) = self.whole else {
            return Bytes::ZERO;
        };
        let room = whole.most - ended.live;
        self.judge(&whole, ended.cost, room);
        room
    }

    fn note(&mut self, ended: &Ended) {
        let grown = ended.live - self.live;
        self.survival = (grown.0 as f64 / ended.allocated.0.max(1) as f64).min(1.0);
        self.live = ended.live;
        self.allocated += ended.allocated;
        self.rest = self.rest.saturating_sub(1);
    }

    /// Ends the rest if the heap grew when it began and does not any more: the program is in another
    /// phase. Only whole collections show that: survivors of a collection of young objects may take the
    /// place of objects that died.
    fn note_growth(&mut self, live: Bytes) {
        let before = self.whole.map_or(Bytes::ZERO, |whole| whole.live);
        let growth = (live - before).0 as f64 / self.allocated.0.max(1) as f64;
        let failed = *self.failed.get_or_insert(growth);
        if self.rested > 0 && failed >= GREW && growth < failed / 2.0 {
            (self.rest, self.rested) = (0, 0);
        }
    }

    /// Starts a rest when a byte of room cost more than with a whole collection. The rest has as many
    /// collections as this one cost times too much, and each rest is longer.
    fn judge(&mut self, whole: &Whole, cost: Nanos, room: Bytes) {
        let paid = u128::from(cost.0) * u128::from(whole.allowance.0);
        let worth = u128::from(whole.cost.0) * u128::from(room.0);
        if paid <= worth {
            self.rested = 0;
        } else {
            let times = u32::try_from(paid / worth.max(1)).unwrap_or(LONGEST);
            self.rested = (self.rested * 2).max(times).clamp(1, LONGEST);
            self.rest = self.rested;
            self.failed = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Notes a whole collection that cost 1000 and left room for 500.
    fn whole(generations: &mut Generations, live: u64) {
        generations.after_whole(&ended(live, 1000), Bytes(500));
    }

    fn ended(live: u64, cost: u64) -> Ended {
        Ended {
            cost: Nanos(cost),
            live: Bytes(live),
            allocated: Bytes(500),
        }
    }

    /// State after two whole collections between which no byte survived.
    fn steady() -> Generations {
        let mut generations = Generations::default();
        whole(&mut generations, 1000);
        whole(&mut generations, 1000);
        generations
    }

    #[test]
    fn the_first_is_whole() {
        assert!(!Generations::default().is_young(Bytes::ZERO));
    }

    #[test]
    fn where_the_young_die_collections_are_of_them_until_they_cost_what_a_whole_one_costs() {
        let mut generations = steady();
        for _ in 0..10 {
            assert!(generations.is_young(Bytes(500)));
            assert_eq!(generations.after_young(&ended(1000, 100)), Bytes(500));
        }
        assert_eq!(
            (
                generations.count(),
                generations.mean_cost(false, Nanos(1000))
            ),
            (10, Nanos(2000 / 11))
        );
        assert_eq!(generations.mean_cost(true, Nanos(100)), Nanos(2100 / 12));
        assert!(!generations.is_young(Bytes(500)));
        whole(&mut generations, 1000);
        assert!(generations.is_young(Bytes(500)));
    }

    #[test]
    fn where_all_that_is_new_lives_collections_are_whole() {
        let mut generations = Generations::default();
        for live in [500, 1000, 1500] {
            whole(&mut generations, live);
            assert!(!generations.is_young(Bytes(500)));
        }
    }

    #[test]
    fn what_lives_longer_takes_from_the_room_until_too_little_is_left() {
        let mut generations = steady();
        assert_eq!(generations.after_young(&ended(1100, 10)), Bytes(400));
        assert!(generations.is_young(Bytes(400)), "80 of these will live");
        assert_eq!(generations.after_young(&ended(1200, 10)), Bytes(300));
        assert!(generations.is_young(Bytes(300)));
        assert_eq!(generations.after_young(&ended(1300, 10)), Bytes(200));
        assert!(!generations.is_young(Bytes(200)), "40 will live");
    }

    #[test]
    fn what_is_not_worth_it_is_tried_more_and_more_seldom() {
        let mut generations = steady();
        let mut tried = 0;
        for _ in 0..200 {
            if generations.is_young(Bytes(500)) {
                tried += 1;
                generations.after_young(&ended(1000, 2000));
            } else {
                whole(&mut generations, 1000);
            }
        }
        assert!((12..=20).contains(&tried), "{tried}");
    }

    /// The heap stays as large as it is, because as much dies as survives.
    #[test]
    fn that_a_whole_collection_finds_what_a_young_one_left_is_no_reason_to_try_again() {
        let mut generations = steady();
        let mut tried = 0;
        for _ in 0..100 {
            if generations.is_young(Bytes(500)) {
                tried += 1;
                generations.after_young(&ended(1400, 2000));
            } else {
                whole(&mut generations, 1000);
            }
        }
        // At first it rests for 9 collections, and then for 15.
        assert_eq!(tried, 7);
    }

    #[test]
    fn a_heap_that_grew_and_does_not_any_more_is_no_reason_to_rest() {
        let mut generations = steady();
        for live in [1200, 1300] {
            generations.after_young(&ended(live, 2000));
        }
        whole(&mut generations, 1500);
        assert!(generations.rest > 0);
        whole(&mut generations, 1510);
        assert!(generations.is_young(Bytes(500)));
    }

    proptest! {
        /// Between two whole collections, less is allocated and lives than the first one left room
        /// for, and less is spent than the price of a whole one plus that of one young one.
        #[test]
        fn memory_and_cost_are_bounded(
            steps in proptest::collection::vec(
                (0u64..1 << 40, 0u64..1 << 30, 0u64..1 << 40, any::<bool>()),
                1..100,
            ),
        ) {
            let mut generations = Generations::default();
            let (mut most, mut price, mut spent) = (Bytes::ZERO, Nanos::ZERO, Nanos::ZERO);
            for (live, cost, allowance, quiet) in steps {
                let (cost, allowance) = (Nanos(cost), Bytes(allowance));
                let live = if quiet { generations.live } else { Bytes(live) };
                let ended = Ended { cost, live, allocated: allowance };
                if generations.is_young(allowance) {
                    prop_assert!(spent < price);
                    spent += cost;
                    prop_assert_eq!(generations.after_young(&ended), most - live);
                } else {
                    generations.after_whole(&ended, allowance);
                    (most, price, spent) = (live + allowance, cost, Nanos::ZERO);
                }
                prop_assert!(generations.rest <= LONGEST);
            }
        }
    }
}
