//! A memory of blocks that replaces the least recently touched one, with a swap device behind it.

use plimsoll_unit::{Bytes, Nanos};

/// The size of a block.
pub const BLOCK: Bytes = Bytes(256 << 10);
/// Ends the list of resident blocks.
const NONE: u32 = u32::MAX;
/// Bytes that the kernel reclaims at a time, in an allocation stall: 32 pages of 4 KiB.
const RECLAIMED: u64 = 32 * 4096;

/// Costs of paging a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// To read a block back.
    pub fault: Nanos,
    /// To reclaim a block that others will use: a program waits for it in allocation stalls.
    pub reclaim: Nanos,
    /// To drop a block of file pages that nobody has changed.
    pub drop: Nanos,
}

impl Costs {
    /// The disk of the Isla Vista paper: 1.5 ms for a major fault (its Table 2), eight pages each.
    /// Writes are gathered: a quarter of that.
    pub const DISK: Costs = Costs {
        fault: Nanos(12_000_000),
        reclaim: Nanos(3_000_000),
        drop: Nanos(16_000),
    };
    /// A cgroup whose swap is on a solid-state disk: 28 us of reclaim a page as measured for JVMs,
    /// and 100 us for a fault of eight pages.
    pub const SOLID_STATE: Costs = Costs {
        fault: Nanos(800_000),
        reclaim: Nanos(1_800_000),
        drop: Nanos(16_000),
    };

    /// The same for blocks of another size.
    pub fn of_blocks(self, block: Bytes) -> Costs {
        let scaled = |cost: Nanos| {
            Nanos((u128::from(cost.0) * u128::from(block.0) / u128::from(BLOCK.0)) as u64)
        };
        Costs {
            fault: scaled(self.fault),
            reclaim: scaled(self.reclaim),
            drop: scaled(self.drop),
        }
    }
}

/// The waits of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Allocation stalls.
    pub stalls: u64,
    /// Time in them.
    pub stalled: Nanos,
    /// Blocks read back from swap.
    pub faults: u64,
    /// Time in that.
    pub faulted: Nanos,
}

impl Wait {
    /// The time of all of them.
    pub fn total(&self) -> Nanos {
        self.stalled + self.faulted
    }

    pub(crate) fn add(&mut self, other: Wait) {
        self.stalls += other.stalls;
        self.stalled += other.stalled;
        self.faults += other.faults;
        self.faulted += other.faulted;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Never touched, or given back: costs no read.
    Absent,
    Resident,
    Swapped,
}

/// The neighbours of a resident block in the order of age.
#[derive(Clone, Copy, Debug)]
struct Links {
    older: u32,
    newer: u32,
}

/// Blocks that were made together: those of one heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// How many of them are resident, and in swap.
    pub(crate) resident: usize,
    pub(crate) swapped: usize,
    /// The most that may be resident.
    pub(crate) most: usize,
}

/// The memory, all blocks of all programs, and the swap device.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// Blocks that fit.
    room: usize,
    /// Resident blocks, and blocks that hogs hold.
    resident: usize,
    locked: usize,
    costs: Costs,
    /// Allocation stalls for a block.
    stalls: u64,
    /// Files that others read fill all memory that would be free.
    pub(super) files: bool,
    states: Vec<State>,
    /// The region of each block.
    owners: Vec<u32>,
    regions: Vec<Region>,
    links: Vec<Links>,
    oldest: u32,
    newest: u32,
    /// When the swap device will have done what was asked of it.
    free_at: Nanos,
}

impl Memory {
    pub(super) fn new(room: Bytes, costs: Costs) -> Memory {
        Memory::of_blocks(room, BLOCK, costs)
    }

    /// A memory of this size in blocks of `block`, with costs for blocks of that size.
    pub(crate) fn of_blocks(room: Bytes, block: Bytes, costs: Costs) -> Memory {
        Memory {
            room: (room.0 / block.0) as usize,
            resident: 0,
            locked: 0,
            costs,
            stalls: (block.0 / RECLAIMED).max(1),
            files: false,
            states: Vec::new(),
            owners: Vec::new(),
            regions: Vec::new(),
            links: Vec::new(),
            oldest: NONE,
            newest: NONE,
            free_at: Nanos::ZERO,
        }
    }

