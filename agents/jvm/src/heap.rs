//! The heap of the machine, and giving back what is free in it: four [`Spaces`] (Serial, Parallel) or
//! many [`Regions`] (G1).
//!
//! # Why this is safe
//! Free memory of a heap holds nothing: the machine hands it out by raising the `top` of a space or of a
//! region, and sets every word of an object after that.
//!
//! 1. **Nobody allocates meanwhile.** `GarbageCollectionFinish` is sent by the VM Thread within the
//!    operation that collects, at the safepoint. Java threads are stopped; threads in native code
//!    may run, but must stop before they enter the heap again. Workers of the collector have finished
//!    their task. Whether anything was collected does not matter: an operation that finds it needless sends
//!    the events, too. Objects lie below the top of their space or region, and so do the buffers from which
//!    threads allocate (TLABs), retired or not: a buffer is taken out of a space by raising its top. The
//!    object for which it was collected, if any, was allocated before the event, or is allocated after it by
//!    the same thread. Where events are sent within others, only the last end counts. G1's concurrent
//!    threads (marking, refinement, and since 16 the one that gives up committed regions) stop for
//!    safepoints, except for the scan of root regions, which reads objects only.
//! 2. **Nobody relies on what is there.** Free memory is set before it is used; only debug builds fill it
//!    with a pattern and check that (`ZapUnusedHeapArea`: refused). Code that reads a little beyond an
//!    object's end finds zeros, mapped as before. `madvise(MADV_DONTNEED)` leaves the mapping and its
//!    protection as they are; HotSpot itself does the same to free pages of an eden on several nodes. Memory
//!    that is reserved only (`PROT_NONE`) is not changed by it.
//! 3. **Only whole pages of free memory** are given back: strictly between the top and the end of a space,
//!    or of regions that are free as a whole: empty, and free by their tag, which is not read again as long
//!    as they stay empty and untouched. The page that holds the last object and the page at which another
//!    space begins are not.
//! 4. **Only what was recognised.** Places are found by the names of types and fields. The spaces or
//!    regions, their bounds and the heap's mapping are checked before anything is done. Spaces move, so their
//!    bounds are checked again in each pause, against the reserved heap and each other. Regions do not: each
//!    is checked when it is first met, and one is free only while its top is at its own bottom. If anything
//!    is odd, nothing is given back ever after. Nothing of the machine is written. G1's bitmaps and tables of
//!    cards are not part of the heap, and are not touched.
//! 5. **Not against the user's wish**: large pages, heaps on a file or divided between nodes are left alone.
//!    Regions of G1 into which the archive of class data is mapped are, too. The adapter wishes nothing
//!    of memory that was touched in advance, unless its user allows it.
//!
//! The objects that describe spaces and regions live as long as the heap. Survivor spaces change roles
//! by swapping pointers to them, which does not matter here. G1 makes the object of a region when it first
//! commits it, and keeps it when it gives the region up; its table never moves.

use crate::machine::{Machine, Refusal};
use crate::ranges::Giver;
use crate::regions::Regions;
use crate::retained_free::Keeping;
use crate::spaces::Spaces;
use plimsoll_unit::Nanos;
use plimsoll_wire::collections::{Collector, Kind};
use std::time::Duration;

/// Versions whose heaps are touched. It was tried with 11, 17, 21 and 25; those between have the same fields,
/// or are refused for what they lack.
const VERSIONS: std::ops::RangeInclusive<u32> = 11..=25;
/// A pause is prolonged by this at most, and one for the whole heap by [`MAX_WHOLE`]. The
/// rest waits for the next pause.
const MAX_PAUSE: Nanos = Nanos::millis(20);
const MAX_WHOLE: Nanos = Nanos::seconds(1);
/// How often the heap of a running machine is looked for, and the pause (ms) in between: the machine may be
/// resizing it, or collecting, at that moment.
const TRIES: u32 = 4;
const AGAIN_MS: u64 = 25;

/// The heap after a pause, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// With objects; of G1 whole regions.
    pub used: u64,
    /// Free.
    pub free: u64,
    /// Free, and left resident.
    pub kept: u64,
    /// Given back now.
    pub given_back: u64,
}

/// The parts of a heap.
#[derive(Debug)]
enum Parts {
    Spaces(Spaces),
    Regions(Regions),
}

/// A heap, and what may be done about it. Used within pauses, by the VM Thread.
#[derive(Debug)]
pub struct Heap {
    parts: Parts,
    keeping: Keeping,
    giver: Giver,
}

impl Heap {
    /// Finds the heap of a machine that runs, and may change it meanwhile.
    ///
    /// # Errors
    /// As [`Heap::of`].
    pub fn of_running(machine: &Machine) -> Result<Heap, Refusal> {
        tried(|| Heap::of(machine))
    }

