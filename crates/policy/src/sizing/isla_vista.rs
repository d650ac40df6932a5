//! Isla Vista heap sizing (Grzegorczyk, Soman, Krintz and Wolski, section 3.3). It derives the
//! limit of a heap from allocation stalls (whether the kernel stalled the collector's allocations
//! of pages), as TCP Reno derives its window from lost packets.
//!
//! After a collection without stalls the limit grows by a step. After one with stalls it shrinks to
//! what the last collection without stalls walked through, and later steps are smaller. Nursery and full
//! collections count alike. These points differ from the paper; `docs/src/isla-vista.md` shows what each
//! of them is worth in the model of `plimsoll_sim::paging`:
//!
//! - In the paper steps only shrink, so a heap that met one spike hardly grows again. Here the base
//!   of the steps recovers a fraction of its loss at each collection without stalls.
//! - The paper's limit after a stall is the size of the last nursery, or the live data where that
//!   is more. Where little lives, this is hardly less than before; where much lives, it leaves no
//!   nursery at all, however few pages the kernel waited for. Here the limit loses
//!   [`cut`](super::Parameters::cut) of what may be allocated, and at least
//!   [`least`](super::Parameters::least) of the live data may still be allocated.
//! - In the paper a stall is a stall. Here it counts by the part of the collection's time that it took: a
//!   smaller heap costs more collections, so it must save more than they cost. Stalls that cost the
//!   program next to nothing are none; a heap that stalls a little grows by smaller steps, or stands still.
//! - After a nursery collection the paper takes the whole mature space for live data, because it knows no
//!   more. As a least size that would grow with the garbage in it and never let a full collection be due.
//!   Here the limit may fall below what is in use: then a full collection is due, and finds out.
//! - Where the live data alone do not fit, each collection pages, so a small heap pages most. Here a heap of
//!   the least size that is stalled all the same becomes larger, up to
//!   [`in_vain`](super::Parameters::in_vain).

use super::{Ended, Kind, Ratios, Sizing};
use plimsoll_unit::{Bytes, Nanos};

/// This many collections of a heap of the least size must be stalled, one after the other, before the least
/// size grows. The first ones may only bring back what went to swap before.
const TRIES: u32 = 4;

/// A heap's limit, from one collection to the next.
#[derive(Clone, Debug)]
pub struct IslaVista {
    ratios: Ratios,
    /// The most that the limit may ever be.
    most: Bytes,
    limit: Bytes,
    /// The memory that surely lives: found by the last full collection, and no more than was in use
    /// after the last nursery collection; 0 before the first full collection.
    live: Bytes,
    /// A full collection has ended.
    examined: bool,
    /// The limit and the memory in use at the last collection without stalls.
    last_limit: Bytes,
    last_reserved: Bytes,
    /// The base of steps, bytes: each is a fraction of it.
    step_base: f64,
    /// Least allocation between two collections, as a fraction of the live data.
    least: f64,
    /// Collections of a heap of the least size that were stalled, one after the other.
    in_vain: u32,
    /// When the last collection ended, or the heap began.
    ended: Nanos,
}

impl IslaVista {
    /// A heap that starts with `limit` and may grow to `most`, at time 0.
    pub fn new(ratios: Ratios, limit: Bytes, most: Bytes) -> IslaVista {
        let limit = limit.min(most);
        IslaVista {
            ratios,
            most,
            limit,
            live: Bytes::ZERO,
            examined: false,
            last_limit: limit,
            last_reserved: Bytes::ZERO,
            step_base: (most - limit).0 as f64,
            least: ratios.parameters().least,
            in_vain: 0,
            ended: Nanos::ZERO,
        }
    }

    /// The heap begins at this time instead.
    #[must_use]
    pub fn beginning(self, now: Nanos) -> IslaVista {
        IslaVista { ended: now, ..self }
    }

    /// The part of the collection's time, from 0 to 1, that stalls took if they matter. They do not where
    /// they cost the program so little of its time since the last collection that no smaller heap is worth
    /// it. Where nobody measured them, they may have cost anything.
    fn stalled(&self, ended: &Ended) -> f64 {
        let since = (ended.now - self.ended).0 as f64;
        if ended.stalled > Nanos::ZERO
            && ended.stalled.0 as f64 <= since * self.ratios.parameters().ignored
        {
            0.0
        } else {
            ended.stalled_part()
        }
    }

