//! A place for a heap: addresses that nobody uses, far from those that the kernel gives out.
//!
//! Nothing is mapped there before it is needed. A mapping that reserved the addresses would count
//! against a limit on them (`ulimit -v`), even one that is set later, and the rest of the program
//! would find none: its stacks, `malloc`, libraries. (Go's runtime grows in the same way.)

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The end of the addresses of most processes; where there are more, they are not used.
const MOST: usize = 1 << 47;

/// The part of all addresses in which heaps are placed, in 128ths. In a process with 128 TiB the upper
/// two bytes of these addresses are no text, so that text is not taken for references. It lies above
/// the shadow of the address sanitizer, and below everything that the kernel places.
const FROM: usize = 17;
const TO: usize = 31;

/// How many places are tried.
const TRIES: usize = 8;

/// Where the next heap of this process is placed, or 0: no two heaps have the same place.
static NEXT: AtomicUsize = AtomicUsize::new(0);

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
    let room = window.len().checked_sub(bytes.saturating_add(alignment));
    let room = room.ok_or(io::ErrorKind::OutOfMemory)?;
    for _ in 0..TRIES {
        let last = NEXT.load(Relaxed);
        let mut start = last.next_multiple_of(alignment);
        if last == 0 || start + bytes > window.end {
            // As for what the kernel places, nobody is to know the address in advance.
            let random = RandomState::new().hash_one(last) as usize;
            start = chosen(window.start, room, random).next_multiple_of(alignment);
        }
        let next = start + bytes;
        if NEXT.compare_exchange(last, next, Relaxed, Relaxed).is_ok() && is_free(start..next)? {
            return Ok(start..next);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
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

    #[test]
    fn a_heap_that_needs_the_whole_window_is_placed_at_its_start() {
        assert_eq!(chosen(4096, 0, 77), 4096);
        assert_eq!(chosen(4096, 10, 77), 4103);
    }
}
