//! The worlds that the tests and the figures are made from. Each program allocates 100 MiB a second and
//! goes through half of its live data again and again.

use super::{Behaviour, Costs, Hog, Outcome, Plan, Signal, World};
use plimsoll_policy::sizing::{All, IslaVista, Ratios};
use plimsoll_unit::{MIB, SECOND};

/// Initial size of heaps with Isla Vista, bytes.
const BEGIN: u64 = 64 * MIB;
/// The maximum of heaps that may take more than there is, bytes.
pub const LARGE: u64 = 512 * MIB;
/// More room than any heap here can take, bytes.
const PLENTY: u64 = 1 << 40;

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
    /// Live bytes of each.
    pub live: u64,
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
                Plan::SemiSpace => 24 * MIB,
                _ => 40 * MIB,
            },
            gives_back: false,
        }
    }

    /// The same with another rule.
    pub fn with(self, rule: Rule) -> Setup {
        Setup { rule, ..self }
    }

    /// One program that allocates 6 GiB, with a heap of at most `most` bytes. `room`: its memory, bytes,
    /// or all that it wants.
    pub fn alone(&self, most: u64, room: Option<u64>) -> Outcome {
        let world = World::new(room.unwrap_or(PLENTY), self.costs);
        let world = self.join(world, 0, most, 6 << 30);
        world.run(u64::MAX).pop().unwrap_or_default()
    }

    /// The same in a memory of 600 MiB, where files that others read take all that would be free.
    pub fn among_files(&self, most: u64) -> Outcome {
        let world = World::new(600 * MIB, self.costs).files();
        let world = self.join(world, 0, most, 6 << 30);
        world.run(u64::MAX).pop().unwrap_or_default()
    }

    /// Four programs in 576 MiB for 300 s, each with a heap of at most `most` bytes. They start one after
    /// the other, within 20 s.
    pub fn four(&self, most: u64) -> Vec<Outcome> {
        let mut world = World::new(576 * MIB, self.costs);
        for start in [0, 3, 10, 20] {
            world = self.join(world, start * SECOND, most, u64::MAX);
        }
        world.run(300 * SECOND)
    }

    /// One program in 340 MiB for 600 s. A hog takes 200 MiB for a minute out of two, from second 30 on.
    pub fn beside_a_hog(&self, most: u64) -> Outcome {
        let steps = (0..5u64).flat_map(|turn| {
            let at = (30 + 120 * turn) * SECOND;
            [(at, 200 * MIB), (at + 60 * SECOND, 0)]
        });
        let world = World::new(340 * MIB, self.costs).hog(Hog {
            steps: steps.collect(),
            rate: 200 * MIB,
        });
        let world = self.join(world, 0, most, u64::MAX);
        world.run(600 * SECOND).pop().unwrap_or_default()
    }

    fn join(&self, world: World, start: u64, most: u64, work: u64) -> World {
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
