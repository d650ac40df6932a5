//! A program: it allocates, touches its data, and collects its heap when that has reached its size.

use super::heap::{Heap, Plan, Visit};
use super::memory::{BLOCK, Memory, Wait};
use plimsoll_policy::sizing::{Ended, Kind, Sizing};
use plimsoll_unit::{Bytes, Nanos, SECOND};

/// Blocks that a collection touches before others may run.
const SLICE: usize = 8;

/// How many whole blocks these bytes are.
fn blocks(bytes: Bytes) -> usize {
    (bytes.0 / BLOCK.0) as usize
}

/// The behaviour of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Behaviour {
    /// How its heap collects.
    pub plan: Plan,
    /// Size of its live data once it has built them.
    pub live: Bytes,
    /// The part of its live data that it goes through again and again, from 0 to 1.
    pub hot: f64,
    /// Blocks of its hot data that it touches for each block that it allocates.
    pub reach: usize,
    /// Bytes that it allocates in a second while it does not wait.
    pub rate: u64,
    /// The part of a nursery that survives.
    pub survive: f64,
    /// The part of its live data that others replace from one full collection to the next.
    pub turnover: f64,
    /// Allocation in all; [`Bytes::MAX`] where the world's time is its end.
    pub work: Bytes,
    /// The most that its heap may be.
    pub most: Bytes,
    /// Whether its heap gives back what it will not use until the next collection.
    pub gives_back: bool,
    /// The stalls that its policy is told of.
    pub signal: Signal,
}

/// How much of the stalls is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Their number, in collections.
    Count,
    /// Their number and their time, in collections.
    Time,
    /// The same from one collection to the next: what can be seen from outside.
    Between,
    /// As `Between`, and all of that time instead of the collection's: stalls are a part of it.
    AllTime,
}

/// A policy for the sizes of heaps in the model.
pub trait Policy {
    /// A collection ended. Returns how large the heap may be.
    fn after(&mut self, most: Bytes, ended: &Ended) -> Bytes;
    /// How large a heap may be that was never collected.
    fn begin(&mut self, most: Bytes) -> Bytes;
}

impl<S: Sizing> Policy for S {
    fn after(&mut self, most: Bytes, ended: &Ended) -> Bytes {
        self.bounded(most);
        self.ended(ended);
        self.size()
    }

    fn begin(&mut self, most: Bytes) -> Bytes {
        self.bounded(most);
        self.size()
    }
}

/// A program after one of its collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// When.
    pub now: Nanos,
    /// How large the heap may be from then on.
    pub size: Bytes,
    /// The memory that the program had allocated.
    pub allocated: Bytes,
}

/// The outcome of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When it ended.
    pub ended: Nanos,
    /// The memory that it allocated.
    pub allocated: Bytes,
    /// Collections of the nursery only; a number.
    pub nursery: u64,
    /// Collections of the whole heap; a number.
    pub full: u64,
    /// Time in collections.
    pub collecting: Nanos,
    /// The longest collection.
    pub longest: Nanos,
    /// Its waits in collections.
    pub inside: Wait,
    /// Its waits outside of collections.
    pub outside: Wait,
    /// A point after each collection, in the order of time.
    pub points: Vec<Point>,
}

pub(super) struct Program {
    behaviour: Behaviour,
    heap: Heap,
    policy: Box<dyn Policy>,
    /// Its time.
    pub(super) clock: Nanos,
    /// The size of its heap.
    size: Bytes,
    /// Blocks that the collection under way will touch, and how many of these visits are done.
    visits: Vec<Visit>,
    visited: usize,
    kind: Kind,
    /// When the collection began, and its waits.
    began: Nanos,
    waited: Wait,
    /// Waits outside of collections since the last one.
    waited_outside: Wait,
    /// The next hot block.
    turn: usize,
    pub(super) outcome: Outcome,
}

impl Program {
    pub(super) fn new(behaviour: Behaviour, mut policy: Box<dyn Policy>) -> Program {
        let blocks = |bytes: Bytes| blocks(bytes).max(2);
        let heap = Heap::new(
            behaviour.plan,
            blocks(behaviour.most),
            blocks(behaviour.live),
            behaviour.survive,
            behaviour.turnover,
        );
        Program {
            behaviour,
            heap,
            size: policy.begin(behaviour.most),
            policy,
            clock: Nanos::ZERO,
            visits: Vec::new(),
            visited: 0,
            kind: Kind::Full,
            began: Nanos::ZERO,
            waited: Wait::default(),
            waited_outside: Wait::default(),
            turn: 0,
            outcome: Outcome::default(),
        }
    }

