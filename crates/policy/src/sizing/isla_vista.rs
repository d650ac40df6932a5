//! Isla Vista heap sizing (Grzegorczyk, Soman, Krintz and Wolski, section 3.3). It derives the
//! limit of a heap from allocation stalls (whether the kernel stalled the collector's allocations
//! of pages), as TCP Reno derives its window from lost packets.
//!
//! After a collection without stalls the limit grows by a step. After one with stalls it shrinks to
//! what the last collection without stalls walked through, and later steps are smaller. Two points
//! differ from the paper:
//!
//! - In the paper steps only shrink, so a heap that met one spike hardly grows again. Here the base
//!   of the steps recovers a fraction of its loss at each collection without stalls.
//! - The paper's limit after a stall is the size of the last nursery, or the live data where that
//!   is more. Where little lives, this is hardly less than before; where much lives, it leaves no
//!   nursery at all, however few pages the kernel waited for. Here the limit loses
//!   [`Ratios::cut`] of what may be allocated, and at least [`Ratios::least`] of the live data
//!   may still be allocated.

use super::{Ended, Kind, Ratios, Sizing};

/// A heap's limit, in bytes, from one collection to the next.
#[derive(Clone, Debug)]
pub struct IslaVista {
    ratios: Ratios,
    /// The most that the limit may ever be.
    most: u64,
    limit: u64,
    /// Bytes that surely live: those found by the last full collection, and no more than were in use after
    /// the last nursery collection; 0 before the first full collection.
    live: u64,
    /// A full collection has ended.
    examined: bool,
    /// The limit and the bytes in use at the last collection without stalls.
    last_limit: u64,
    last_reserved: u64,
    step_base: f64,
}

impl IslaVista {
    /// A heap that starts with `limit` bytes and may grow to `most` bytes.
    pub fn new(ratios: Ratios, limit: u64, most: u64) -> IslaVista {
        let limit = limit.min(most);
        IslaVista {
            ratios,
            most,
            limit,
            live: 0,
            examined: false,
            last_limit: limit,
            last_reserved: 0,
            step_base: (most - limit) as f64,
        }
    }

    /// After a collection without stalls that left `used` bytes in use.
    fn grow(&mut self, used: u64) {
        let ratios = self.ratios.parameters();
        self.last_limit = self.limit;
        self.last_reserved = used;
        let full = self.most.saturating_sub(self.live) as f64;
        self.step_base += (full - self.step_base).max(0.0) * ratios.recover;
        let step = (self.step_base * ratios.grow) as u64;
        self.limit = self.limit.saturating_add(step).min(self.most);
    }

    /// After a collection with stalls of this weight, from 0 to 1, that left `used` bytes in use.
    fn shrink(&mut self, used: u64, weight: f64) {
        let ratios = self.ratios.parameters();
        self.limit = match ratios.cut {
            Some(part) => {
                let base = if self.examined { self.live } else { used };
                let nursery = self.limit.saturating_sub(base) as f64;
                self.limit - (nursery * part * weight) as u64
            }
            None => {
                let nursery = self.last_limit.saturating_sub(self.last_reserved);
                self.limit.min(nursery.max(self.last_reserved))
            }
        };
        self.step_base -= self.step_base * ratios.shrink * weight;
    }
}

/// The corrected rule, as large as its bound until the first stall.
impl Default for IslaVista {
    fn default() -> IslaVista {
        IslaVista::new(Ratios::MENDED, u64::MAX, u64::MAX)
    }
}

impl Sizing for IslaVista {
    fn bounded(&mut self, most: u64) {
        self.most = most;
        self.limit = self.limit.min(most);
        self.step_base = self.step_base.min(most as f64);
    }

    fn ended(&mut self, ended: &Ended) {
        self.live = match ended.kind {
            Kind::Full => ended.live,
            Kind::Nursery => self.live.min(ended.live),
        };
        self.examined |= ended.kind == Kind::Full;
        let stalled = ended.stalled_part();
        if stalled == 0.0 {
            self.grow(ended.live);
        } else {
            self.shrink(ended.live, self.ratios.weight(stalled));
        }
        let least = (self.live as f64 * self.ratios.parameters().least) as u64;
        let least = self.live.saturating_add(least);
        self.limit = self.limit.max(least).min(self.most.max(self.live));
    }

