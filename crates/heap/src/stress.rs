//! Injected faults. Always compiled, active only if a test asks for it, and checked by
//! [`verify`](crate::verify).

use crate::address::{SUPERPAGE, Superpage};
use crate::side::Side;
use crate::summary::UNIT;
use crate::verify::Verifier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Makes superpages count as absent at random. Off while the seed is 0.
#[derive(Default)]
pub(crate) struct Stress {
    /// State of the generator of random numbers. Changed by the thread that holds the lock; the front end
    /// sets it at first.
    seed: AtomicU64,
    /// Notes for a verification on the time before it.
    pub(crate) verifier: Verifier,
}

impl Stress {
    /// Turns it on with this seed, or off with 0.
    pub(crate) fn begin(&self, seed: u64) {
        self.seed.store(seed, Relaxed);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.seed.load(Relaxed) != 0
    }

    /// Where to note what a verification will have to know; `None` if there will be none.
    pub(crate) fn notes(&self) -> Option<&Verifier> {
        self.is_on().then_some(&self.verifier)
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

    /// Has the kernel really evict some of the heap and of its tables, if there is swap.
    pub(crate) fn evict_some(&self, side: &Side, committed: usize) {
        if !self.is_on() || committed == 0 || !self.next().is_multiple_of(SELDOM) {
            return;
        }
        for _ in 0..EVICTED {
            let superpage = Superpage((self.next() % committed as u64) as u32);
            let start = side.address(superpage);
            side.os().page_out(start..start + SUPERPAGE);
            let summary = side.descriptor(superpage).summary.load(Relaxed) as usize;
            for known in [
                std::ptr::from_ref(side.descriptor(superpage)) as usize,
                side.marks(superpage).as_ptr() as usize,
                side.summaries().0 as usize + summary * UNIT,
            ] {
                let page = known / SUPERPAGE * SUPERPAGE;
                side.os().page_out(page..page + SUPERPAGE);
            }
        }
    }
}

/// Superpages evicted at a time, and how rarely that is done: it costs disk time.
const EVICTED: usize = 4;
const SELDOM: u64 = 16;
