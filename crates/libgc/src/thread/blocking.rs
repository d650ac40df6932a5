//! Blocking regions, in which a thread does not touch objects, so that nobody waits for it to stop.
//! The part of its stack that was in use at the beginning does not change until the end.

use super::{Section, current};
use crate::state;
use libc::c_void;
use std::arch::asm;
use std::sync::atomic::Ordering::Relaxed;

type Function = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// The callee-saved registers. The caller has put all other values that it needs on its stack.
#[cfg(target_arch = "x86_64")]
type Registers = [usize; 6];
#[cfg(target_arch = "aarch64")]
type Registers = [usize; 12];

/// Calls `then` with this thread's registers saved on its stack, and passes their address. Frames
/// below that address are the collector's, and their contents keep nothing alive.
#[inline(never)]
pub(crate) fn with_registers<R>(then: impl FnOnce(usize) -> R) -> R {
    let mut registers: Registers = Default::default();
    let place = (&raw mut registers) as usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: writes into the array.
    unsafe {
        asm!(
            "mov [{place}], rbx", "mov [{place} + 8], rbp", "mov [{place} + 16], r12",
            "mov [{place} + 24], r13", "mov [{place} + 32], r14", "mov [{place} + 40], r15",
            place = in(reg) place,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: writes into the array.
    unsafe {
        asm!(
            "stp x19, x20, [{place}]", "stp x21, x22, [{place}, 16]", "stp x23, x24, [{place}, 32]",
            "stp x25, x26, [{place}, 48]", "stp x27, x28, [{place}, 64]", "str x29, [{place}, 80]",
            place = in(reg) place,
            options(nostack, preserves_flags),
        );
    }
    let result = then(place);
    std::hint::black_box(&registers);
    result
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_do_blocking(
    function: Function,
    argument: *mut c_void,
) -> *mut c_void {
    with_registers(|here| {
        block_at(here);
        let _again = ActiveAgain;
        // SAFETY: what the caller asks for.
        unsafe { function(argument) }
    })
}

/// Marks this thread as blocked at the address `here`. With 0, marks it as active, and waits while
/// the world is stopped.
fn block_at(here: usize) {
    let _gc = state::lock();
    // Looked up again each time: the thread may have been unregistered meanwhile.
    // SAFETY: this thread's own; under the lock.
    if let Some(this) = unsafe { current::get().as_ref() } {
        this.blocked_at.store(here, Relaxed);
    }
}

/// Ends a blocking region when it is dropped, by whatever path.
struct ActiveAgain;

impl Drop for ActiveAgain {
    fn drop(&mut self) {
        // Until this thread has the lock, it stays blocked, and so does a signal handler that
        // interrupts this.
        block_at(0);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_call_with_gc_active(
    function: Function,
    argument: *mut c_void,
) -> *mut c_void {
    let thread = current::get();
    let gc = state::lock();
    // SAFETY: this thread's own; under the lock.
    let blocked_at = unsafe { thread.as_ref() }.map_or(0, |this| this.blocked_at.load(Relaxed));
    if blocked_at == 0 {
        drop(gc);
        // SAFETY: what the caller asks for.
        return unsafe { function(argument) };
    }
    let mut section = Section {
        blocked_at,
        before: std::ptr::null(),
    };
    // SAFETY: not null, see above; under the lock.
    unsafe {
        section.before = (*thread).sections;
        (*thread).sections = &raw const section;
        (*thread).blocked_at.store(0, Relaxed);
    }
    drop(gc);
    let _again = BlockedAgain(&section);
    // SAFETY: what the caller asks for.
    unsafe { function(argument) }
}

/// Continues the blocking region around a section when it is dropped, by whatever path.
struct BlockedAgain<'a>(&'a Section);

impl Drop for BlockedAgain<'_> {
    fn drop(&mut self) {
        let _gc = state::lock();
        // SAFETY: this thread's own, if it has not left; under the lock. The section is its innermost.
        if let Some(this) = unsafe { current::get().as_mut() } {
            this.sections = self.0.before;
            this.blocked_at.store(self.0.blocked_at, Relaxed);
        }
    }
}
