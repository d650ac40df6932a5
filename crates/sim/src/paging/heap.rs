//! Where a heap's plan allocates, and what its collections touch.

use plimsoll_policy::sizing::Kind;
use plimsoll_unit::Nanos;
use std::collections::VecDeque;

/// The time of work for a block: to mark a live one (0.6 ms a MiB, as measured for JVMs), to copy a
/// live one, to sweep any.
const MARK: Nanos = Nanos(150_000);
const COPY: Nanos = Nanos(200_000);
const SWEEP: Nanos = Nanos(15_000);
/// A generational heap whose nursery would be less than one in this many parts of the limit has all of
/// itself collected.
const LEAST_NURSERY: usize = 16;

/// How a heap collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Marks what lives and sweeps the whole heap.
    MarkSweep,
    /// Copies what lives into the other half.
    SemiSpace,
    /// A nursery of half of what the mature space leaves, as in the paper's GenMS; the mature space is
    /// marked and swept.
    Generational,
}

/// A block to touch, and the time of the work on it.
pub(super) type Visit = (u32, Nanos);

/// A heap. All places are blocks, counted from its first one; `first` is that one's number in the memory.
#[derive(Clone, Debug)]
pub(super) struct Heap {
    plan: Plan,
    first: u32,
    /// The most that it may ever be.
    most: usize,
    /// How many blocks live once the program has built its data.
    target: usize,
    /// Part of the live blocks that dies from one full collection to the next; others take their place.
    turnover: f64,
    /// Part of a nursery that survives.
    survive: f64,
    /// A part of a block that survived: less than 1.
    carried: f64,
    /// Live blocks, oldest first.
    live: VecDeque<u32>,
    /// Blocks in use or dead, not yet swept: of the whole heap, or of the mature space.
    taken: Vec<bool>,
    used: usize,
    /// No block before this one is free.
    cursor: usize,
    /// Blocks allocated since the last collection.
    recent: Vec<u32>,
    /// The half that a semispace allocates in.
    half: usize,
}

impl Heap {
    /// A heap of at most `most` blocks; `target` blocks of it will live.
    pub(super) fn new(plan: Plan, most: usize, target: usize, survive: f64, turnover: f64) -> Heap {
        Heap {
            plan,
            first: 0,
            most,
            target,
            turnover,
            survive,
            carried: 0.0,
            live: VecDeque::new(),
            taken: vec![false; most],
            used: 0,
            cursor: 0,
            recent: Vec::new(),
            half: 0,
        }
    }

    /// Blocks of address space.
    pub(super) fn span(&self) -> usize {
        match self.plan {
            Plan::Generational => self.most * 2,
            _ => self.most,
        }
    }

    pub(super) fn placed_at(&mut self, first: u32) {
        self.first = first;
    }

    /// Bytes that count as live, in blocks: a semispace must keep as much for copies.
    pub(super) fn in_use(&self) -> usize {
        match self.plan {
            Plan::SemiSpace => 2 * self.live.len(),
            _ => self.used,
        }
    }

    /// How many blocks may be allocated from one collection to the next.
    fn room(&self, limit: usize) -> usize {
        let room = match self.plan {
            Plan::MarkSweep => limit.saturating_sub(self.used),
            Plan::SemiSpace => (limit / 2).saturating_sub(self.live.len()),
            Plan::Generational => limit.saturating_sub(self.used) / 2,
        };
        room.max(1)
    }

    /// Whether a collection is due at this limit, blocks.
    pub(super) fn is_due(&self, limit: usize) -> bool {
        let allowed = match self.plan {
            Plan::MarkSweep => limit.max(self.live.len() + 1),
            _ => self.room(limit),
        };
        let (allocated, space) = match self.plan {
            Plan::MarkSweep => (self.used, self.most),
            Plan::SemiSpace => (
                self.recent.len() + self.live.len(),
                (limit / 2).max(self.live.len() + 1),
            ),
            Plan::Generational => (self.recent.len(), self.most),
        };
        match self.plan {
            Plan::SemiSpace => allocated >= space.min(self.most / 2),
            _ => allocated >= allowed.min(space),
        }
    }

    /// Allocates a block. Returns its number in the memory.
    pub(super) fn allocate(&mut self) -> u32 {
        let place = match self.plan {
            Plan::MarkSweep => self.take(),
            Plan::SemiSpace => {
                (self.half * (self.most / 2) + self.live.len() + self.recent.len()) as u32
            }
            Plan::Generational => (self.most + self.recent.len()) as u32,
        };
        self.recent.push(place);
        self.first + place
    }

    /// Takes the first free block.
    fn take(&mut self) -> u32 {
        while self.taken.get(self.cursor) == Some(&true) {
            self.cursor += 1;
        }
        let place = self.cursor.min(self.most - 1);
        self.taken[place] = true;
        self.used = (self.used + 1).min(self.most);
        place as u32
    }

    /// The live block number `index`, in turns; `None` while nothing lives.
    pub(super) fn live_block(&self, index: usize) -> Option<u32> {
        let place = self.live.get(index % self.live.len().max(1))?;
        Some(self.first + place)
    }

    pub(super) fn live(&self) -> usize {
        self.live.len()
    }

