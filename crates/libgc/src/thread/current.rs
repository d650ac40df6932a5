//! Which thread this is: a word of thread-local storage at a fixed distance from the thread
//! pointer. A second word is the same where the thread may allocate without the lock.
//!
//! Rust's own thread locals in a shared library cost a call of the loader's; allocation is faster
//! than that. So these are declared for the initial-exec model, which libraries that are loaded
//! with a program, or later and small, may use.

use super::Thread;
use crate::leaks;
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

/// A number that no other thread has, registered or not, and that is not 0.
#[inline(always)]
pub(crate) fn id() -> usize {
    place() as usize
}

/// The registered thread that this is, or null.
#[inline(always)]
pub(crate) fn get() -> *mut Thread {
    // SAFETY: this thread's own word.
    unsafe { *place() }
}

/// The same, or null where every object is to go through the lock.
#[inline(always)]
pub(crate) fn quick() -> *mut Thread {
    // SAFETY: this thread's own second word.
    unsafe { *place().add(1) }
}

/// Says which registered thread this is; null for none.
pub(super) fn set(thread: *mut Thread) {
    // SAFETY: this thread's own words.
    unsafe {
        *place() = thread;
        *place().add(1) = if leaks::wanted() {
            std::ptr::null_mut()
        } else {
            thread
        };
    }
}

/// From now on every object of this thread's goes through the lock.
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
