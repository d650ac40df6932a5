//! The memory below the heaps of all programs, and what each of them has of it.
//!
//! A heap tells its [`Ground`] what it takes and collects. That touches blocks of the memory, and the program
//! waits for those that are not there. After a collection its sizing says how large the heap may be.

use super::heap_size::HeapSize;
use super::layout::Layout;
use super::releases::Releases;
use super::settings::{Entrant, Setup};
use crate::paging::{Memory, Wait};
use crate::threads::heap::Kind;
use crate::threads::{Collected, Ground, Told};
use plimsoll_policy::sizing::{self, Ended};
use plimsoll_unit::{Bytes, Nanos};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// The sums of the collections of one heap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Collections; a number.
    pub collections: u64,
    /// Time in them, with what they waited for memory.
    pub collecting: Nanos,
    /// The bytes that they marked or copied.
    pub work: Bytes,
    /// The live data that the last collection of the whole heap found.
    pub live: Bytes,
    /// Allocated in all.
    pub allocated: Bytes,
}

/// The waits of one program for memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeatWaits {
    /// In collections.
    pub inside: Wait,
    /// Outside of them.
    pub outside: Wait,
    /// Since the last collection.
    since: Wait,
}

impl SeatWaits {
    fn add_outside(&mut self, wait: Wait) {
        self.outside.add(wait);
        self.since.add(wait);
    }

    /// A collection waited. Returns the waits since the one before it, with its own.
    fn end_collection(&mut self, wait: Wait) -> Wait {
        self.inside.add(wait);
        self.since.add(wait);
        std::mem::take(&mut self.since)
    }
}

/// The memory of one program. Changed by its own heap while it runs, and between its slices by the broker.
/// Points of time are since the beginning of all.
pub(super) struct Seat {
    /// Its blocks, and their region in the memory.
    layout: Layout,
    region: usize,
    /// When the program began.
    begun: Nanos,
    pub heap: HeapSize,
    /// In use in its heap, dead or alive, and after the last collection.
    used: Bytes,
    kept: Bytes,
    /// The next block of its hot data, and how many are touched for each block that it allocates.
    turn: u64,
    reach: u64,
    pub waits: SeatWaits,
    pub sums: Sums,
    pub releases: Releases,
}

impl Seat {
    fn new(entrant: &Entrant, setup: &Setup, memory: &mut Memory) -> Seat {
        let halves = entrant.settings.collector.has_halves();
        let mut layout = Layout::new(entrant.settings.heap, setup.block(), halves);
        let region = memory.regions();
        layout.placed_at(memory.add(layout.blocks()));
        Seat {
            layout,
            region,
            begun: entrant.start,
            heap: HeapSize::new(entrant, setup),
            used: Bytes::ZERO,
            kept: Bytes::ZERO,
            turn: 0,
            reach: setup.reach,
            waits: SeatWaits::default(),
            sums: Sums::default(),
            releases: Releases::default(),
        }
    }
}

/// The memory, and what each program has of it.
pub(super) struct Room {
    pub memory: Memory,
    /// The size of a block.
    block: Bytes,
    pub seats: Vec<Seat>,
}

impl Room {
    pub(super) fn new(setup: &Setup) -> Room {
        let block = setup.block();
        let mut memory = Memory::of_blocks(setup.memory, block, setup.costs.of_blocks(block));
        let seats = setup.entrants.iter();
        let seats = seats
            .map(|entrant| Seat::new(entrant, setup, &mut memory))
            .collect();
        Room {
            memory,
            block,
            seats,
        }
    }

    /// The resident memory of a program.
    pub(super) fn uses(&self, seat: usize) -> Bytes {
        self.block * self.memory.region(self.seats[seat].region).resident as u64
    }

    /// The memory of a program that is in swap.
    pub(super) fn swapped(&self, seat: usize) -> Bytes {
        self.block * self.memory.region(self.seats[seat].region).swapped as u64
    }

    /// The memory that all programs and hogs have.
    pub(super) fn used(&self) -> Bytes {
        self.block * self.memory.used() as u64
    }

    /// How many whole blocks these bytes are.
    fn blocks(&self, bytes: Bytes) -> usize {
        (bytes.0 / self.block.0) as usize
    }

    /// Pages out `bytes` of a program.
    pub(super) fn page_out(&mut self, seat: usize, bytes: Bytes) {
        let region = self.seats[seat].region;
        self.memory.page_out(region, self.blocks(bytes));
    }

    /// At most `bytes` of a program may be resident.
    pub(super) fn bound(&mut self, seat: usize, bytes: Bytes) {
        let region = self.seats[seat].region;
        self.memory.bound(region, self.blocks(bytes));
    }

    /// The broker's limit of a program. Returns the size of its heap.
    pub(super) fn grant(&mut self, seat: usize, limit: Bytes) -> Bytes {
        self.seats[seat].heap.grant(limit)
    }

    /// A program looks whether it has more than its limit. It gives free memory back at once. Returns whether
    /// it has to collect to give back more.
    pub(super) fn owes(&mut self, seat: usize, now: Nanos) -> bool {
        let Some(goal) = self.seats[seat].heap.goal(self.uses(seat)) else {
            return false;
        };
        let it = &self.seats[seat];
        if !it.releases.may_help(now, it.heap.limit()) {
            return false;
        }
        self.give_back(seat, goal);
        if self.uses(seat) > goal {
            return true;
        }
        self.seats[seat].releases.at_once();
        false
    }

