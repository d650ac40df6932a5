//! The memory of this library's own tables and stacks: not the program's `malloc`, which may be under
//! way when a thread is stopped, and may call this library.

use dlmalloc::GlobalDlmalloc;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;

/// A place of at least this many bytes is a mapping of its own, as in the C library. Tables that grow or
/// are dropped would otherwise leave memory that nothing else is large enough to use.
const LARGE: usize = 256 << 10;

/// The smallest page of any kernel: mappings are aligned to it.
const ALIGNED: usize = 4096;

pub(crate) struct Own;

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= ALIGNED
}

/// A mapping of `bytes` bytes; null if the kernel refuses.
fn map(bytes: usize) -> *mut u8 {
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping.
    let place = unsafe { mmap_anonymous(null_mut(), bytes, both, MapFlags::PRIVATE) };
    place.map_or(null_mut(), |place| place.cast())
}

// SAFETY: a large layout always is a mapping of its own, and each other one is dlmalloc's.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            map(layout.size())
        } else {
            // SAFETY: the caller's promise.
            unsafe { GlobalDlmalloc.alloc(layout) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            map(layout.size())
        } else {
            // SAFETY: the caller's promise.
            unsafe { GlobalDlmalloc.alloc_zeroed(layout) }
        }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if is_large(layout) {
            // A mapping that the kernel does not take back stays as it is: this fails where a program has no
            // mappings left.
            // SAFETY: a mapping of `map` that nobody uses any more.
            let _ = unsafe { munmap(place.cast(), layout.size()) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { GlobalDlmalloc.dealloc(place, layout) }
        }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise: `bytes` is valid with this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        match (is_large(layout), is_large(new)) {
            // SAFETY: the caller's promise.
            (false, false) => unsafe { GlobalDlmalloc.realloc(place, layout, bytes) },
            (true, true) => {
                // SAFETY: a mapping of `map`, which the caller does not use at its old place.
                let moved =
                    unsafe { mremap(place.cast(), layout.size(), bytes, MremapFlags::MAYMOVE) };
                moved.map_or(null_mut(), |place| place.cast())
            }
            _ => {
                // SAFETY: a new place of at least the bytes that are copied; the old one is freed only
                // if there is a new one.
                unsafe {
                    let other = self.alloc(new);
                    if !other.is_null() {
                        other.copy_from_nonoverlapping(place, layout.size().min(bytes));
                        self.dealloc(place, layout);
                    }
                    other
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_stays_while_it_grows_and_shrinks() {
        let layout = |bytes| Layout::from_size_align(bytes, 8).unwrap();
        let sizes = [
            100,
            LARGE - 1,
            LARGE,
            LARGE * 9 + 1,
            LARGE * 2,
            5000,
            LARGE * 3,
        ];
        let mut bytes = 64;
        // SAFETY: each place is used with the layout that it was allocated with last.
        unsafe {
            let mut place = Own.alloc(layout(bytes));
            place.write_bytes(7, 64);
            for size in sizes {
                place = Own.realloc(place, layout(bytes), size);
                assert!(!place.is_null(), "{size}");
                bytes = size;
                place.add(bytes - 1).write(9);
                let first = std::slice::from_raw_parts(place, 64);
                assert!(first.iter().all(|&byte| byte == 7), "{size}");
            }
            Own.dealloc(place, layout(bytes));
        }
    }

    #[test]
    fn large_memory_goes_back_when_it_is_freed() {
        let layout = Layout::from_size_align(LARGE, 8).unwrap();
        // SAFETY: freed once, with its layout; the kernel only tells about the place afterwards.
        unsafe {
            let place = Own.alloc_zeroed(layout);
            place.write(1);
            Own.dealloc(place, layout);
            let mut there = 0u8;
            assert_eq!(libc::mincore(place.cast(), 1, &raw mut there), -1);
        }
    }
}
