//! Memory hogs while they run: they take blocks that are never paged out, at a rate, and give them back.

use super::settings::Hog;
use crate::paging::Memory;
use plimsoll_unit::{Bytes, Nanos, SECOND};

/// A hog. Points of time are since the beginning of all.
#[derive(Clone, Debug)]
pub(super) struct Taking {
    hog: Hog,
    /// Blocks that it wants while it wants any, and holds.
    wants: u64,
    holds: u64,
    /// From one block to the next.
    pause: Nanos,
    /// When it does something next, if ever.
    due: Option<Nanos>,
}

impl Taking {
    pub(super) fn new(hog: Hog, block: Bytes) -> Taking {
        let pause = u128::from(block.0) * u128::from(SECOND) / u128::from(hog.rate.max(1));
        Taking {
            hog,
            wants: hog.size.0 / block.0,
            holds: 0,
            pause: Nanos(u64::try_from(pause).unwrap_or(u64::MAX).max(1)),
            due: Some(hog.from),
        }
    }

    /// When it does something next.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// Blocks that it holds.
    pub(super) fn holds(&self) -> u64 {
        self.holds
    }

    /// Takes a block or gives one back.
    pub(super) fn step(&mut self, now: Nanos, memory: &mut Memory) {
        let gives = now >= self.hog.until;
        if gives && self.holds > 0 {
            memory.unlock();
            self.holds -= 1;
        } else if !gives && self.holds < self.wants {
            // It has no time of its own: what it waits for delays nobody else.
            memory.lock(now);
            self.holds += 1;
        }
        let next = now + self.pause;
        self.due = match (gives, self.holds) {
            (true, 0) => None,
            (false, holds) if holds >= self.wants => Some(self.hog.until),
            (false, _) => Some(next.min(self.hog.until)),
            (true, _) => Some(next),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::Costs;

    #[test]
    fn it_takes_holds_and_gives_back_at_its_rate() {
        let block = Bytes(4096);
        let mut memory = Memory::of_blocks(block * 100, block, Costs::SOLID_STATE);
        let hog = Hog {
            size: block * 10,
            from: Nanos::seconds(1),
            until: Nanos::seconds(60),
            rate: 4096,
        };
        let mut taking = Taking::new(hog, block);
        let mut steps = Vec::new();
        while let Some(due) = taking.due() {
            taking.step(due, &mut memory);
            steps.push((due.0 / SECOND, taking.holds()));
        }
        assert_eq!(steps[0], (1, 1));
        assert_eq!(steps[9], (10, 10));
        assert_eq!(steps[10], (60, 9));
        assert_eq!(steps.last(), Some(&(69, 0)));
        assert_eq!(memory.used(), 0);
    }
}