    /// A program collected because it owes, from one time to another.
    pub(super) fn paid(&mut self, seat: usize, began: Nanos, ended: Nanos) {
        let seat = &mut self.seats[seat];
        seat.releases.paid(began, ended, seat.heap.limit());
    }

    /// When the next release is due.
    pub(super) fn next_release(&self) -> Option<Nanos> {
        let all = self.seats.iter();
        all.filter_map(|seat| seat.releases.next()).min()
    }

    /// Does the releases that are due. Returns whether there were any.
    pub(super) fn release(&mut self, now: Nanos) -> bool {
        let mut any = false;
        for seat in 0..self.seats.len() {
            if let Some(goal) = self.seats[seat].releases.take(now) {
                self.give_back(seat, goal);
                any = true;
            }
        }
        any
    }

    /// Gives free blocks back until `goal` is left, or no block is free.
    fn give_back(&mut self, seat: usize, goal: Bytes) {
        let Seat { region, used, .. } = self.seats[seat];
        let goal = self.blocks(goal);
        for block in self.seats[seat].layout.free(used) {
            if self.memory.region(region).resident <= goal {
                return;
            }
            self.memory.give_back(block);
        }
    }

    /// A program has ended: all of its memory is free.
    pub(super) fn leave(&mut self, seat: usize) {
        self.seats[seat].used = Bytes::ZERO;
        self.seats[seat].releases.cancel();
        for block in self.seats[seat].layout.all() {
            self.memory.give_back(block);
        }
    }

    /// Touches blocks one after the other.
    fn touch(&mut self, blocks: Range<u32>, now: Nanos) -> Wait {
        let mut wait = Wait::default();
        for block in blocks {
            let one = self.memory.touch(block, now + wait.total());
            wait.add(one);
        }
        wait
    }

    fn took(&mut self, seat: usize, now: Nanos, used: Bytes, size: Bytes) -> Nanos {
        self.seats[seat].used = used;
        self.seats[seat].sums.allocated += size;
        let entered = self.seats[seat].layout.enter(used);
        if entered.is_empty() {
            return Nanos::ZERO;
        }
        let mut wait = self.touch(entered.clone(), now);
        for _ in 0..self.seats[seat].reach * entered.len() as u64 {
            let it = &mut self.seats[seat];
            it.turn = it.turn.wrapping_add(1);
            if let Some(block) = it.layout.within(it.kept / 2, it.turn) {
                let one = self.memory.touch(block, now + wait.total());
                wait.add(one);
            }
        }
        self.seats[seat].waits.add_outside(wait);
        wait.total()
    }

    fn collected(&mut self, seat: usize, now: Nanos, collected: &Collected) -> Told {
        let mut wait = Wait::default();
        for blocks in self.seats[seat].layout.collect(collected) {
            let part = self.touch(blocks, now + wait.total());
            wait.add(part);
        }
        let it = &mut self.seats[seat];
        (it.used, it.kept) = (collected.used, collected.used);
        let took = collected.pause + wait.total();
        it.sums.collections += 1;
        it.sums.collecting += took;
        it.sums.work += Bytes(collected.collection.work);
        it.sums.allocated = collected.allocated;
        if collected.collection.kind == Kind::Full {
            it.sums.live = Bytes(collected.collection.work);
        }
        let stalls = it.waits.end_collection(wait);
        let ended = ended(now, took, collected, stalls, it.layout.sides());
        let heap = it.heap.after(&ended, collected);
        if let Some(goal) = self.seats[seat].heap.goal(self.uses(seat)) {
            self.seats[seat].releases.plan(now + took, goal);
        }
        Told {
            waited: wait.total(),
            heap,
        }
    }
}

/// The figures for a sizing policy of a collection that began at `now`: the stalls since the one before it
/// are weighed by its time, as in `sim::paging`.
fn ended(now: Nanos, took: Nanos, collected: &Collected, stalls: Wait, sides: u64) -> Ended {
    Ended {
        now: now + took,
        took,
        cost: took,
        kind: match collected.collection.kind {
            Kind::Full => sizing::Kind::Full,
            Kind::Minor | Kind::Mixed => sizing::Kind::Nursery,
        },
        // Where half is kept empty, what is in use needs as much for its copies.
        live: collected.used * sides,
        allocated: collected.allocated,
        growth: Bytes::MAX,
        stalls: stalls.stalls,
        stalled: stalls.stalled,
    }
}

/// The ground below the heap of one program.
pub(super) struct Below {
    pub room: Rc<RefCell<Room>>,
    pub seat: usize,
}

impl Ground for Below {
    fn took(&mut self, now: Nanos, used: Bytes, size: Bytes) -> Nanos {
        let mut room = self.room.borrow_mut();
        let begun = room.seats[self.seat].begun;
        room.took(self.seat, now + begun, used, size)
    }

    fn collected(&mut self, now: Nanos, collected: &Collected) -> Told {
        let mut room = self.room.borrow_mut();
        let begun = room.seats[self.seat].begun;
        room.collected(self.seat, now + begun, collected)
    }

    fn is_full(&mut self, heap: Bytes, size: Bytes) -> Option<Bytes> {
        self.room.borrow_mut().seats[self.seat]
            .heap
            .grow(heap, size)
    }
}
