//! The worlds of the evaluation in "Operating System Support for General-Purpose Memory-Adaptive
//! Applications" (Walfield, section 5), only the experiments with heaps: the benchmark alone, with and
//! without a memory hog (5.1), and three copies of it with weights 10, 40 and 20 that start one after the
//! other (5.2).

use super::{Entrant, Error, Hog, Outcome, Policy, Setup, simulate};
use crate::paging::Costs;
use crate::threads::heap::Algorithm;
use crate::threads::{self, Program, ReadError, Settings, Stream};
use plimsoll_policy::phases::Rule;
use plimsoll_trace::{Event, ObjectId, ThreadId};
use plimsoll_unit::{Bytes, MIB, Nanos};
use plimsoll_wire::messages::{Priority, Weight};

/// The memory: with it the broker shares out about the 1640 MB that are "initially available" (5.1.1).
pub const MEMORY: Bytes = Bytes::mib(1704);
/// The heap of the fixed scheduler: what is available without a hog (5.1.1).
const FIXED: Bytes = Bytes::mib(1640);
/// A heap that stands for the collector's own rule, which lets a third of twice the live data be allocated
/// between two collections (5.1). The real rule follows the live data, so it collects twice as often.
const OWN_RULE: Bytes = Bytes::mib(16);

/// Iterations of the benchmark (5.1.1).
pub const ITERATIONS: u64 = 400;
/// Bytes of an object of the model: the blocks of the memory are as large. Trees are larger or smaller.
const CHUNK: u64 = 256 << 10;
/// Bytes that stay: a tree of depth 16 and an array.
const STAYS: u64 = 8 * MIB;
/// Depths of the trees that an iteration builds: from 4 to 16 in steps of 2.
const DEPTHS: u64 = 7;
/// Chunks that an iteration builds: for each depth, four times the nodes of a tree of depth 18, of 32 bytes.
const BUILT: u64 = DEPTHS * 256;
/// Computing for each allocated byte, picoseconds: 275 s in 400 iterations (Table 2 without collections).
const PER_BYTE: u64 = 1463;
/// Marking a live byte, picoseconds: 208.4 s in 43881 collections of about 10 MiB (Table 2).
const MARKED: u64 = 450;

/// The garbage collection benchmark of John Ellis and Pete Kovac in chunks: what it allocates, how long
/// each chunk lives, how long it computes. One thread.
#[derive(Clone, Debug, Default)]
pub struct Trees {
    /// Iterations.
    iterations: u64,
    /// The next chunk, and which of its events comes next: allocation, computing, then deaths.
    chunk: u64,
    part: u64,
    /// The oldest temporary chunk that may still live.
    oldest: u64,
}

impl Trees {
    /// The benchmark, with this many iterations.
    pub fn new(iterations: u64) -> Trees {
        Trees {
            iterations,
            oldest: STAYS / CHUNK,
            ..Trees::default()
        }
    }

    /// Number of chunks in this chunk's tree; the small trees of a chunk count as one.
    fn tree(chunk: u64) -> u64 {
        let depth = 4 + 2 * (chunk % BUILT / (BUILT / DEPTHS));
        ((1u64 << (depth + 1)) * 32 / CHUNK).max(1)
    }
}

impl Program for Trees {
    fn streams(&self) -> Vec<Stream> {
        vec![Stream {
            thread: ThreadId(0),
            is_started: false,
        }]
    }

    fn next(&mut self, _stream: usize) -> Result<Option<Event>, ReadError> {
        let stays = STAYS / CHUNK;
        let last = stays + self.iterations * BUILT;
        match self.part {
            _ if self.chunk > last => Ok(None),
            0 if self.chunk == last => {
                self.chunk += 1;
                Ok(Some(Event::End))
            }
            0 => {
                self.part = 1;
                Ok(Some(Event::Alloc {
                    object: ObjectId(self.chunk),
                    size: CHUNK,
                    class: None,
                    site: None,
                }))
            }
            1 => {
                self.part = 2;
                let time = CHUNK * PER_BYTE / 2000;
                Ok(Some(Event::Compute { time }))
            }
            _ => {
                // A tree is dropped when it is whole.
                let within = (self.chunk + 1).checked_sub(stays);
                let is_whole = within.is_some_and(|within| {
                    within > 0 && within.is_multiple_of(Trees::tree(within - 1))
                });
                if is_whole && self.oldest <= self.chunk {
                    self.oldest += 1;
                    let object = ObjectId(self.oldest - 1);
                    return Ok(Some(Event::Death { object }));
                }
                (self.chunk, self.part) = (self.chunk + 1, 0);
                let time = CHUNK * PER_BYTE / 2000;
                Ok(Some(Event::Compute { time }))
            }
        }
    }
}

