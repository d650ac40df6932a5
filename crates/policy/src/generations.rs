//! Which collections examine only young objects: those where that is worth it. They stay within the
//! memory that whole collections would use, and stop when they have cost as much as a whole one.
//!
//! A collection of young objects leaves dead old objects behind. So each whole collection fixes how
//! much may live and be allocated until the next whole one. When to run the next whole one is the
//! rent-or-buy problem: buying when the rent paid reaches the price costs at most twice the minimum
//! (Karlin and others, 1988).

/// Result of a collection. Sizes in bytes, cost in ns.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its cost, including what tracking writes has cost the program since the previous collection.
    pub cost: u64,
    /// Live bytes, as far as known.
    pub live: u64,
    /// Bytes allocated since the previous collection.
    pub allocated: u64,
}

/// The last whole collection.
#[derive(Clone, Copy, Debug)]
struct Whole {
    cost: u64,
    /// Bytes that lived.
    live: u64,
    /// Most bytes that may live and be allocated in all until the next whole collection.
    most: u64,
    allowance: u64,
}

/// The decisions for one heap.
#[derive(Clone, Debug, Default)]
pub struct Generations {
    whole: Option<Whole>,
    /// Number of collections of young objects since the last whole one, and their cost in ns.
    count: u32,
    spent: u64,
    /// Bytes allocated since the last whole collection, as of the last collection.
    allocated: u64,
    live: u64,
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

    /// Whether the collection that begins now should be a young one, after `allocated` bytes since
    /// the last collection: whether it will leave enough room.
    pub fn is_young(&self, allocated: u64) -> bool {
        let survivors = (self.survival * allocated as f64) as u64;
        let live = self.live.saturating_add(survivors);
        self.whole.is_some_and(|whole| {
            self.rest == 0
                && self.spent < whole.cost
                && whole.most.saturating_sub(live) as f64 >= whole.allowance as f64 * LEAST_ROOM
        })
    }

    /// Number of collections of young objects since the last whole one.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Mean cost of recent collections in ns: the one that just ended and is not noted yet, the
    /// young ones since the last whole one, and that whole one, unless the one that just ended is
    /// whole.
    pub fn mean_cost(&self, young: bool, cost: u64) -> u64 {
        let whole = self.whole.filter(|_| young);
        let before = whole.map_or(0, |whole| whole.cost);
        let sum = cost.saturating_add(self.spent).saturating_add(before);
        sum / u64::from(self.count + 1 + u32::from(whole.is_some()))
    }

    /// Notes a whole collection; `allowance` is the number of bytes to allocate until the next.
    pub fn after_whole(&mut self, ended: &Ended, allowance: u64) {
        self.note(ended);
        self.note_growth(ended.live);
        (self.count, self.spent, self.allocated) = (0, 0, 0);
        self.whole = Some(Whole {
            cost: ended.cost,
            live: ended.live,
            most: ended.live.saturating_add(allowance),
            allowance,
        });
    }

    /// Notes a collection of young objects; returns the bytes that may be allocated until the next.
    pub fn after_young(&mut self, ended: &Ended) -> u64 {
        self.note(ended);
        self.count += 1;
        self.spent = self.spent.saturating_add(ended.cost);
        let Some(whole) = self.whole else { return 0 };
        let room = whole.most.saturating_sub(ended.live);
        self.judge(&whole, ended.cost, room);
        room
    }

    fn note(&mut self, ended: &Ended) {
        let grown = ended.live.saturating_sub(self.live);
        self.survival = (grown as f64 / ended.allocated.max(1) as f64).min(1.0);
        self.live = ended.live;
        self.allocated = self.allocated.saturating_add(ended.allocated);
        self.rest = self.rest.saturating_sub(1);
    }

    /// Ends the rest if the heap grew when it began and does not any more: the program is in another
    /// phase. Only whole collections show that: survivors of a collection of young objects may take the
    /// place of objects that died.
    fn note_growth(&mut self, live: u64) {
        let before = self.whole.map_or(0, |whole| whole.live);
        let growth = live.saturating_sub(before) as f64 / self.allocated.max(1) as f64;
        let failed = *self.failed.get_or_insert(growth);
        if self.rested > 0 && failed >= GREW && growth < failed / 2.0 {
            (self.rest, self.rested) = (0, 0);
        }
    }

    /// Starts a rest when a byte of room cost more than with a whole collection. The rest has as many
    /// collections as this one cost times too much, and each rest is longer.
    fn judge(&mut self, whole: &Whole, cost: u64, room: u64) {
        let paid = u128::from(cost) * u128::from(whole.allowance);
        let worth = u128::from(whole.cost) * u128::from(room);
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
        generations.after_whole(&ended(live, 1000), 500);
    }

    fn ended(live: u64, cost: u64) -> Ended {
        Ended {
            cost,
            live,
            allocated: 500,
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
        assert!(!Generations::default().is_young(0));
    }

    #[test]
    fn where_the_young_die_collections_are_of_them_until_they_cost_what_a_whole_one_costs() {
        let mut generations = steady();
        for _ in 0..10 {
            assert!(generations.is_young(500));
            assert_eq!(generations.after_young(&ended(1000, 100)), 500);
        }
        assert_eq!(
            (generations.count(), generations.mean_cost(false, 1000)),
            (10, 2000 / 11)
        );
        assert_eq!(generations.mean_cost(true, 100), 2100 / 12);
        assert!(!generations.is_young(500));
        whole(&mut generations, 1000);
        assert!(generations.is_young(500));
    }

    #[test]
    fn where_all_that_is_new_lives_collections_are_whole() {
        let mut generations = Generations::default();
        for live in [500, 1000, 1500] {
            whole(&mut generations, live);
            assert!(!generations.is_young(500));
        }
    }

    #[test]
    fn what_lives_longer_takes_from_the_room_until_too_little_is_left() {
        let mut generations = steady();
        assert_eq!(generations.after_young(&ended(1100, 10)), 400);
        assert!(generations.is_young(400), "80 of these will live");
        assert_eq!(generations.after_young(&ended(1200, 10)), 300);
        assert!(generations.is_young(300));
        assert_eq!(generations.after_young(&ended(1300, 10)), 200);
        assert!(!generations.is_young(200), "40 will live");
    }

    #[test]
    fn what_is_not_worth_it_is_tried_more_and_more_seldom() {
        let mut generations = steady();
        let mut tried = 0;
        for _ in 0..200 {
            if generations.is_young(500) {
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
            if generations.is_young(500) {
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
        assert!(generations.is_young(500));
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
            let (mut most, mut price, mut spent) = (0, 0, 0);
            for (live, cost, allowance, quiet) in steps {
                let live = if quiet { generations.live } else { live };
                let ended = Ended { cost, live, allocated: allowance };
                if generations.is_young(allowance) {
                    prop_assert!(spent < price);
                    spent += cost;
                    prop_assert_eq!(generations.after_young(&ended), u64::saturating_sub(most, live));
                } else {
                    generations.after_whole(&ended, allowance);
                    (most, price, spent) = (live + allowance, cost, 0);
                }
                prop_assert!(generations.rest <= LONGEST);
            }
        }
    }
}