    /// Collects, at this limit. Fills `visits` with what is touched, in order.
    pub(super) fn collect(&mut self, limit: usize, visits: &mut Vec<Visit>) -> Kind {
        match self.plan {
            Plan::MarkSweep => {
                let born = self.born();
                self.replace(&born);
                self.mark_and_sweep(visits);
                Kind::Full
            }
            Plan::SemiSpace => {
                self.copy(visits);
                Kind::Full
            }
            Plan::Generational => self.promote(limit, visits),
        }
    }

    /// Chooses the recent blocks that live from now on.
    fn born(&self) -> Vec<u32> {
        let missing = self.target.saturating_sub(self.live.len());
        let turned = (self.turnover * self.live.len() as f64).ceil() as usize;
        spread(&self.recent, missing.max(turned))
    }

    /// Adds live blocks. The oldest die.
    fn replace(&mut self, born: &[u32]) {
        self.live.extend(born);
        let dead = self.live.len().saturating_sub(self.target);
        self.live.drain(..dead);
        self.recent.clear();
    }

    fn mark_and_sweep(&mut self, visits: &mut Vec<Visit>) {
        visits.extend(self.live.iter().map(|place| (self.first + place, MARK)));
        let swept = (0u32..)
            .zip(&self.taken)
            .filter(|(_, taken)| **taken)
            .map(|(place, _)| (self.first + place, SWEEP));
        visits.extend(swept);
        self.taken.fill(false);
        for place in &self.live {
            self.taken[*place as usize] = true;
        }
        (self.used, self.cursor) = (self.live.len(), 0);
    }

    fn copy(&mut self, visits: &mut Vec<Visit>) {
        let born = self.born();
        self.replace(&born);
        self.half = 1 - self.half;
        let to = (self.half * (self.most / 2)) as u32;
        for (from, to) in self.live.iter_mut().zip(to..) {
            visits.extend([(self.first + *from, COPY / 2), (self.first + to, COPY / 2)]);
            *from = to;
        }
    }

    fn promote(&mut self, limit: usize, visits: &mut Vec<Visit>) -> Kind {
        let survived = self.recent.len() as f64 * self.survive + self.carried;
        self.carried = survived.fract();
        let building = self.live.len() < self.target;
        let count = if building {
            survived.max(1.0)
        } else {
            survived
        } as usize;
        let room = self.most.saturating_sub(self.used);
        let survivors = spread(&self.recent, count.min(room));
        let mut promoted = Vec::with_capacity(survivors.len());
        for place in survivors {
            let to = self.take();
            visits.extend([(self.first + place, COPY / 2), (self.first + to, COPY / 2)]);
            promoted.push(to);
        }
        self.replace(&promoted);
        if self.room(limit) > (limit / LEAST_NURSERY).max(1) {
            return Kind::Nursery;
        }
        self.mark_and_sweep(visits);
        Kind::Full
    }

    /// The blocks that are not used until the next collection at this limit, to be given back.
    pub(super) fn unused(&self, limit: usize) -> Vec<u32> {
        let room = self.room(limit);
        let free = |from: usize| {
            let places = (0u32..).zip(&self.taken);
            let free = places.filter(|(_, taken)| !**taken).skip(from);
            free.map(|(place, _)| self.first + place)
        };
        let half = (self.most / 2) as u32;
        match self.plan {
            Plan::MarkSweep => free(room).collect(),
            Plan::Generational => {
                let nursery = self.most + room..self.span();
                let nursery = nursery.map(|place| self.first + place as u32);
                free(room).chain(nursery).collect()
            }
            Plan::SemiSpace => {
                let next = self.live.len() + room;
                let here = self.half as u32 * half;
                let other = half - here;
                let unused = (next as u32..half).map(|place| here + place);
                unused
                    .chain(other..other + half)
                    .map(|place| self.first + place)
                    .collect()
            }
        }
    }
}

/// Up to `count` of these, evenly spread.
fn spread(all: &[u32], count: usize) -> Vec<u32> {
    let count = count.min(all.len());
    (0..count).map(|i| all[i * all.len() / count]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lives_stays_and_the_rest_is_used_again() {
        for plan in [Plan::MarkSweep, Plan::SemiSpace, Plan::Generational] {
            let mut heap = Heap::new(plan, 400, 40, 0.1, 0.05);
            let mut visits = Vec::new();
            let mut kinds = Vec::new();
            for _ in 0..100 {
                let mut allocated = 0;
                while !heap.is_due(200) {
                    assert!((heap.allocate() as usize) < heap.span());
                    allocated += 1;
                }
                assert!(allocated > 0, "{plan:?}");
                visits.clear();
                kinds.push(heap.collect(200, &mut visits));
                assert!(heap.in_use() <= 200);
                let within = |visit: &Visit| (visit.0 as usize) < heap.span();
                assert!(visits.iter().all(within) && heap.live() <= 40);
                let unused = heap.unused(200).into_iter();
                assert!(unused.clone().all(|block| (block as usize) < heap.span()));
                assert!(unused.clone().all(|block| !heap.live.contains(&block)));
            }
            assert_eq!(heap.live(), 40, "{plan:?}");
            let nursery = kinds.iter().filter(|kind| **kind == Kind::Nursery).count();
            let some = plan == Plan::Generational;
            assert_eq!(nursery > 0, some, "{plan:?}");
            assert!(nursery < kinds.len(), "{plan:?}: {nursery}");
        }
    }
}
