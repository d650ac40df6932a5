//! Which collections look at young objects only: where they are worth it, within the memory that
//! whole ones would take, and for no longer than they cost what a whole one costs.
//!
//! A collection of young objects leaves what died among the old. So after a whole one it is settled
//! how much may live and be allocated until the next whole one, and no more. Whether to rent or to
//! buy is decided as ever: when the rent paid comes to the price, at most twice the least is spent
//! (Karlin and others, 1988).

/// What a collection left. Bytes, and a cost in ns.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// What it cost, with what tracking writes cost the program since the last.
    pub cost: u64,
    /// What lives, as far as it is known.
    pub live: u64,
    /// What was allocated since the last.
    pub allocated: u64,
}

/// The last whole collection.
#[derive(Clone, Copy, Debug)]
struct Whole {
    cost: u64,
    /// What may live and be allocated in all until the next whole one.
    most: u64,
    allowance: u64,
}

/// Decides for one heap.
#[derive(Clone, Debug, Default)]
pub struct Generations {
    whole: Option<Whole>,
    /// Collections of young objects since, and what they cost.
    count: u32,
    spent: u64,
    live: u64,
    /// Of what was allocated before the last collection, the part that lived, of 1.
    survival: f64,
    /// For so many collections none is of young objects: they were not worth it.
    rest: u32,
    /// How long the last rest was, and the survival that led to it.
    rested: u32,
    failed: f64,
}

/// The room that a collection of young objects has to be expected to leave, as a part of what a
/// whole one left.
const LEAST_ROOM: f64 = 1.0 / 3.0;

/// Where more than this lives of what is new, writes are not tracked. A little more than leaves
/// that room: it is known about only, and to track what is not written to costs little.
const MOST_SURVIVAL: f64 = 0.8;

/// The longest rest, in collections.
const LONGEST: u32 = 16;

impl Generations {
    /// Whether the next collection may be one of young objects, so that writes are worth to be
    /// tracked, when about this part of what was allocated before this one lives.
    pub fn may_be_young(&self, survival: f64) -> bool {
        self.rest == 0 && survival <= MOST_SURVIVAL
    }

    /// Whether the collection that begins is to be of young objects, when so much was allocated
    /// since the last: it will leave room that is worth it.
    pub fn is_young(&self, allocated: u64) -> bool {
        let survivors = (self.survival * allocated as f64) as u64;
        let live = self.live.saturating_add(survivors);
        self.whole.is_some_and(|whole| {
            self.rest == 0
                && self.spent < whole.cost
                && whole.most.saturating_sub(live) as f64 >= whole.allowance as f64 * LEAST_ROOM
        })
    }

    /// Collections of young objects since the last whole one.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// What collections cost lately, each: one that ended just now, which is not noted yet, those
    /// of young objects since the last whole one, and that, if the new one is not whole itself.
    pub fn mean_cost(&self, young: bool, cost: u64) -> u64 {
        let whole = self.whole.filter(|_| young);
        let before = whole.map_or(0, |whole| whole.cost);
        let sum = cost.saturating_add(self.spent).saturating_add(before);
        sum / u64::from(self.count + 1 + u32::from(whole.is_some()))
    }

    /// A whole collection ended, and so much may be allocated until the next.
    pub fn after_whole(&mut self, ended: &Ended, allowance: u64) {
        self.note(ended);
        (self.count, self.spent) = (0, 0);
        self.whole = Some(Whole {
            cost: ended.cost,
            most: ended.live.saturating_add(allowance),
            allowance,
        });
    }

    /// One of young objects ended; what may be allocated until the next.
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
        self.rest = self.rest.saturating_sub(1);
        if self.survival < self.failed / 2.0 {
            // That was another time: a heap that grew, most often.
            (self.rest, self.rested, self.failed) = (0, 0, 0.0);
        }
    }

    /// Rests where a byte of room cost more than with a whole collection, each time for longer.
    fn judge(&mut self, whole: &Whole, cost: u64, room: u64) {
        let paid = u128::from(cost) * u128::from(whole.allowance);
        let worth = u128::from(whole.cost) * u128::from(room);
        if paid <= worth {
            self.rested = 0;
        } else {
            self.rested = (self.rested * 2).clamp(1, LONGEST);
            self.rest = self.rested;
            self.failed = self.survival;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// After a whole collection that cost 1000 and left room for 500.
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

    /// After two whole collections between which nothing came to live.
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
        /// Between two whole collections less is allocated and lives than the first left room for,
        /// and what is spent is less than the price and one rent.
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
