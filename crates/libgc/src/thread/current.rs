//! The current thread, in a [word of its own](super::local).
//! A second word holds the same value while the thread may allocate without the lock and uncounted.

use super::local;
use super::record::Thread;
use crate::abi::variables::finds_leaks;
use crate::quantum;
use plimsoll_heap::Heap;

/// The word of the current thread; the second one is behind it.
#[inline(always)]
fn place() -> *mut *mut Thread {
    local::place().cast()
}

/// The current thread if it is registered, else null.
#[inline(always)]
pub(crate) fn get() -> *mut Thread {
    // SAFETY: this thread's own word.
    unsafe { *place() }
}

/// The same, but also null if every object must be allocated with the lock, or counted.
#[inline(always)]
pub(crate) fn quick() -> *mut Thread {
    // SAFETY: this thread's own second word.
    unsafe { *place().add(1) }
}

/// Sets the current thread; null for none.
pub(crate) fn set(thread: *mut Thread) {
    // SAFETY: this thread's own words.
    unsafe {
        *place() = thread;
        *place().add(1) = if finds_leaks() || quantum::is_on() {
            std::ptr::null_mut()
        } else {
            thread
        };
    }
}

/// Counts what this thread's bins handed out as allocated. The caller holds the collector's lock.
pub(crate) fn count_bins(heap: &Heap) {
    // SAFETY: this thread's own.
    if let Some(thread) = unsafe { get().as_mut() } {
        thread.bins.count(heap);
    }
}

/// From now on, this thread allocates every object with the lock.
pub(crate) fn no_quick() {
    // SAFETY: this thread's own second word.
    unsafe { *place().add(1) = std::ptr::null_mut() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        let here = std::ptr::dangling_mut::<Thread>();
        set(here);
        std::thread::spawn(|| assert!(get().is_null()))
            .join()
            .unwrap();
        assert_eq!(get(), here);
        set(std::ptr::null_mut());
    }
}