    /// Finds the heap.
    ///
    /// # Errors
    /// Whenever anything is not as it was when this was tried.
    pub fn of(machine: &Machine) -> Result<Heap, Refusal> {
        let collector = machine.collector();
        let known = [Collector::Serial, Collector::Parallel, Collector::G1];
        if !known.contains(&collector) {
            return Err(Refusal::Collector(collector));
        }
        let version = machine.version()?;
        if !VERSIONS.contains(&version) {
            return Err(Refusal::Version(version));
        }
        let giver = Giver::of(machine)?;
        let parts = match collector {
            Collector::G1 => Parts::Regions(Regions::of(machine)?),
            _ => Parts::Spaces(Spaces::of(machine)?),
        };
        Ok(Heap {
            parts,
            keeping: Keeping::default(),
            giver,
        })
    }

    /// Called when a pause begins: how far the program has filled the heap.
    ///
    /// # Errors
    /// If it is odd.
    ///
    /// # Safety
    /// The machine is at a safepoint, and has not ended.
    pub unsafe fn begin(&mut self) -> Result<(), Refusal> {
        match &mut self.parts {
            Parts::Spaces(spaces) => spaces.begin(),
            Parts::Regions(regions) => {
                regions.begin();
                Ok(())
            }
        }
    }

    /// Called when a pause ends. Gives back what is free, so that of the heap at most `resident` bytes
    /// stay, but not what the program takes again at once; nothing without `resident`. `kind`: what the
    /// pause was for.
    ///
    /// # Errors
    /// If the heap is odd, or the kernel refuses.
    ///
    /// # Safety
    /// The machine is at the end of a pause, at its safepoint, and has not ended. With `resident`, it is
    /// the machine whose tables this heap was found by: what is free by its word is free.
    pub unsafe fn end(
        &mut self,
        resident: Option<u64>,
        kind: Kind,
        now: Nanos,
    ) -> Result<Free, Refusal> {
        let looked = match &mut self.parts {
            Parts::Spaces(spaces) => Some(spaces.look_at_end(kind)?),
            Parts::Regions(regions) => match resident {
                // Looking at all regions costs time, which is spent only where something may follow.
                Some(resident) if resident < regions.bytes() || kind == Kind::Full => {
                    Some(regions.look_at_end()?)
                }
                _ => {
                    regions.forget();
                    None
                }
            },
        };
        let Some(looked) = looked else {
            self.keeping.forget();
            return Ok(Free::default());
        };
        self.keeping.note(looked.taken, now);
        let keep = resident.map(|resident| self.keeping.keep(resident, looked.used, kind));
        self.giver.begin(Some(now + longest(kind)));
        let giver = &self.giver;
        // SAFETY: the caller promises the safepoint and whose heap this is; the look was in this pause.
        // Without `keep` nothing is given back.
        unsafe {
            match &mut self.parts {
                Parts::Spaces(spaces) => spaces.give_back(keep, looked.used, giver),
                Parts::Regions(regions) => regions.give_back(keep, giver),
            }
        }
    }
}

/// How much a pause of this kind is prolonged at most.
fn longest(kind: Kind) -> Nanos {
    match kind {
        Kind::Full => MAX_WHOLE,
        _ => MAX_PAUSE,
    }
}

/// Looks for a heap, outside of pauses. Words that were read one after the other may not go together: what
/// makes no sense is read again, all of it.
fn tried<T>(mut find: impl FnMut() -> Result<T, Refusal>) -> Result<T, Refusal> {
    let mut found = find();
    for _ in 1..TRIES {
        if !matches!(found, Err(Refusal::Odd(_))) {
            break;
        }
        std::thread::sleep(Duration::from_millis(AGAIN_MS));
        found = find();
    }
    found
}

/// Result of a look at the end of a pause, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// With objects; of G1 whole regions.
    pub used: u64,
    /// Free at the end of the pause before, and taken since: by the program, and for survivors.
    pub taken: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of [`tried`] where the first looks fail like this, and how often it looked.
    fn looks(fails: &[Refusal]) -> (Result<(), Refusal>, usize) {
        let mut looks = 0;
        let found = tried(|| {
            looks += 1;
            fails.get(looks - 1).cloned().map_or(Ok(()), Err)
        });
        (found, looks)
    }

    #[test]
    fn a_heap_that_changes_while_it_is_looked_at_is_looked_at_again() {
        const ODD: Refusal = Refusal::Odd("the spaces of its heap");
        assert_eq!(looks(&[]), (Ok(()), 1));
        assert_eq!(looks(&[ODD, ODD, ODD]), (Ok(()), 4));
        assert_eq!(looks(&[ODD; 9]), (Err(ODD), TRIES as usize));
        let for_good = Refusal::NotAnonymous;
        assert_eq!(looks(&[ODD, for_good.clone()]), (Err(for_good), 2));
    }

    #[test]
    fn every_pause_is_prolonged_by_a_bounded_time() {
        for kind in [Kind::Unknown, Kind::Young, Kind::Concurrent] {
            assert_eq!(longest(kind), MAX_PAUSE);
        }
        assert_eq!(longest(Kind::Full), MAX_WHOLE);
    }
}
