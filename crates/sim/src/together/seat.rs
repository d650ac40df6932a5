//! The memory below the heaps of all programs, and what each of them has of it.
//!
//! A heap tells its [`Ground`] what it takes and collects. That touches blocks of the memory, and the program
//! waits for those that are not there. After a collection its sizing says how large the heap may be.

use super::layout::Layout;
use super::settings::{Entrant, Policy, Setup};
use crate::paging::{self, Memory, Wait};
use crate::threads::heap::Kind;
use crate::threads::{Collected, Ground, Told};
use plimsoll_policy::footprint::{low_water, threshold};
use plimsoll_policy::sizing::{self, Ended, IslaVista, SquareRoot};
use plimsoll_unit::Bytes;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// Between two whole collections a heap may always allocate one part in this many of itself, as in
/// `policy::footprint`.
const LEAST_PART: u64 = 16;
/// A heap that could allocate more than one part in this many of itself since the last whole collection has
/// enough: its floor falls by a step.
const ENOUGH_PART: u64 = 4;
/// A heap that is granted less begins with this part of the memory: a Java heap's initial size.
const INITIAL_PART: u64 = 64;
/// A release that did not help is not repeated before this many times its duration.
const RESTS: u64 = 4;

/// The rule for the size of a heap.
enum Sizer {
    /// None: the heap keeps its size.
    Fixed,
    /// The broker's limit.
    Granted,
    /// A policy of its own.
    Own(Box<dyn paging::Policy>),
}

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

/// A release of memory that takes its time: until a collection is over. Nanoseconds and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Release {
    at: u64,
    goal: u64,
}

/// The last release that a program did because it was told to. Nanoseconds and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Released {
    at: u64,
    took: u64,
    limit: u64,
}

/// The memory of one program. Changed by its own heap while it runs, and between its slices by the broker.
/// Times are nanoseconds since the beginning of all, sizes bytes.
pub(super) struct Seat {
    /// Its blocks, and their region in the memory.
    layout: Layout,
    region: usize,
    /// When the program began.
    begun: u64,
    sizer: Sizer,
    /// The most that its heap may ever be.
    most: u64,
    /// The size that its heap has in any case, because it could not go on with less.
    floor: u64,
    /// The size of its heap now.
    pub heap: u64,
    /// The limit that the broker gives it.
    pub limit: u64,
    /// In use in its heap, dead or alive, and after the last collection.
    used: u64,
    kept: u64,
    /// Bytes that it had allocated when the last collection of its whole heap ended.
    allocated_then: u64,
    /// The next block of its hot data, and how many are touched for each block that it allocates.
    turn: u64,
    reach: u64,
    /// Its waits: in collections, outside of them, and since the last collection.
    pub inside: Wait,
    pub outside: Wait,
    since: Wait,
    pub sums: Sums,
    release: Option<Release>,
    released: Released,
    /// How long it took last to give back what it was asked for, ns.
    pub reaction: u64,
}

impl Seat {
    fn new(entrant: &Entrant, setup: &Setup, memory: &mut Memory) -> Seat {
        let halves = entrant.settings.collector.has_halves();
        let most = entrant.settings.heap;
        let mut layout = Layout::new(most, setup.block(), halves);
        let region = memory.regions();
        layout.placed_at(memory.add(layout.blocks()));
        let sizer = match setup.policy {
            Policy::Fixed => Sizer::Fixed,
            Policy::Shares | Policy::Weights => Sizer::Granted,
            Policy::IslaVista => {
                Sizer::Own(Box::new(IslaVista::default().beginning(entrant.start)))
            }
            Policy::SquareRoot => Sizer::Own(Box::new(SquareRoot::default())),
        };
        let mut seat = Seat {
            layout,
            region,
            begun: entrant.start,
            sizer,
            most,
            floor: 0,
            heap: most,
            limit: 0,
            used: 0,
            kept: 0,
            allocated_then: 0,
            turn: 0,
            reach: setup.reach,
            inside: Wait::default(),
            outside: Wait::default(),
            since: Wait::default(),
            sums: Sums::default(),
            release: None,
            released: Released::default(),
            reaction: 0,
        };
        match &mut seat.sizer {
            Sizer::Fixed => {}
            Sizer::Granted => seat.floor = setup.memory / INITIAL_PART,
            Sizer::Own(policy) => seat.heap = policy.begin(most).min(most),
        }
        seat
    }

    /// The size of the heap that the grant allows: what the shipped heaps make of a limit.
    fn granted(&self) -> u64 {
        threshold(Bytes(self.limit))
            .0
            .max(self.floor)
            .min(self.most)
    }

