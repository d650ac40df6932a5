//! Memory hogs while they run: they take blocks that are never paged out, at a rate, and give them back.

use super::settings::Hog;
use crate::paging::Memory;

/// A hog. Times are nanoseconds since the beginning of all.
#[derive(Clone, Debug)]
pub(super) struct Taking {
    hog: Hog,
    /// Blocks that it wants while it wants any, and holds.
    wants: u64,
    holds: u64,
    /// From one block to the next, ns.
    pause: u64,
    /// When it does something next, if ever.
    due: Option<u64>,
}

impl Taking {
    pub(super) fn new(hog: Hog, block: u64) -> Taking {
        let pause = u128::from(block) * 1_000_000_000 / u128::from(hog.rate.max(1));
        Taking {
            hog,
            wants: hog.size / block,
            holds: 0,
            pause: u64::try_from(pause).unwrap_or(u64::MAX).max(1),
            due: Some(hog.from),
        }
    }

    /// When it does something next.
    pub(super) fn due(&self) -> Option<u64> {
        self.due
    }

    /// Blocks that it holds.
    pub(super) fn holds(&self) -> u64 {
        self.holds
    }

    /// Takes a block or gives one back.
    pub(super) fn step(&mut self, now: u64, memory: &mut Memory) {
        let gives = now >= self.hog.until;
        if gives && self.holds > 0 {
            memory.unlock();
            self.holds -= 1;
        } else if !gives && self.holds < self.wants {
            // It has no time of its own: what it waits for delays nobody else.
            memory.lock(now);
            self.holds += 1;
        }
        let next = now.saturating_add(self.pause);
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
        let mut memory = Memory::of_blocks(100 * 4096, 4096, Costs::SOLID_STATE);
        let hog = Hog {
            size: 10 * 4096,
            from: 1_000_000_000,
            until: 60_000_000_000,
            rate: 4096,
        };
        let mut taking = Taking::new(hog, 4096);
        let mut steps = Vec::new();
        while let Some(due) = taking.due() {
            taking.step(due, &mut memory);
            steps.push((due / 1_000_000_000, taking.holds()));
        }
        assert_eq!(steps[0], (1, 1));
        assert_eq!(steps[9], (10, 10));
        assert_eq!(steps[10], (60, 9));
        assert_eq!(steps.last(), Some(&(69, 0)));
        assert_eq!(memory.used(), 0);
    }
}
