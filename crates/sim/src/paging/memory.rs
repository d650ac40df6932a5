//! A memory of blocks that replaces the least recently touched one, with a swap device behind it.

/// Bytes of a block.
pub const BLOCK: u64 = 256 << 10;
/// Ends the list of resident blocks.
const NONE: u32 = u32::MAX;
/// Allocation stalls for a block: the kernel reclaims 32 pages of 4 KiB at a time.
const STALLS: u64 = BLOCK / (32 * 4096);

/// What paging costs, nanoseconds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// To read a block back.
    pub fault: u64,
    /// To reclaim a block that others will use: a program waits for it in allocation stalls.
    pub reclaim: u64,
    /// To drop a block of file pages that nobody has changed.
    pub drop: u64,
}

impl Costs {
    /// The disk of the Isla Vista paper: 1.5 ms for a major fault (its Table 2), eight pages each.
    /// Writes are gathered: a quarter of that.
    pub const DISK: Costs = Costs {
        fault: 12_000_000,
        reclaim: 3_000_000,
        drop: 16_000,
    };
    /// A cgroup whose swap is on a solid-state disk: 28 us of reclaim a page as measured for JVMs,
    /// and 100 us for a fault of eight pages.
    pub const SOLID_STATE: Costs = Costs {
        fault: 800_000,
        reclaim: 1_800_000,
        drop: 16_000,
    };
}

/// What a program waited for. Counts, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Allocation stalls.
    pub stalls: u64,
    /// Time in them, ns.
    pub stalled: u64,
    /// Blocks read back from swap.
    pub faults: u64,
    /// Time in that, ns.
    pub faulted: u64,
}

impl Wait {
    /// Nanoseconds.
    pub fn total(&self) -> u64 {
        self.stalled + self.faulted
    }

    pub(super) fn add(&mut self, other: Wait) {
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

/// The memory, all blocks of all programs, and the swap device.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Blocks that fit.
    room: usize,
    /// Resident blocks, and blocks that hogs hold.
    resident: usize,
    locked: usize,
    costs: Costs,
    /// Files that others read fill all memory that would be free.
    pub(super) files: bool,
    states: Vec<State>,
    links: Vec<Links>,
    oldest: u32,
    newest: u32,
    /// When the swap device will have done what was asked of it, ns.
    free_at: u64,
}

impl Memory {
    pub(super) fn new(room: u64, costs: Costs) -> Memory {
        Memory {
            room: (room / BLOCK) as usize,
            resident: 0,
            locked: 0,
            costs,
            files: false,
            states: Vec::new(),
            links: Vec::new(),
            oldest: NONE,
            newest: NONE,
            free_at: 0,
        }
    }

    /// Makes `count` blocks more, and returns the first of them.
    pub(super) fn add(&mut self, count: usize) -> u32 {
        let first = self.states.len();
        self.states.resize(first + count, State::Absent);
        let links = Links {
            older: NONE,
            newer: NONE,
        };
        self.links.resize(first + count, links);
        first as u32
    }

    /// Touches a block at the time `now`, ns.
    pub(super) fn touch(&mut self, block: u32, now: u64) -> Wait {
        let mut wait = Wait::default();
        match self.states[block as usize] {
            State::Resident => self.unlink(block),
            State::Absent => self.find_room(now, &mut wait),
            State::Swapped => {
                self.find_room(now, &mut wait);
                wait.faults = 1;
                wait.faulted = self.device(now + wait.stalled, self.costs.fault);
            }
        }
        if self.states[block as usize] != State::Resident {
            self.states[block as usize] = State::Resident;
            self.resident += 1;
        }
        self.append(block);
        wait
    }

    /// Gives a block back to the kernel.
    pub(super) fn give_back(&mut self, block: u32) {
        if self.states[block as usize] == State::Resident {
            self.unlink(block);
            self.resident -= 1;
        }
        self.states[block as usize] = State::Absent;
    }

    /// A hog takes a block and keeps it. Returns how long it waited, ns.
    pub(super) fn lock(&mut self, now: u64) -> u64 {
        let mut wait = Wait::default();
        self.find_room(now, &mut wait);
        self.locked += 1;
        wait.stalled
    }

    /// A hog gives a block back.
    pub(super) fn unlock(&mut self) {
        self.locked = self.locked.saturating_sub(1);
    }

    /// Pages out the oldest block if no other memory is free. Where hogs hold everything, the memory
    /// grows: a model without an end would be of no use.
    fn find_room(&mut self, now: u64, wait: &mut Wait) {
        if self.resident + self.locked < self.room || self.oldest == NONE {
            if self.files {
                wait.stalls += STALLS;
                wait.stalled += self.costs.drop;
            }
            return;
        }
        let victim = self.oldest;
        self.unlink(victim);
        self.resident -= 1;
        self.states[victim as usize] = State::Swapped;
        wait.stalls += STALLS;
        wait.stalled += self.device(now, self.costs.reclaim);
    }

    /// Has the swap device work for `cost`, after what it has to do already. Returns how long that
    /// takes from `now` on.
    fn device(&mut self, now: u64, cost: u64) -> u64 {
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
            fault: 10,
            reclaim: 3,
            drop: 1,
        };
        let mut memory = Memory::new(2 * BLOCK, costs);
        let first = memory.add(3);
        assert_eq!(memory.touch(first, 0), Wait::default());
        assert_eq!(memory.touch(first + 1, 0), Wait::default());
        assert_eq!(memory.touch(first, 0), Wait::default());
        let written = memory.touch(first + 2, 0);
        assert_eq!((written.stalls, written.stalled), (STALLS, 3));
        assert_eq!(written.faults, 0, "it was never written");
        let read = memory.touch(first + 1, 0);
        assert_eq!((read.stalled, read.faulted), (6, 10), "one block had to go");
        memory.give_back(first + 2);
        assert_eq!(memory.touch(first, 100).stalls, 0);
        assert_eq!(memory.lock(200), 3);
        memory.unlock();
        assert_eq!(memory.touch(first + 2, 300).total(), 0);
    }
}
