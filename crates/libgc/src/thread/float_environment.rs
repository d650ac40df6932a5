//! The program's floating-point environment. A program may let exceptions of floating-point numbers raise
//! SIGFPE (`feenableexcept`; ECL does), round otherwise, or flush small numbers to zero. The collector
//! computes with floating-point numbers, too, and Rust's code counts on the usual environment.

use std::arch::asm;

/// The control register as the system sets it up: exceptions are masked, numbers rounded to the nearest.
#[cfg(target_arch = "x86_64")]
const USUAL: u32 = 0x1f80;
#[cfg(target_arch = "aarch64")]
const USUAL: u64 = 0;

/// While this value lives, this thread has the usual environment. The program's comes back when it is
/// dropped, with the flags of exceptions that the program raised.
pub(crate) struct FloatEnvironment {
    #[cfg(target_arch = "x86_64")]
    before: u32,
    #[cfg(target_arch = "aarch64")]
    before: u64,
}

impl FloatEnvironment {
    pub(crate) fn begin() -> FloatEnvironment {
        #[cfg(target_arch = "x86_64")]
        let before = {
            let mut before = 0u32;
            // SAFETY: writes into the variable.
            unsafe {
                asm!("stmxcsr [{place}]", place = in(reg) &raw mut before,
                     options(nostack, preserves_flags));
            }
            before
        };
        #[cfg(target_arch = "aarch64")]
        let before = {
            let before: u64;
            // SAFETY: reads a register.
            unsafe { asm!("mrs {before}, fpcr", before = out(reg) before, options(nostack)) };
            before
        };
        set(USUAL);
        FloatEnvironment { before }
    }
}

impl Drop for FloatEnvironment {
    fn drop(&mut self) {
        set(self.before);
    }
}

/// Sets this thread's control register.
#[cfg(target_arch = "x86_64")]
fn set(to: u32) {
    // SAFETY: the value is the usual one, or was in the register before.
    unsafe {
        asm!("ldmxcsr [{place}]", place = in(reg) &raw const to, options(nostack, preserves_flags));
    };
}
#[cfg(target_arch = "aarch64")]
fn set(to: u64) {
    // SAFETY: the value is the usual one, or was in the register before.
    unsafe { asm!("msr fpcr, {to}", to = in(reg) to, options(nostack)) };
}
