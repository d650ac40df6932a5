//! The spaces of a Serial or Parallel heap, and giving back what is free in them. A space has objects from
//! its bottom to its top; what is between top and end is free. Why that may be done stands at the head
//! of `heap`.

use crate::heap::{Free, Looked};
use crate::machine::{Machine, Refusal, word};
use crate::ranges::{Giver, not_anonymous, reserved};
use plimsoll_wire::collections::{Collector, Kind};

/// Spaces of a heap.
pub const COUNT: usize = 4;
/// Reads until the bounds of a space agree with each other: the program may allocate meanwhile.
const TRIES: usize = 4;
/// Why a heap is left alone whose spaces are not as they should be.
const ODD: Refusal = Refusal::Odd("the spaces of its heap");

/// The use of a space, in the order in which free memory is left resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// One of the two that survivors are copied to, within pauses.
    Survivors,
    /// Where the program allocates.
    Eden,
    /// Old objects.
    Old,
}

/// The bounds of a space at one moment: addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bounds {
    bottom: u64,
    top: u64,
    end: u64,
}

/// One space.
#[derive(Clone, Copy, Debug)]
struct Space {
    is: Use,
    /// Where its bounds are kept: addresses of `bottom`, `top` and `end`.
    places: [u64; 3],
    /// Its bounds at the last look; changed within pauses.
    last: Bounds,
    /// Nothing at or above this address has been touched since it was given back; changed within
    /// pauses.
    high: u64,
}

/// Bytes of objects of both generations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    young: u64,
    old: u64,
}

impl Used {
    /// Whether a pause that left this, and found `before`, collected the whole heap, as far as that can be
    /// told: a young collection frees nothing of the old generation, and leaves survivors. To take each pause
    /// for a whole one would give what is free back again each time.
    fn is_after_whole(self, before: Used) -> bool {
        self.old < before.old || (self.young == 0 && before.young > 0)
    }
}

/// The spaces of a heap. Used within pauses, by the VM Thread.
#[derive(Debug)]
pub struct Spaces {
    spaces: [Space; COUNT],
    /// The reserved heap: first address, and one past the last.
    heap: (u64, u64),
    /// Bytes of the eden that the program took before the pause that is under way.
    taken: u64,
}

impl Spaces {
    /// Finds the spaces.
    ///
    /// # Errors
    /// Whenever anything is not as it was when this was tried.
    pub fn of(machine: &Machine) -> Result<Spaces, Refusal> {
        let heap = reserved(machine)?;
        let mut is_anonymous = true;
        not_anonymous(heap, |_, _| is_anonymous = false)?;
        if !is_anonymous {
            return Err(Refusal::NotAnonymous);
        }
        let places = match machine.collector() {
            Collector::Serial => serial(machine)?,
            _ => parallel(machine)?,
        };
        let mut spaces = Spaces {
            spaces: places.map(|(is, places)| Space {
                is,
                places,
                last: Bounds::default(),
                high: u64::MAX,
            }),
            heap,
            taken: 0,
        };
        spaces.check()?;
        Ok(spaces)
    }

    /// Reads all bounds for the first time, with care.
    fn check(&mut self) -> Result<(), Refusal> {
        for index in 0..COUNT {
            let read = || self.read_with_care(&self.spaces[index]);
            let bounds = (0..TRIES).find_map(|_| read());
            self.spaces[index].last = bounds.ok_or(ODD)?;
        }
        self.check_apart()
    }

    /// Whether no two spaces have memory in common, as they were at the last look.
    fn check_apart(&self) -> Result<(), Refusal> {
        let mut all = self.spaces.map(|space| (space.last.bottom, space.last.end));
        all.sort_unstable();
        if all.windows(2).all(|pair| pair[0].1 <= pair[1].0) {
            Ok(())
        } else {
            Err(ODD)
        }
    }

    fn read_with_care(&self, space: &Space) -> Option<Bounds> {
        let [bottom, top, end] = space.places;
        // The top rises while the program runs, so it is read before the end.
        let bounds = Bounds {
            bottom: word(bottom)?,
            top: word(top)?,
            end: word(end)?,
        };
        self.is_sane(&bounds).then_some(bounds)
    }