    /// After a collection that left `used` in use. `part`: of a step, above 0 to 1.
    fn grow(&mut self, used: Bytes, part: f64) {
        let ratios = self.ratios.parameters();
        self.last_limit = self.limit;
        self.last_reserved = used;
        self.in_vain = 0;
        self.least = (self.least * 0.75).max(ratios.least);
        let full = (self.most - self.live).0 as f64;
        self.step_base += (full - self.step_base).max(0.0) * ratios.recover * part;
        let step = Bytes((self.step_base * ratios.grow * part) as u64);
        self.limit = (self.limit + step).min(self.most);
    }

    /// After a collection with stalls of this weight, from 0 to 1, that left `used` in use.
    fn shrink(&mut self, used: Bytes, weight: f64) {
        let ratios = self.ratios.parameters();
        if weight == 0.0 {
            return;
        }
        self.limit = match ratios.cut {
            Some(part) => {
                let base = if self.examined { self.live } else { used };
                let nursery = (self.limit - base).0 as f64;
                self.limit - Bytes((nursery * part * weight) as u64)
            }
            None => {
                let nursery = self.last_limit - self.last_reserved;
                self.limit.min(nursery.max(self.last_reserved))
            }
        };
        self.step_base -= self.step_base * ratios.shrink * weight;
        if self.limit > self.floor() {
            return;
        }
        self.in_vain += 1;
        if self.in_vain >= TRIES {
            self.in_vain = 0;
            self.least = (self.least * 2.0).min(ratios.in_vain);
        }
    }

    /// The least limit.
    fn floor(&self) -> Bytes {
        self.live + Bytes((self.live.0 as f64 * self.least) as u64)
    }
}

/// The corrected rule, as large as its bound until the first stall.
impl Default for IslaVista {
    fn default() -> IslaVista {
        IslaVista::new(Ratios::MENDED, Bytes::MAX, Bytes::MAX)
    }
}

impl Sizing for IslaVista {
    fn bounded(&mut self, most: Bytes) {
        self.most = most;
        self.limit = self.limit.min(most);
        self.step_base = self.step_base.min(most.0 as f64);
    }

    fn ended(&mut self, ended: &Ended) {
        self.live = match ended.kind {
            Kind::Full => ended.live,
            Kind::Nursery => self.live.min(ended.live),
        };
        self.examined |= ended.kind == Kind::Full;
        let stalled = self.stalled(ended);
        self.ended = ended.now;
        let growth = self.ratios.growth(stalled);
        if growth > 0.0 {
            self.grow(ended.live, growth);
        } else {
            self.shrink(ended.live, self.ratios.weight(stalled));
        }
        self.limit = self.limit.max(self.floor()).min(self.most.max(self.live));
    }