    /// Makes `count` blocks more, a region of their own, and returns the first of them.
    pub(crate) fn add(&mut self, count: usize) -> u32 {
        let first = self.states.len();
        self.states.resize(first + count, State::Absent);
        let links = Links {
            older: NONE,
            newer: NONE,
        };
        self.links.resize(first + count, links);
        self.owners.resize(first + count, self.regions.len() as u32);
        self.regions.push(Region {
            resident: 0,
            swapped: 0,
            most: usize::MAX,
        });
        first as u32
    }

    /// How many regions there are.
    pub(crate) fn regions(&self) -> usize {
        self.regions.len()
    }

    /// A region, by the order of [`Memory::add`].
    pub(crate) fn region(&self, region: usize) -> Region {
        self.regions[region]
    }

    /// How many blocks are resident or locked.
    pub(crate) fn used(&self) -> usize {
        self.resident + self.locked
    }

    /// At most `most` blocks of a region may be resident from now on; what is more is paged out.
    pub(crate) fn bound(&mut self, region: usize, most: usize) {
        self.regions[region].most = most;
        let over = self.regions[region].resident.saturating_sub(most);
        self.page_out(region, over);
    }

    /// Pages out the oldest blocks of a region. Nobody waits for that.
    pub(crate) fn page_out(&mut self, region: usize, count: usize) {
        for _ in 0..count {
            match self.oldest_of(region) {
                NONE => return,
                victim => self.evict(victim),
            }
        }
    }

    /// The oldest resident block of a region.
    fn oldest_of(&self, region: usize) -> u32 {
        let mut next = self.oldest;
        while next != NONE && self.owners[next as usize] as usize != region {
            next = self.links[next as usize].newer;
        }
        next
    }

    /// Touches a block at the time `now`.
    pub(crate) fn touch(&mut self, block: u32, now: Nanos) -> Wait {
        let mut wait = Wait::default();
        let before = self.states[block as usize];
        match before {
            State::Resident => self.unlink(block),
            State::Absent => self.find_room_for(block, now, &mut wait),
            State::Swapped => {
                self.find_room_for(block, now, &mut wait);
                wait.faults = 1;
                wait.faulted = self.device(now + wait.stalled, self.costs.fault);
            }
        }
        if before != State::Resident {
            self.states[block as usize] = State::Resident;
            self.resident += 1;
            let region = self.region_of(block);
            region.resident += 1;
            region.swapped -= usize::from(before == State::Swapped);
        }
        self.append(block);
        wait
    }

    /// Gives a block back to the kernel.
    pub(crate) fn give_back(&mut self, block: u32) {
        match self.states[block as usize] {
            State::Resident => {
                self.unlink(block);
                self.resident -= 1;
                self.region_of(block).resident -= 1;
            }
            State::Swapped => self.region_of(block).swapped -= 1,
            State::Absent => {}
        }
        self.states[block as usize] = State::Absent;
    }

    /// A hog takes a block and keeps it. Returns how long it waited.
    pub(crate) fn lock(&mut self, now: Nanos) -> Nanos {
        let mut wait = Wait::default();
        self.find_room(now, &mut wait);
        self.locked += 1;
        wait.stalled
    }

    /// A hog gives a block back.
    pub(crate) fn unlock(&mut self) {
        self.locked = self.locked.saturating_sub(1);
    }

    /// Room for a block of a region: where the region has as much as it may, its own oldest block goes.
    fn find_room_for(&mut self, block: u32, now: Nanos, wait: &mut Wait) {
        let owner = self.owners[block as usize] as usize;
        let Region { resident, most, .. } = self.regions[owner];
        let own = if resident >= most {
            self.oldest_of(owner)
        } else {
            NONE
        };
        match own {
            NONE => self.find_room(now, wait),
            victim => self.reclaim(victim, now, wait),
        }
    }