/// How many iterations of it allocate this much.
pub fn iterations_of(allocated: Bytes) -> f64 {
    (allocated - Bytes(STAYS)).0 as f64 / (BUILT * CHUNK) as f64
}

/// How the heap of the benchmark is scheduled (5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// By what is available: the policy says who decides that.
    Adaptive(Policy),
    /// As large as what is available without a hog.
    Fixed,
    /// By the collector's own rule.
    Default,
}

fn entrant(weight: i64, start: Nanos, heap: Bytes) -> Entrant {
    let mut settings = Settings::new(Rule::RoundRobin, Algorithm::MarkCompact, heap);
    settings.costs.marked_byte = MARKED;
    Entrant {
        name: format!("weight {weight}"),
        weight: Weight::nearest(weight),
        priority: Priority::default(),
        start,
        stop: None,
        settings,
        largest_live: Bytes(STAYS + 16 * CHUNK),
    }
}

fn world(policy: Policy, entrants: Vec<Entrant>) -> Setup {
    Setup {
        memory: MEMORY,
        policy,
        costs: Costs::DISK,
        reach: 4,
        entrants,
        hogs: Vec::new(),
    }
}

fn run(setup: &Setup, iterations: u64) -> Result<Outcome, Error> {
    let mut programs = vec![Trees::new(iterations); setup.entrants.len()];
    let mut programs: Vec<&mut dyn threads::Program> = programs
        .iter_mut()
        .map(|it| it as &mut dyn threads::Program)
        .collect();
    simulate(setup, &mut programs)
}

/// The benchmark alone, with `iterations` iterations. The hog takes 10 MB a second from second 45 on, until
/// it has 820 MB; it keeps them for 90 s, and gives them back as fast.
///
/// # Errors
/// None that is known: the world makes sense.
pub fn alone(scheduler: Scheduler, hog: bool, iterations: u64) -> Result<Outcome, Error> {
    let (policy, heap) = match scheduler {
        Scheduler::Adaptive(policy) => (policy, MEMORY),
        Scheduler::Fixed => (Policy::Fixed, FIXED),
        Scheduler::Default => (Policy::Fixed, OWN_RULE),
    };
    let mut setup = world(policy, vec![entrant(100, Nanos::ZERO, heap)]);
    setup.hogs.extend(hog.then_some(Hog {
        size: Bytes::mib(820),
        from: Nanos::seconds(45),
        until: Nanos::seconds(45 + 82 + 90),
        rate: 10 * MIB,
    }));
    run(&setup, iterations)
}

/// Three of it, with the weights 10, 40 and 20, which start 90 s after each other.
///
/// # Errors
/// As those of [`alone`].
pub fn three(policy: Policy, iterations: u64) -> Result<Outcome, Error> {
    let weights = [10, 40, 20].into_iter().zip([0, 90, 180]);
    let entrants = weights.map(|(weight, start)| entrant(weight, Nanos::seconds(start), MEMORY));
    run(&world(policy, entrants.collect()), iterations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::SECOND;
    use std::collections::BTreeSet;

    #[test]
    fn the_benchmark_allocates_and_drops_what_it_says() {
        let mut trees = Trees::new(2);
        let (mut live, mut most, mut allocated, mut computed) = (BTreeSet::new(), 0, 0, 0);
        while let Some(event) = trees.next(0).expect("it can be read") {
            match event {
                Event::Alloc { object, size, .. } => {
                    assert!(live.insert(object));
                    allocated += size;
                }
                Event::Death { object } => assert!(live.remove(&object)),
                Event::Compute { time } => computed += time,
                _ => {}
            }
            most = most.max(live.len() as u64 * CHUNK);
        }
        assert_eq!(allocated, STAYS + 2 * BUILT * CHUNK);
        assert_eq!(
            live.len() as u64 * CHUNK,
            STAYS,
            "the last trees are dropped"
        );
        assert_eq!(most, STAYS + 16 * CHUNK);
        let seconds = computed * ITERATIONS / 2 / SECOND;
        assert!((270..290).contains(&seconds), "{seconds}");
    }
}