    /// At least what lives, even above the bound.
    fn size(&self) -> Bytes {
        self.limit.max(self.live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use plimsoll_unit::MIB;

    /// The limit after a collection.
    fn after(sizing: &mut IslaVista, stalls: u64, live: Bytes) -> Bytes {
        sizing.ended(&Ended {
            stalls,
            live,
            ..Ended::default()
        });
        sizing.size()
    }

    /// Runs collections of a heap in a memory of `room`, with stalls whenever the limit
    /// exceeds it. Returns the limits.
    fn run(sizing: &mut IslaVista, room: Bytes, live: Bytes, collections: usize) -> Vec<Bytes> {
        (0..collections)
            .map(|_| {
                let stalls = u64::from(sizing.size() > room);
                after(sizing, stalls, live)
            })
            .collect()
    }

    #[test]
    fn it_grows_in_steps_of_a_fiftieth_of_what_there_was_to_grow() {
        let mut sizing = IslaVista::new(Ratios::PAPER, Bytes::mib(100), Bytes::mib(600));
        assert_eq!(after(&mut sizing, 0, Bytes::mib(40)), Bytes::mib(110));
        assert_eq!(after(&mut sizing, 0, Bytes::mib(40)), Bytes::mib(120));
        // The limit falls to the last nursery, which was below 110 MiB with 40 MiB alive. Steps are
        // a quarter from now on.
        assert_eq!(after(&mut sizing, 3, Bytes::mib(50)), Bytes::mib(70));
        assert_eq!(after(&mut sizing, 0, Bytes::mib(50)), Bytes::mib(145) / 2);
    }

    #[test]
    fn the_paper_never_grows_back_and_the_mended_one_does() {
        let after_spike = |ratios| {
            let mut sizing = IslaVista::new(ratios, Bytes::mib(64), Bytes::mib(1024));
            run(&mut sizing, Bytes::mib(100), Bytes::mib(40), 60);
            *run(&mut sizing, Bytes::MAX, Bytes::mib(40), 200)
                .last()
                .unwrap()
        };
        assert!(after_spike(Ratios::PAPER) < Bytes::mib(200));
        assert_eq!(after_spike(Ratios::MENDED), Bytes::mib(1024));
    }

    #[test]
    fn a_stall_takes_a_part_of_the_nursery_however_much_lives() {
        let after_stall = |ratios, live: u64| {
            let mut sizing = IslaVista::new(ratios, Bytes::mib(160), Bytes::mib(160));
            after(&mut sizing, 0, Bytes::mib(live));
            after(&mut sizing, 1, Bytes::mib(live)).0 / MIB
        };
        assert_eq!(after_stall(Ratios::PAPER, 100), 100, "none is left");
        assert_eq!(after_stall(Ratios::MENDED, 100), 130);
        assert_eq!(after_stall(Ratios::PAPER, 20), 140);
        assert_eq!(after_stall(Ratios::MENDED, 20), 90);
    }

    /// The limit after the second collection in a second, which took 5 ms and was stalled for `stalled` of
    /// them.
    fn after_stalled(ratios: Ratios, stalled: Nanos) -> u64 {
        let mut sizing = IslaVista::new(ratios, Bytes::mib(100), Bytes::mib(600));
        let mut ended = Ended {
            now: Nanos::seconds(1),
            took: Nanos::millis(5),
            live: Bytes::mib(40),
            ..Ended::default()
        };
        sizing.ended(&ended);
        ended.now += Nanos::seconds(1);
        (ended.stalls, ended.stalled) = (1, stalled);
        ended.took += stalled;
        sizing.ended(&ended);
        sizing.size().0 / MIB
    }

    #[test]
    fn twenty_microseconds_cost_nothing_and_two_hundred_milliseconds_half() {
        assert_eq!(
            after_stalled(Ratios::MENDED, Nanos(20_000)),
            120,
            "grows on"
        );
        assert_eq!(after_stalled(Ratios::MENDED, Nanos::millis(200)), 75);
        assert_eq!(after_stalled(Ratios::PAPER, Nanos(20_000)), 60);
        assert_eq!(after_stalled(Ratios::PAPER, Nanos::millis(200)), 60);
    }

    /// A program that starts reads files, and may wait a little for memory meanwhile.
    #[test]
    fn the_time_before_the_first_collection_counts_as_all_other_time() {
        let after_first = |stalled| {
            let mut sizing = IslaVista::new(Ratios::MENDED, Bytes::mib(100), Bytes::mib(600));
            sizing = sizing.beginning(Nanos::seconds(1));
            sizing.ended(&Ended {
                now: Nanos::seconds(61),
                took: Nanos::millis(20),
                live: Bytes::mib(40),
                stalls: 1,
                stalled,
                ..Ended::default()
            });
            sizing.size().0 / MIB
        };
        assert_eq!(after_first(Nanos::millis(30)), 110, "a 2000th of the time");
        assert_eq!(after_first(Nanos::seconds(3)), 70);
    }

    /// The mature space is full of garbage, and nobody knows how much.
    #[test]
    fn a_stalled_nursery_collection_makes_a_full_one_due() {
        let mut sizing = IslaVista::new(Ratios::MENDED, Bytes::mib(160), Bytes::mib(160));
        let mut ended = |kind, stalls, live: u64| {
            let live = Bytes::mib(live);
            sizing.ended(&Ended {
                kind,
                stalls,
                live,
                ..Ended::default()
            });
            sizing.size().0 / MIB
        };
        assert_eq!(ended(Kind::Nursery, 1, 60), 110, "nothing else is known");
        assert_eq!(ended(Kind::Full, 0, 40), 110);
        assert_eq!(ended(Kind::Nursery, 0, 100), 110);
        assert_eq!(ended(Kind::Nursery, 1, 100), 75, "below what is in use");
        assert_eq!(ended(Kind::Nursery, 1, 30), 52, "less than 40 MiB live");
    }

    #[test]
    fn a_least_heap_that_is_stalled_in_vain_becomes_larger() {
        let mut sizing = IslaVista::new(Ratios::MENDED, Bytes::mib(128), Bytes::mib(512));
        let sizes: Vec<u64> = (0..30)
            .map(|_| after(&mut sizing, 1, Bytes::mib(100)).0 / MIB)
            .collect();
        assert_eq!(sizes[..3], [125, 125, 125]);
        assert_eq!((sizes[5], *sizes.last().unwrap()), (150, 200));
        for _ in 0..200 {
            after(&mut sizing, 0, Bytes::mib(100));
        }
        let again = after(&mut sizing, 1, Bytes::mib(100)).0 / MIB;
        assert!((125..512).contains(&again), "{again}");
    }

    fn ratios() -> impl Strategy<Value = Ratios> {
        prop_oneof![
            Just(Ratios::PAPER),
            Just(Ratios::MENDED),
            Just(Ratios::ALL_TIME),
            Just(Ratios::DROP_IN)
        ]
    }

    proptest! {
        #[test]
        fn it_stays_between_what_lives_and_the_most(
            collections in proptest::collection::vec(
                (0u64..3, 0u64..2000, any::<bool>(), (0u64..1 << 32).prop_map(Nanos)),
                1..200,
            ),
            begin in 0u64..2000,
            most in 1u64..2000,
            ratios in ratios(),
        ) {
            let mut sizing = IslaVista::new(ratios, Bytes::mib(begin), Bytes::mib(most));
            let mut now = Nanos::ZERO;
            for (stalls, live, full, stalled) in collections {
                let kind = if full { Kind::Full } else { Kind::Nursery };
                now += stalled;
                let took = stalled / 2;
                let live = Bytes::mib(live);
                sizing.ended(&Ended { now, took, kind, live, stalls, stalled, ..Ended::default() });
                prop_assert!(!full || sizing.size() >= live);
                prop_assert!(sizing.size() <= (Bytes::mib(most)).max(live));
            }
        }

        /// Once it has found the available room, it rarely exceeds it and uses most of it.
        #[test]
        fn it_finds_the_room_there_is(room in 100u64..900, live in 1u64..50) {
            let mut sizing = IslaVista::new(Ratios::MENDED, Bytes::mib(64), Bytes::mib(1024));
            run(&mut sizing, Bytes::mib(room), Bytes::mib(live), 400);
            let limits = run(&mut sizing, Bytes::mib(room), Bytes::mib(live), 400);
            let above = limits.iter().filter(|&&limit| limit > Bytes::mib(room)).count();
            let mean = limits.iter().copied().sum::<Bytes>().0 / limits.len() as u64 / MIB;
            prop_assert!(above * 10 <= limits.len(), "{above} of {}", limits.len());
            prop_assert!(mean * 10 >= room * 5, "{mean} of {room}");
            let highest = limits.iter().max().unwrap().0 / MIB;
            prop_assert!(highest * 10 <= room * 11, "{highest} of {room}");
        }

        /// However long a spike lasted and however deep it was, the heap is whole again afterwards.
        #[test]
        fn it_recovers_after_a_spike(spike in 1usize..400, room in 50u64..1000, live in 1u64..40) {
            let mut sizing = IslaVista::new(Ratios::MENDED, Bytes::mib(1024), Bytes::mib(1024));
            run(&mut sizing, Bytes::mib(room), Bytes::mib(live), spike);
            let calm = run(&mut sizing, Bytes::MAX, Bytes::mib(live), 250);
            prop_assert_eq!(calm.last(), Some(&(Bytes::mib(1024))));
        }

        /// A longer stall never leaves a larger heap.
        #[test]
        fn a_longer_stall_costs_no_less(one in 1u64..400_000_000, other in 1u64..400_000_000) {
            let (short, long) = (Nanos(one.min(other)), Nanos(one.max(other)));
            for ratios in [Ratios::PAPER, Ratios::MENDED] {
                prop_assert!(after_stalled(ratios, short) >= after_stalled(ratios, long));
            }
        }
    }
}