    /// Pages out the oldest block if no other memory is free. Where hogs hold everything, the memory
    /// grows: a model without an end would be of no use.
    fn find_room(&mut self, now: Nanos, wait: &mut Wait) {
        if self.resident + self.locked < self.room || self.oldest == NONE {
            if self.files {
                wait.stalls += self.stalls;
                wait.stalled += self.costs.drop;
            }
            return;
        }
        self.reclaim(self.oldest, now, wait);
    }

    /// Pages out a block for a program that waits.
    fn reclaim(&mut self, victim: u32, now: Nanos, wait: &mut Wait) {
        self.evict(victim);
        wait.stalls += self.stalls;
        wait.stalled += self.device(now, self.costs.reclaim);
    }

    /// A resident block goes to swap.
    fn evict(&mut self, victim: u32) {
        self.unlink(victim);
        self.resident -= 1;
        self.states[victim as usize] = State::Swapped;
        let region = self.region_of(victim);
        region.resident -= 1;
        region.swapped += 1;
    }

    fn region_of(&mut self, block: u32) -> &mut Region {
        &mut self.regions[self.owners[block as usize] as usize]
    }

    /// Has the swap device work for `cost`, after what it has to do already. Returns how long that
    /// takes from `now` on.
    fn device(&mut self, now: Nanos, cost: Nanos) -> Nanos {
        self.free_at = self.free_at.max(now) + cost;
        self.free_at - now
    }

    fn unlink(&mut self, block: u32) {
        let Links { older, newer } = self.links[block as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
    }

    /// Makes a block the newest.
    fn append(&mut self, block: u32) {
        let older = std::mem::replace(&mut self.newest, block);
        self.links[block as usize] = Links { older, newer: NONE };
        match older {
            NONE => self.oldest = block,
            older => self.links[older as usize].newer = block,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_touched_longest_ago_goes_first() {
        let costs = Costs {
            fault: Nanos(10),
            reclaim: Nanos(3),
            drop: Nanos(1),
        };
        let mut memory = Memory::new(BLOCK * 2, costs);
        let first = memory.add(3);
        assert_eq!(memory.touch(first, Nanos::ZERO), Wait::default());
        assert_eq!(memory.touch(first + 1, Nanos::ZERO), Wait::default());
        assert_eq!(memory.touch(first, Nanos::ZERO), Wait::default());
        let written = memory.touch(first + 2, Nanos::ZERO);
        assert_eq!(
            (written.stalls, written.stalled),
            (BLOCK.0 / RECLAIMED, Nanos(3))
        );
        assert_eq!(written.faults, 0, "it was never written");
        let read = memory.touch(first + 1, Nanos::ZERO);
        assert_eq!(
            (read.stalled, read.faulted),
            (Nanos(6), Nanos(10)),
            "one block had to go"
        );
        memory.give_back(first + 2);
        assert_eq!(memory.touch(first, Nanos(100)).stalls, 0);
        assert_eq!(memory.lock(Nanos(200)), Nanos(3));
        memory.unlock();
        assert_eq!(memory.touch(first + 2, Nanos(300)).total(), Nanos::ZERO);
    }

    #[test]
    fn a_region_is_counted_bounded_and_paged_out() {
        let block = Bytes(4096);
        let mut memory = Memory::of_blocks(block * 4, block, Costs::SOLID_STATE.of_blocks(block));
        let (one, other) = (memory.add(4), memory.add(2));
        for block in [one, other, one + 1, other + 1] {
            assert_eq!(memory.touch(block, Nanos::ZERO).total(), Nanos::ZERO);
        }
        memory.bound(1, 1);
        let counts = |memory: &Memory, region: usize| {
            let region = memory.region(region);
            (region.resident, region.swapped)
        };
        assert_eq!(counts(&memory, 1), (1, 1), "the older one went");
        assert_eq!(memory.touch(other, Nanos::ZERO).faults, 1);
        assert_eq!(
            counts(&memory, 1),
            (1, 1),
            "for itself, though one was free"
        );
        memory.page_out(0, 5);
        assert_eq!((counts(&memory, 0), memory.used()), ((0, 2), 1));
        memory.give_back(one);
        memory.give_back(one + 2);
        assert_eq!(counts(&memory, 0), (0, 1));
    }
}
