//! Injected faults. Always compiled, active only if a test asks for it, and checked by
//! [`verify`](crate::verify).

use crate::address::{SUPERPAGE, Superpage};
use crate::heap::Heap;
use crate::summary::UNIT;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Makes superpages count as absent at random. Off while the seed is 0.
pub(crate) struct Stress {
    /// State of the generator of random numbers. Changed by the thread that holds the lock; the front end
    /// sets it at first.
    seed: AtomicU64,
}

impl Stress {
    pub(crate) const fn new() -> Stress {
        Stress {
            seed: AtomicU64::new(0),
        }
    }

    /// Whether this superpage is to count as absent.
    pub(crate) fn takes_away(&self) -> bool {
        self.is_on() && self.next().is_multiple_of(3)
    }

    /// Whether a bin is to get a whole superpage. Otherwise collections at every n-th part would
    /// take too long.
    pub(crate) fn gives_all(&self) -> bool {
        self.is_on() && !self.next().is_multiple_of(8)
    }

    fn next(&self) -> u64 {
        // Xorshift (Marsaglia 2003).
        let mut state = self.seed.load(Relaxed);
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.seed.store(state, Relaxed);
        state
    }

    pub(crate) fn is_on(&self) -> bool {
        self.seed.load(Relaxed) != 0
    }
}

impl Heap {
    /// From now on every collection treats about a third of the heap as absent, chosen by this
    /// seed, and evicts some of it. A seed of 0 turns that off.
    pub fn stress(&self, seed: u64) {
        self.stress.seed.store(seed, Relaxed);
    }

    /// Has the kernel really evict some of the heap and of its tables, if there is swap.
    pub(crate) fn evict_some(&self, committed: usize) {
        if !self.stress.is_on() || committed == 0 || !self.stress.next().is_multiple_of(SELDOM) {
            return;
        }
        let side = &self.side;
        for _ in 0..EVICTED {
            let superpage = Superpage((self.stress.next() % committed as u64) as u32);
            let start = side.address(superpage);
            self.os.page_out(start..start + SUPERPAGE);
            let summary = side.descriptor(superpage).summary.load(Relaxed) as usize;
            for known in [
                std::ptr::from_ref(side.descriptor(superpage)) as usize,
                side.marks(superpage).as_ptr() as usize,
                side.summaries().0 as usize + summary * UNIT,
            ] {
                let page = known / SUPERPAGE * SUPERPAGE;
                self.os.page_out(page..page + SUPERPAGE);
            }
        }
    }
}

/// Superpages evicted at a time, and how rarely that is done: it costs disk time.
const EVICTED: usize = 4;
const SELDOM: u64 = 16;
