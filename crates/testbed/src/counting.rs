//! An allocator that counts what a thread has allocated. A test makes it its own:
//!
//! ```ignore
//! #[global_allocator]
//! static COUNTING: Counting = Counting;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that this thread has allocated, and the most since [`peak_of`] began.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    /// Now, and the most. This thread only: that of the test harness may allocate at any time. The count is
    /// negative if this thread frees memory of another.
    static BYTES: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    let (now, most) = BYTES.get();
    let now = now + bytes;
    BYTES.set((now, most.max(now)));
}

// SAFETY: hands everything to the system's allocator unchanged; only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The most bytes that were allocated at once beyond those before, while something was done.
pub fn peak_of<R>(done: impl FnOnce() -> R) -> (isize, R) {
    let (before, _) = BYTES.get();
    BYTES.set((before, before));
    let result = done();
    (BYTES.get().1 - before, result)
}
