//! The worlds that the tests and the figures are made from. Each program allocates 100 MiB a second and
//! goes through half of its live data again and again.

use super::{Behaviour, Costs, Hog, Outcome, Plan, Signal, World};
use plimsoll_policy::sizing::{All, IslaVista, Ratios};
use plimsoll_unit::{Bytes, MIB, Nanos};

/// Initial size of heaps with Isla Vista.
const BEGIN: Bytes = Bytes::mib(64);
/// The maximum of heaps that may take more than there is.
pub const LARGE: Bytes = Bytes::mib(512);
/// More room than any heap here can take.
const PLENTY: Bytes = Bytes(1 << 40);

/// The memory that a program allocates when it runs alone.
const WORK: Bytes = Bytes::mib(6 << 10);

/// The rule that sizes a heap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// The heap is what its maximum allows, at once.
    Maximum,
    /// Isla Vista.
    IslaVista(Ratios),
}

/// The common settings of all programs of a world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// How their heaps collect.
    pub plan: Plan,
    /// Costs of paging.
    pub costs: Costs,
    /// How their heaps are sized.
    pub rule: Rule,
    /// The stalls that the rule is told of.
    pub signal: Signal,
    /// The live data of each.
    pub live: Bytes,
    /// Whether they give back what they will not use until the next collection.
    pub gives_back: bool,
}

impl Setup {
    /// Programs whose live data take 40 MiB of their heap (48 MiB with their copies), on a solid-state disk.
    pub fn new(plan: Plan, rule: Rule) -> Setup {
        Setup {
            plan,
            costs: Costs::SOLID_STATE,
            rule,
            signal: Signal::Between,
            live: match plan {
                Plan::SemiSpace => Bytes::mib(24),
                _ => Bytes::mib(40),
            },
            gives_back: false,
        }
    }

    /// The same with another rule.
    pub fn with(self, rule: Rule) -> Setup {
        Setup { rule, ..self }
    }

    /// One program that allocates 6 GiB, with a heap of at most `most`. `room`: its memory, or
    /// all that it wants.
    pub fn alone(&self, most: Bytes, room: Option<Bytes>) -> Outcome {
        let world = World::new(room.unwrap_or(PLENTY), self.costs);
        let world = self.join(world, Nanos::ZERO, most, WORK);
        world.run(Nanos(u64::MAX)).pop().unwrap_or_default()
    }

    /// The same in a memory of 600 MiB, where files that others read take all that would be free.
    pub fn among_files(&self, most: Bytes) -> Outcome {
        let world = World::new(Bytes::mib(600), self.costs).files();
        let world = self.join(world, Nanos::ZERO, most, WORK);
        world.run(Nanos(u64::MAX)).pop().unwrap_or_default()
    }

    /// Four programs in 576 MiB for 300 s, each with a heap of at most `most`. They start one after
    /// the other, within 20 s.
    pub fn four(&self, most: Bytes) -> Vec<Outcome> {
        let mut world = World::new(Bytes::mib(576), self.costs);
        for start in [0, 3, 10, 20] {
            world = self.join(world, Nanos::seconds(start), most, Bytes::MAX);
        }
        world.run(Nanos::seconds(300))
    }

    /// One program in 340 MiB for 600 s. A hog takes 200 MiB for a minute out of two, from second 30 on.
    pub fn beside_a_hog(&self, most: Bytes) -> Outcome {
        let steps = (0..5u64).flat_map(|turn| {
            let at = Nanos::seconds(30 + 120 * turn);
            [
                (at, Bytes::mib(200)),
                (at + Nanos::seconds(60), Bytes::ZERO),
            ]
        });
        let world = World::new(Bytes::mib(340), self.costs).hog(Hog {
            steps: steps.collect(),
            rate: 200 * MIB,
        });
        let world = self.join(world, Nanos::ZERO, most, Bytes::MAX);
        world.run(Nanos::seconds(600)).pop().unwrap_or_default()
    }

    fn join(&self, world: World, start: Nanos, most: Bytes, work: Bytes) -> World {
        let behaviour = Behaviour {
            plan: self.plan,
            live: self.live,
            hot: 0.5,
            reach: 4,
            rate: 100 * MIB,
            survive: 0.1,
            turnover: 0.05,
            work,
            most,
            gives_back: self.gives_back,
            signal: self.signal,
        };
        match self.rule {
            Rule::Maximum => world.program(behaviour, start, All::default()),
            Rule::IslaVista(ratios) => {
                let policy = IslaVista::new(ratios, BEGIN, most).beginning(start);
                world.program(behaviour, start, policy)
            }
        }
    }
}