    /// At least what lives, even above the bound.
    fn size(&self) -> u64 {
        self.limit.max(self.live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    /// The limit after a collection.
    fn after(sizing: &mut IslaVista, stalls: u64, live: u64) -> u64 {
        sizing.ended(&Ended {
            stalls,
            live,
            ..Ended::default()
        });
        sizing.size()
    }

    /// Runs collections of a heap in a memory of `room` bytes, with stalls whenever the limit
    /// exceeds it. Returns the limits.
    fn run(sizing: &mut IslaVista, room: u64, live: u64, collections: usize) -> Vec<u64> {
        (0..collections)
            .map(|_| {
                let stalls = u64::from(sizing.size() > room);
                after(sizing, stalls, live)
            })
            .collect()
    }

    #[test]
    fn it_grows_in_steps_of_a_fiftieth_of_what_there_was_to_grow() {
        let mut sizing = IslaVista::new(Ratios::PAPER, 100 * MIB, 600 * MIB);
        assert_eq!(after(&mut sizing, 0, 40 * MIB), 110 * MIB);
        assert_eq!(after(&mut sizing, 0, 40 * MIB), 120 * MIB);
        // The limit falls to the last nursery, which was below 110 MiB with 40 MiB alive. Steps are
        // a quarter from now on.
        assert_eq!(after(&mut sizing, 3, 50 * MIB), 70 * MIB);
        assert_eq!(after(&mut sizing, 0, 50 * MIB), 70 * MIB + 5 * MIB / 2);
    }

    #[test]
    fn the_paper_never_grows_back_and_the_mended_one_does() {
        let after_spike = |ratios| {
            let mut sizing = IslaVista::new(ratios, 64 * MIB, 1024 * MIB);
            run(&mut sizing, 100 * MIB, 40 * MIB, 60);
            *run(&mut sizing, u64::MAX, 40 * MIB, 200).last().unwrap()
        };
        assert!(after_spike(Ratios::PAPER) < 200 * MIB);
        assert_eq!(after_spike(Ratios::MENDED), 1024 * MIB);
    }

    #[test]
    fn a_stall_takes_a_part_of_the_nursery_however_much_lives() {
        let after_stall = |ratios, live: u64| {
            let mut sizing = IslaVista::new(ratios, 160 * MIB, 160 * MIB);
            after(&mut sizing, 0, live * MIB);
            after(&mut sizing, 1, live * MIB) / MIB
        };
        assert_eq!(after_stall(Ratios::PAPER, 100), 100, "none is left");
        assert_eq!(after_stall(Ratios::MENDED, 100), 145);
        assert_eq!(after_stall(Ratios::PAPER, 20), 140);
        assert_eq!(after_stall(Ratios::MENDED, 20), 125);
    }

    proptest! {
        #[test]
        fn it_stays_between_what_lives_and_the_most(
            collections in proptest::collection::vec((0u64..3, 0u64..2000), 1..200),
            begin in 0u64..2000,
            most in 1u64..2000,
            mended in any::<bool>(),
        ) {
            let ratios = if mended { Ratios::MENDED } else { Ratios::PAPER };
            let mut sizing = IslaVista::new(ratios, begin * MIB, most * MIB);
            for (stalls, live) in collections {
                let limit = after(&mut sizing, stalls, live * MIB);
                prop_assert!(limit >= live * MIB);
                prop_assert!(limit <= (most * MIB).max(live * MIB));
            }
        }

        /// Once it has found the available room, it rarely exceeds it and uses most of it.
        #[test]
        fn it_finds_the_room_there_is(room in 100u64..900, live in 1u64..50) {
            let mut sizing = IslaVista::new(Ratios::MENDED, 64 * MIB, 1024 * MIB);
            run(&mut sizing, room * MIB, live * MIB, 200);
            let limits = run(&mut sizing, room * MIB, live * MIB, 400);
            let above = limits.iter().filter(|&&limit| limit > room * MIB).count();
            let mean = limits.iter().sum::<u64>() / limits.len() as u64 / MIB;
            prop_assert!(above * 4 <= limits.len(), "{above} of {}", limits.len());
            prop_assert!(mean * 10 >= room * 5, "{mean} of {room}");
        }
    }
}