    fn is_sane(&self, bounds: &Bounds) -> bool {
        let &Bounds { bottom, top, end } = bounds;
        let (first, last) = self.heap;
        first <= bottom
            && bottom <= top
            && top <= end
            && end <= last
            && (bottom | top | end) % 8 == 0
    }

    /// The bounds of a space within a pause.
    fn read(&self, space: &Space) -> Option<Bounds> {
        // SAFETY: `check` read the three words and found the bounds of a space of the heap there; the
        // machine keeps the object for its life, and changes it at safepoints or by atomics only.
        let [bottom, top, end] = space
            .places
            .map(|at| unsafe { (at as *const u64).read_volatile() });
        let bounds = Bounds { bottom, top, end };
        self.is_sane(&bounds).then_some(bounds)
    }

    /// Called when a pause begins: how far the program has filled the spaces.
    ///
    /// # Errors
    /// If a space is odd.
    pub(crate) fn begin(&mut self) -> Result<(), Refusal> {
        self.taken = 0;
        for index in 0..COUNT {
            let before = self.spaces[index].last.top;
            self.look(index)?;
            let space = &self.spaces[index];
            if space.is == Use::Eden {
                self.taken += space.last.top.saturating_sub(before);
            }
        }
        Ok(())
    }

    /// Called when a pause ends. `kind`: what it was for.
    ///
    /// # Errors
    /// If a space is odd, or two have memory in common.
    pub(crate) fn look_at_end(&mut self, kind: Kind) -> Result<Looked, Refusal> {
        let before = self.used();
        for index in 0..COUNT {
            self.look(index)?;
        }
        self.check_apart()?;
        let is_whole = match kind {
            Kind::Young => false,
            Kind::Unknown => self.used().is_after_whole(before),
            Kind::Full | Kind::Concurrent => true,
        };
        let mut looked = Looked {
            used: 0,
            taken: self.taken,
        };
        for space in &mut self.spaces {
            if is_whole {
                // It may have been filled beyond where its objects end now.
                space.high = space.last.end;
            }
            let used = space.last.top - space.last.bottom;
            looked.used += used;
            // As much is copied into the other space next time.
            if space.is == Use::Survivors {
                looked.taken = looked.taken.saturating_add(used);
            }
        }
        Ok(looked)
    }

    /// After that look: gives back what is free, except for `keep` bytes; nothing without `keep`. `used`:
    /// bytes of objects.
    ///
    /// # Errors
    /// If the kernel refuses.
    ///
    /// # Safety
    /// With `keep`: at the safepoint at which `Spaces::look_at_end` looked, and these are spaces of the
    /// heap.
    pub unsafe fn give_back(
        &mut self,
        keep: Option<u64>,
        used: u64,
        giver: &Giver,
    ) -> Result<Free, Refusal> {
        let mut sum = Free {
            used,
            ..Free::default()
        };
        let mut left = keep.unwrap_or(u64::MAX);
        for wanted in [Use::Survivors, Use::Eden, Use::Old] {
            for space in &mut self.spaces {
                if space.is != wanted {
                    continue;
                }
                // The old generation grows slowly: what is free there is wanted last.
                // SAFETY: as the caller promises.
                let free = unsafe { space.give_back(left, giver)? };
                left = left.saturating_sub(free.kept);
                sum.free += free.free;
                sum.kept += free.kept;
                sum.given_back += free.given_back;
            }
        }
        Ok(sum)
    }

    /// Bytes that held objects at the last look.
    fn used(&self) -> Used {
        let mut used = Used::default();
        for space in &self.spaces {
            let bytes = space.last.top - space.last.bottom;
            match space.is {
                Use::Old => used.old += bytes,
                Use::Eden | Use::Survivors => used.young += bytes,
            }
        }
        used
    }

