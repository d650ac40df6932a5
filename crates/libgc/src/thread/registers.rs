//! A thread's registers on its stack, where a collection finds them.

use std::arch::asm;

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