    /// After a collection of the whole heap: raises the floor if too little could be allocated since the one
    /// before, and lowers it if enough could.
    fn keep_going(&mut self, collected: &Collected) {
        let since = collected.allocated - self.allocated_then;
        self.allocated_then = collected.allocated;
        if since < self.heap / LEAST_PART {
            self.floor = self.floor.max(self.heap + self.heap / LEAST_PART);
        } else if since > self.heap / ENOUGH_PART {
            self.floor -= self.floor / LEAST_PART;
        }
        self.floor = self.floor.min(self.most);
    }

    /// The size of the heap that its policy gives after a collection.
    fn sized(&mut self, ended: &Ended, collected: &Collected) -> Option<u64> {
        if collected.collection.kind == Kind::Full {
            self.keep_going(collected);
        }
        let size = match &mut self.sizer {
            Sizer::Fixed => return None,
            Sizer::Granted => self.granted(),
            Sizer::Own(policy) => policy.after(self.most, ended).max(self.floor),
        };
        self.heap = size.min(self.most);
        Some(self.heap)
    }

    /// Down to how many bytes it gives memory back after a collection, if it has more than it should.
    fn goal(&self, uses: u64) -> Option<u64> {
        let (most, goal) = match self.sizer {
            Sizer::Fixed => return None,
            Sizer::Granted => (
                threshold(Bytes(self.limit)).0,
                low_water(Bytes(self.limit)).0,
            ),
            Sizer::Own(_) => (self.heap, self.heap),
        };
        (uses > most).then_some(goal)
    }

    fn is_worth_a_release(&self, now: u64) -> bool {
        let last = &self.released;
        let rested = now.saturating_sub(last.at) >= last.took.saturating_mul(RESTS);
        last.at == 0 || rested || self.limit < last.limit - last.limit / 32
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
        let seat = &mut self.seats[seat];
        seat.limit = limit;
        seat.heap = seat.granted();
        seat.heap
    }

    /// A program looks whether it has more than its limit. It gives free memory back at once. Returns whether
    /// it has to collect to give back more.
    pub(super) fn owes(&mut self, seat: usize, now: u64) -> bool {
        let Some(goal) = self.seats[seat].goal(self.uses(seat)) else {
            return false;
        };
        if self.seats[seat].release.is_some() || !self.seats[seat].is_worth_a_release(now) {
            return false;
        }
        self.give_back(seat, goal);
        if self.uses(seat) > goal {
            return true;
        }
        self.seats[seat].reaction = 0;
        false
    }

    /// A program collected because it owes, from one time to another.
    pub(super) fn paid(&mut self, seat: usize, began: u64, ended: u64) {
        let seat = &mut self.seats[seat];
        seat.reaction = ended - began;
        seat.released = Released {
            at: ended,
            took: ended - began,
            limit: seat.limit,
        };
    }

    /// When the next release is due.
    pub(super) fn next_release(&self) -> Option<u64> {
        let all = self.seats.iter().filter_map(|seat| seat.release);
        all.map(|release| release.at).min()
    }

    /// Does the releases that are due. Returns whether there were any.
    pub(super) fn release(&mut self, now: u64) -> bool {
        let mut any = false;
        for seat in 0..self.seats.len() {
            if let Some(release) = self.seats[seat].release.take_if(|it| it.at <= now) {
                self.give_back(seat, release.goal);
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
        self.seats[seat].release = None;
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
        self.seats[seat].outside.add(wait);
        self.seats[seat].since.add(wait);
        wait.total()
    }

    fn collected(&mut self, seat: usize, now: u64, collected: &Collected) -> Told {
        let mut wait = Wait::default();
        for blocks in self.seats[seat].layout.collect(collected) {
            let part = self.touch(blocks, now + wait.total());
            wait.add(part);
        }
        let it = &mut self.seats[seat];
        it.inside.add(wait);
        it.since.add(wait);
        (it.used, it.kept) = (collected.used, collected.used);
        let took = collected.pause.saturating_add(wait.total());
        it.sums.collections += 1;
        it.sums.collecting = it.sums.collecting.saturating_add(took);
        it.sums.work = it.sums.work.saturating_add(collected.collection.work);
        it.sums.allocated = collected.allocated;
        if collected.collection.kind == Kind::Full {
            it.sums.live = collected.collection.work;
        }
        let stalls = std::mem::take(&mut it.since);
        let ended = ended(now, took, collected, stalls, it.layout.sides());
        let heap = it.sized(&ended, collected);
        if let Some(goal) = self.seats[seat].goal(self.uses(seat)) {
            let at = now.saturating_add(took);
            self.seats[seat].release = Some(Release { at, goal });
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
        let seat = &mut self.room.borrow_mut().seats[self.seat];
        if matches!(seat.sizer, Sizer::Fixed) || heap >= seat.most {
            return None;
        }
        let more = (heap / LEAST_PART).max(size).max(1);
        seat.floor = heap.saturating_add(more).min(seat.most);
        seat.heap = seat.floor;
        Some(seat.heap)
    }
}
