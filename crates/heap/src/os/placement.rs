//! A place for a heap: addresses that nobody uses, far from those that the kernel gives out.
//!
//! Nothing is mapped there before it is needed. A mapping that reserved the addresses would count
//! against a limit on them (`ulimit -v`), even one that is set later, and the rest of the program
//! would find none: its stacks, `malloc`, libraries. (Go's runtime grows in the same way.)

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::ptr::without_provenance_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The end of the addresses of most processes; where there are more, they are not used.
const MOST: usize = 1 << 47;

/// The part of all addresses in which heaps are placed, in 128ths. In a process with 128 TiB the upper
/// two bytes of these addresses are no text, so that text is not taken for references. It lies above
/// the shadow of the address sanitizer, and below everything that the kernel places.
const FROM: usize = 17;
const TO: usize = 31;

/// How many places are tried.
const TRIES: usize = 8;

/// The places of this process's heaps. Only a heap that is made or dropped takes the lock.
static PLACES: Mutex<Places> = Mutex::new(Places {
    taken: BTreeMap::new(),
    next: 0,
});

struct Places {
    /// The end of each place that a heap has, by its first address. Places do not overlap.
    taken: BTreeMap<usize, usize>,
    /// Where the next place is looked for; 0 before the first one.
    next: usize,
}

impl Places {
    /// A range of `bytes` bytes that no heap has, at `next` or after it, or after a random address
    /// where `next` is too near to the end of the window.
    fn free(&self, bytes: usize, alignment: usize, window: &Range<usize>) -> Option<Range<usize>> {
        let room = window.len().checked_sub(bytes.checked_add(alignment)?)?;
        // As for what the kernel places, nobody is to know the address in advance.
        let random = RandomState::new().hash_one(self.next) as usize;
        let random = chosen(window.start, room, random);
        let starts = [self.next.max(window.start), random, window.start];
        let from = usize::from(self.next == 0);
        starts.into_iter().skip(from).find_map(|start| {
            let mut start = start.next_multiple_of(alignment);
            for (&first, &end) in self.taken.range(self.before(start)..) {
                if first >= start + bytes {
                    break;
                }
                start = start.max(end).next_multiple_of(alignment);
            }
            (start + bytes <= window.end).then_some(start..start + bytes)
        })
    }

    /// The first address of the place that begins last at or before an address; 0 if there is none.
    fn before(&self, address: usize) -> usize {
        let before = self.taken.range(..=address).next_back();
        before.map_or(0, |(&first, _)| first)
    }
}

/// The addresses in which heaps are placed. The stack is at the end of all addresses.
fn window() -> Range<usize> {
    let here = 0u8;
    let all = (&raw const here).addr().next_power_of_two().min(MOST);
    all / 128 * FROM..all / 128 * TO
}

/// Finds `bytes` bytes of addresses, aligned to `alignment`, at which nothing is mapped.
///
/// # Errors
/// There is no such place, or the kernel maps nothing at a given address.
pub(super) fn find(bytes: usize, alignment: usize) -> io::Result<Range<usize>> {
    let window = window();
    let mut places = places();
    for _ in 0..TRIES {
        let found = places.free(bytes, alignment, &window);
        let place = found.ok_or(io::ErrorKind::OutOfMemory)?;
        places.next = place.end;
        if is_free(place.clone())? {
            places.taken.insert(place.start, place.end);
            return Ok(place);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Gives back the place that begins at an address.
pub(super) fn give_back(start: usize) {
    places().taken.remove(&start);
}

fn places() -> MutexGuard<'static, Places> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An address of `room` bytes of them from `start`, or `start` where there is no choice.
fn chosen(start: usize, room: usize, random: usize) -> usize {
    start + random.checked_rem(room).unwrap_or(0)
}

/// Whether nothing is mapped in a range, as far as a limit on addresses allows to find out.
fn is_free(range: Range<usize>) -> io::Result<bool> {
    /// A part that fits in any limit.
    const PART: usize = 64 << 10;
    for bytes in [range.len(), PART.min(range.len())] {
        match map(range.start..range.start + bytes, ProtFlags::empty()) {
            Ok(()) => {
                // SAFETY: mapped just now; nobody has seen it.
                unsafe { munmap(without_provenance_mut(range.start), bytes)? };
                return Ok(true);
            }
            Err(Errno::EXIST) => return Ok(false),
            Err(Errno::NOMEM) => {}
            Err(why) => return Err(why.into()),
        }
    }
    Err(io::ErrorKind::OutOfMemory.into())
}

/// Maps a range, if nothing is mapped there.
pub(super) fn map(range: Range<usize>, protection: ProtFlags) -> Result<(), Errno> {
    let start = without_provenance_mut(range.start);
    // SAFETY: a new mapping, which takes the place of no other.
    let found = unsafe {
        mmap_anonymous(
            start,
            range.len(),
            protection,
            MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE,
        )?
    };
    if found != start {
        // Before Linux 4.17, the address is only a hint.
        // SAFETY: mapped just now; nobody has seen it.
        unsafe { munmap(found, range.len())? };
        return Err(Errno::OPNOTSUPP);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_heap_that_needs_the_whole_window_is_placed_at_its_start() {
        assert_eq!(chosen(4096, 0, 77), 4096);
        assert_eq!(chosen(4096, 10, 77), 4103);
    }

    proptest! {
        /// Places are taken and given back until the window is full and empty again, several times.
        #[test]
        fn no_two_heaps_have_the_same_place(
            steps in proptest::collection::vec((any::<bool>(), 1usize..40, any::<usize>()), 1..200),
        ) {
            let window = 1000..1200;
            let mut places = Places { taken: BTreeMap::new(), next: 0 };
            for (frees, bytes, which) in steps {
                let count = places.taken.len();
                if frees && count > 0 {
                    let start = *places.taken.keys().nth(which % count).unwrap();
                    places.taken.remove(&start);
                } else if let Some(place) = places.free(bytes, 4, &window) {
                    prop_assert!(place.start % 4 == 0 && place.len() == bytes);
                    prop_assert!(place.start >= window.start && place.end <= window.end);
                    let overlaps = |(&first, &end): (&usize, &usize)| first < place.end && end > place.start;
                    prop_assert!(!places.taken.iter().any(overlaps));
                    places.next = place.end;
                    places.taken.insert(place.start, place.end);
                } else {
                    // The search went through the whole window: no gap is long enough.
                    let ends = [window.start].into_iter().chain(places.taken.values().copied());
                    for end in ends.map(|end| end.next_multiple_of(4)) {
                        let next = places.taken.range(end..).next();
                        prop_assert!(end + bytes > next.map_or(window.end, |(&first, _)| first));
                    }
                }
            }
        }
    }
}
