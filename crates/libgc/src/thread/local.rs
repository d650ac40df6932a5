//! Two words of thread-local storage at a fixed distance from the thread pointer.
//!
//! Rust's own thread locals cost a call of the loader in a shared library, and allocation must be
//! faster than that. So these use the initial-exec model, which is open to libraries that are
//! loaded with the program, and to libraries loaded later that need little of it.

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

/// The first of the two words.
#[inline(always)]
pub(crate) fn place() -> *mut usize {
    let place: *mut usize;
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