    /// Puts its heap into the memory.
    pub(super) fn enter(&mut self, memory: &mut Memory) {
        let first = memory.add(self.heap.span());
        self.heap.placed_at(first);
    }

    pub(super) fn is_done(&self) -> bool {
        self.outcome.allocated >= self.behaviour.work
    }

    /// Runs for a moment.
    pub(super) fn step(&mut self, memory: &mut Memory) {
        if self.visited < self.visits.len() {
            self.collect(memory);
        } else if self.heap.is_due(blocks(self.size)) {
            self.begin();
        } else {
            self.allocate(memory);
        }
        self.outcome.ended = self.clock;
    }

    fn allocate(&mut self, memory: &mut Memory) {
        self.clock += Nanos(BLOCK.0 * SECOND / self.behaviour.rate.max(1));
        let block = self.heap.allocate();
        let mut wait = memory.touch(block, self.clock);
        let hot = (self.heap.live() as f64 * self.behaviour.hot) as usize;
        for _ in 0..self.behaviour.reach.min(hot) {
            self.turn = (self.turn + 1) % hot;
            if let Some(block) = self.heap.live_block(self.turn) {
                wait.add(memory.touch(block, self.clock + wait.total()));
            }
        }
        self.clock += wait.total();
        self.outcome.outside.add(wait);
        self.waited_outside.add(wait);
        self.outcome.allocated += BLOCK;
    }

    /// A collection begins. It touches at least one block that lives.
    fn begin(&mut self) {
        self.visits.clear();
        self.visited = 0;
        let limit = blocks(self.size);
        self.kind = self.heap.collect(limit, &mut self.visits);
        (self.began, self.waited) = (self.clock, Wait::default());
        if self.visits.is_empty() {
            // Nothing survived.
            self.end(None);
        }
    }

    fn collect(&mut self, memory: &mut Memory) {
        let end = (self.visited + SLICE).min(self.visits.len());
        for (block, work) in &self.visits[self.visited..end] {
            self.clock += *work;
            let wait = memory.touch(*block, self.clock);
            self.clock += wait.total();
            self.waited.add(wait);
        }
        self.visited = end;
        if end == self.visits.len() {
            self.end(Some(memory));
        }
    }

    fn end(&mut self, memory: Option<&mut Memory>) {
        let took = self.clock - self.began;
        let (stalls, stalled) = match self.behaviour.signal {
            Signal::Count => (self.waited.stalls, Nanos::ZERO),
            Signal::Time => (self.waited.stalls, self.waited.stalled),
            Signal::Between | Signal::AllTime => (
                self.waited.stalls + self.waited_outside.stalls,
                self.waited.stalled + self.waited_outside.stalled,
            ),
        };
        self.waited_outside = Wait::default();
        let before = self
            .outcome
            .points
            .last()
            .map_or(Nanos::ZERO, |point| point.now);
        let ended = Ended {
            now: self.clock,
            took: match self.behaviour.signal {
                Signal::AllTime => self.clock - before,
                _ => took,
            },
            cost: took,
            kind: self.kind,
            live: BLOCK * self.heap.in_use() as u64,
            allocated: self.outcome.allocated,
            growth: Bytes::MAX,
            stalls,
            stalled,
        };
        self.size = self.policy.after(self.behaviour.most, &ended);
        match self.kind {
            Kind::Full => self.outcome.full += 1,
            Kind::Nursery => self.outcome.nursery += 1,
        }
        self.outcome.collecting += took;
        self.outcome.longest = self.outcome.longest.max(took);
        self.outcome.inside.add(self.waited);
        self.outcome.points.push(Point {
            now: self.clock,
            size: self.size,
            allocated: self.outcome.allocated,
        });
        if let Some(memory) = memory.filter(|_| self.behaviour.gives_back) {
            for block in self.heap.unused(blocks(self.size)) {
                memory.give_back(block);
            }
        }
    }
}
