//! The current thread: a word of thread-local storage at a fixed distance from the thread pointer.
//! A second word holds the same value while the thread may allocate without the lock and uncounted.
//!
//! Rust's own thread locals cost a call of the loader in a shared library, and allocation must be
//! faster than that. So these use the initial-exec model, which is open to libraries that are
//! loaded with the program, and to libraries loaded later that need little of it.

use super::Thread;
use crate::{leaks, quantum};
use plimsoll_heap::Heap;
use std::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.plimsoll_gc_thread,\"awT\",@nobits",
    ".balign 8",
    ".globl plimsoll_gc_thread",
    ".hidden plimsoll_gc_thread",
    ".type plimsoll_gc_thread, @object",
    ".size plimsoll_gc_thread, 16",
    "plimsoll_gc_thread:",
    ".zero 16",
    ".popsection",
);

#[inline(always)]
fn place() -> *mut *mut Thread {
    let place: *mut *mut Thread;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the address of this thread's word: its distance from the thread pointer, which is
    // stored at fs:0.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + plimsoll_gc_thread@GOTTPOFF]",
            "add {place}, qword ptr fs:[0]",
            place = out(reg) place,
            options(nostack, readonly),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; the thread pointer is tpidr_el0.
    unsafe {
        asm!(
            "adrp {place}, :gottprel:plimsoll_gc_thread",
            "ldr {place}, [{place}, :gottprel_lo12:plimsoll_gc_thread]",
            "mrs {pointer}, tpidr_el0",
            "add {place}, {place}, {pointer}",
            place = out(reg) place,
            pointer = out(reg) _,
            options(nostack, readonly),
        );
    }
    place
}

/// A number that no other thread has, registered or not. Never 0.
#[inline(always)]
pub(crate) fn id() -> usize {
    place() as usize
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
pub(super) fn set(thread: *mut Thread) {
    // SAFETY: this thread's own words.
    unsafe {
        *place() = thread;
        *place().add(1) = if leaks::wanted() || quantum::is_on() {
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