    /// Notes how far a space may have been touched.
    fn look(&mut self, index: usize) -> Result<(), Refusal> {
        let bounds = self.read(&self.spaces[index]).ok_or(ODD)?;
        let space = &mut self.spaces[index];
        let moved = (space.last.bottom, space.last.end) != (bounds.bottom, bounds.end);
        space.high = if moved {
            bounds.end
        } else {
            space.high.max(bounds.top).min(bounds.end)
        };
        space.last = bounds;
        Ok(())
    }
}

impl Space {
    /// Gives back its free memory that may be resident, except for the first `keep` bytes.
    ///
    /// # Safety
    /// As [`Spaces::give_back`].
    unsafe fn give_back(&mut self, keep: u64, giver: &Giver) -> Result<Free, Refusal> {
        let Bounds { top, end, .. } = self.last;
        let mut free = Free {
            free: end - top,
            kept: self.high - top,
            ..Free::default()
        };
        let (from, to) = whole_pages(top, keep, self.high, end, giver.page());
        if from < to {
            // SAFETY: whole pages strictly between top and end of a space, read at this safepoint.
            let given = unsafe { giver.give(from, to)? };
            if given < to {
                self.high = given;
            }
            free.kept = given - top;
            free.given_back = to - given;
        }
        Ok(free)
    }
}

/// The whole pages between `top + keep` and `high` (both addresses), and below `end`. An empty range,
/// possibly turned round, if there are none.
fn whole_pages(top: u64, keep: u64, high: u64, end: u64, page: u64) -> (u64, u64) {
    let from = top.saturating_add(keep).checked_next_multiple_of(page);
    let to = high.checked_next_multiple_of(page).unwrap_or(u64::MAX);
    (from.unwrap_or(u64::MAX), to.min(end / page * page))
}

type Places = [(Use, [u64; 3]); COUNT];

fn serial(machine: &Machine) -> Result<Places, Refusal> {
    let heap = machine.static_pointer("Universe", "_collectedHeap")?;
    let of_heap = |name| {
        if machine.has("SerialHeap", name) {
            machine.pointer(heap, "SerialHeap", name)
        } else {
            machine.pointer(heap, "GenCollectedHeap", name)
        }
    };
    let (young, old) = (of_heap("_young_gen")?, of_heap("_old_gen")?);
    let of_young = |name| machine.pointer(young, "DefNewGeneration", name);
    let spaces = [
        (Use::Eden, of_young("_eden_space")?),
        (Use::Survivors, of_young("_from_space")?),
        (Use::Survivors, of_young("_to_space")?),
        (
            Use::Old,
            machine.pointer(old, "TenuredGeneration", "_the_space")?,
        ),
    ];
    places(machine, spaces, ["ContiguousSpace", "Space"])
}

fn parallel(machine: &Machine) -> Result<Places, Refusal> {
    let young = machine.static_pointer("ParallelScavengeHeap", "_young_gen")?;
    let old = machine.static_pointer("ParallelScavengeHeap", "_old_gen")?;
    let of_young = |name| machine.pointer(young, "PSYoungGen", name);
    let spaces = [
        (Use::Eden, of_young("_eden_space")?),
        (Use::Survivors, of_young("_from_space")?),
        (Use::Survivors, of_young("_to_space")?),
        (Use::Old, machine.pointer(old, "PSOldGen", "_object_space")?),
    ];
    places(machine, spaces, ["MutableSpace", "ImmutableSpace"])
}

/// Where the bounds of spaces are. `kinds`: the type of a space, and the one that it builds on, to which
/// some of the fields belong in some versions.
fn places(
    machine: &Machine,
    spaces: [(Use, u64); COUNT],
    kinds: [&'static str; 2],
) -> Result<Places, Refusal> {
    let mut found = spaces.map(|(is, _)| (is, [0; 3]));
    for (found, (_, space)) in found.iter_mut().zip(spaces) {
        for (place, name) in found.1.iter_mut().zip(["_bottom", "_top", "_end"]) {
            let kind = kinds.into_iter().find(|kind| machine.has(kind, name));
            *place = machine.at(space, kind.unwrap_or(kinds[0]), name)?;
            if *place % 8 != 0 {
                return Err(ODD);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
#[path = "spaces_tests.rs"]
mod tests;
