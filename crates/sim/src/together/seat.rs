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
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// The sums of the collections of one heap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Collections; a number.
    pub collections: u64,
    /// Time in them, with what they waited for memory, ns.
    pub collecting: u64,
    /// Bytes that they marked or copied.
    pub work: u64,
    /// Live bytes that the last collection of the whole heap found.
    pub live: u64,
    /// Allocated in all, bytes.
    pub allocated: u64,
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
/// Times are nanoseconds since the beginning of all, sizes bytes.
pub(super) struct Seat {
    /// Its blocks, and their region in the memory.
    layout: Layout,
    region: usize,
    /// When the program began.
    begun: u64,
    pub heap: HeapSize,
    /// In use in its heap, dead or alive, and after the last collection.
    used: u64,
    kept: u64,
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
            used: 0,
            kept: 0,
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
    /// Bytes of a block.
    block: u64,
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

    /// Resident bytes of a program.
    pub(super) fn uses(&self, seat: usize) -> u64 {
        self.memory.region(self.seats[seat].region).resident as u64 * self.block
    }

    /// Bytes of a program that are in swap.
    pub(super) fn swapped(&self, seat: usize) -> u64 {
        self.memory.region(self.seats[seat].region).swapped as u64 * self.block
    }

    /// Bytes of all programs and hogs that are in memory.
    pub(super) fn used(&self) -> u64 {
        self.memory.used() as u64 * self.block
    }

    /// Pages out `bytes` bytes of a program.
    pub(super) fn page_out(&mut self, seat: usize, bytes: u64) {
        let region = self.seats[seat].region;
        self.memory.page_out(region, (bytes / self.block) as usize);
    }

    /// At most `bytes` bytes of a program may be resident.
    pub(super) fn bound(&mut self, seat: usize, bytes: u64) {
        let region = self.seats[seat].region;
        self.memory.bound(region, (bytes / self.block) as usize);
    }

    /// The broker's limit of a program. Returns the size of its heap.
    pub(super) fn grant(&mut self, seat: usize, limit: u64) -> u64 {
        self.seats[seat].heap.grant(limit)
    }

    /// A program looks whether it has more than its limit. It gives free memory back at once. Returns whether
    /// it has to collect to give back more.
    pub(super) fn owes(&mut self, seat: usize, now: u64) -> bool {
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
    pub(super) fn paid(&mut self, seat: usize, began: u64, ended: u64) {
        let seat = &mut self.seats[seat];
        seat.releases.paid(began, ended, seat.heap.limit());
    }

    /// When the next release is due.
    pub(super) fn next_release(&self) -> Option<u64> {
        let all = self.seats.iter();
        all.filter_map(|seat| seat.releases.next()).min()
    }

    /// Does the releases that are due. Returns whether there were any.
    pub(super) fn release(&mut self, now: u64) -> bool {
        let mut any = false;
        for seat in 0..self.seats.len() {
            if let Some(goal) = self.seats[seat].releases.take(now) {
                self.give_back(seat, goal);
                any = true;
            }
        }
        any
    }

    /// Gives free blocks back until `goal` bytes are left, or no block is free.
    fn give_back(&mut self, seat: usize, goal: u64) {
        let Seat { region, used, .. } = self.seats[seat];
        let goal = (goal / self.block) as usize;
        for block in self.seats[seat].layout.free(used) {
            if self.memory.region(region).resident <= goal {
                return;
            }
            self.memory.give_back(block);
        }
    }

    /// A program has ended: all of its memory is free.
    pub(super) fn leave(&mut self, seat: usize) {
        self.seats[seat].used = 0;
        self.seats[seat].releases.cancel();
        for block in self.seats[seat].layout.all() {
            self.memory.give_back(block);
        }
    }

    /// Touches blocks one after the other.
    fn touch(&mut self, blocks: Range<u32>, now: u64) -> Wait {
        let mut wait = Wait::default();
        for block in blocks {
            let one = self.memory.touch(block, now + wait.total());
            wait.add(one);
        }
        wait
    }

    fn took(&mut self, seat: usize, now: u64, used: u64, size: u64) -> u64 {
        self.seats[seat].used = used;
        let allocated = &mut self.seats[seat].sums.allocated;
        *allocated = allocated.saturating_add(size);
        let entered = self.seats[seat].layout.enter(used);
        if entered.is_empty() {
            return 0;
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

    fn collected(&mut self, seat: usize, now: u64, collected: &Collected) -> Told {
        let mut wait = Wait::default();
        for blocks in self.seats[seat].layout.collect(collected) {
            let part = self.touch(blocks, now + wait.total());
            wait.add(part);
        }
        let it = &mut self.seats[seat];
        (it.used, it.kept) = (collected.used, collected.used);
        let took = collected.pause.saturating_add(wait.total());
        it.sums.collections += 1;
        it.sums.collecting = it.sums.collecting.saturating_add(took);
        it.sums.work = it.sums.work.saturating_add(collected.collection.work);
        it.sums.allocated = collected.allocated;
        if collected.collection.kind == Kind::Full {
            it.sums.live = collected.collection.work;
        }
        let stalls = it.waits.end_collection(wait);
        let ended = ended(now, took, collected, stalls, it.layout.sides());
        let heap = it.heap.after(&ended, collected);
        if let Some(goal) = self.seats[seat].heap.goal(self.uses(seat)) {
            let at = now.saturating_add(took);
            self.seats[seat].releases.plan(at, goal);
        }
        Told {
            waited: wait.total(),
            heap,
        }
    }
}

/// The figures for a sizing policy of a collection that began at `now`: the stalls since the one before it
/// are weighed by its time, as in `sim::paging`.
fn ended(now: u64, took: u64, collected: &Collected, stalls: Wait, sides: u64) -> Ended {
    Ended {
        now: now.saturating_add(took),
        took,
        cost: took,
        kind: match collected.collection.kind {
            Kind::Full => sizing::Kind::Full,
            Kind::Minor | Kind::Mixed => sizing::Kind::Nursery,
        },
        // Where half is kept empty, what is in use needs as much for its copies.
        live: collected.used.saturating_mul(sides),
        allocated: collected.allocated,
        growth: u64::MAX,
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
    fn took(&mut self, now: u64, used: u64, size: u64) -> u64 {
        let mut room = self.room.borrow_mut();
        let begun = room.seats[self.seat].begun;
        room.took(self.seat, now.saturating_add(begun), used, size)
    }

    fn collected(&mut self, now: u64, collected: &Collected) -> Told {
        let mut room = self.room.borrow_mut();
        let begun = room.seats[self.seat].begun;
        room.collected(self.seat, now.saturating_add(begun), collected)
    }

    fn is_full(&mut self, heap: u64, size: u64) -> Option<u64> {
        self.room.borrow_mut().seats[self.seat]
            .heap
            .grow(heap, size)
    }
}
