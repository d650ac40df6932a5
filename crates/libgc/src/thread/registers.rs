//! A thread's registers on its stack, where a collection finds them.

use std::arch::asm;

/// The callee-saved registers. The caller has put all other values that it needs on its stack.
#[cfg(target_arch = "x86_64")]
type Registers = [usize; 6];

/// With those of floating-point numbers: a compiler may keep an address in one of them for a while.
#[cfg(target_arch = "aarch64")]
type Registers = [usize; 20];

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
            "stp x25, x26, [{place}, 48]", "stp x27, x28, [{place}, 64]", "stp x29, x30, [{place}, 80]",
            "stp d8, d9, [{place}, 96]", "stp d10, d11, [{place}, 112]",
            "stp d12, d13, [{place}, 128]", "stp d14, d15, [{place}, 144]",
            place = in(reg) place,
            options(nostack, preserves_flags),
        );
    }
    let result = then(place);
    std::hint::black_box(&registers);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many registers as a call keeps, and the array above holds.
    #[cfg(target_arch = "x86_64")]
    const KEPT: usize = 6;
    #[cfg(target_arch = "aarch64")]
    const KEPT: usize = 19;

    /// A value that is nowhere but in a register: whoever looks for it has only its opposite.
    fn value(number: usize) -> usize {
        !std::hint::black_box(0x5eed_0000_0000_0000 + number)
    }

    /// The registers whose values are on the stack between the told address and `top`, as bits.
    extern "C" fn found(top: usize) -> u64 {
        with_registers(|here| {
            let words = (here..top).step_by(size_of::<usize>());
            // SAFETY: the stack of this thread, in use.
            let words = words.map(|at| unsafe { (at as *const usize).read_volatile() });
            words.fold(0, |found, word| {
                let number = (!word).wrapping_sub(0x5eed_0000_0000_0000);
                found | if number < KEPT { 1 << number } else { 0 }
            })
        })
    }

    /// Calls [`found`] with a value in each register that it has to keep.
    #[cfg(target_arch = "x86_64")]
    fn with_values(values: &[usize; KEPT]) -> u64 {
        let result;
        // SAFETY: all registers have their values again at the end, but for those that a call may change.
        unsafe {
            asm!(
                "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
                "mov rdi, rsp",
                "mov rbx, [rsi]", "mov rbp, [rsi + 8]", "mov r12, [rsi + 16]",
                "mov r13, [rsi + 24]", "mov r14, [rsi + 32]", "mov r15, [rsi + 40]",
                "call {found}",
                "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
                found = sym found,
                in("rsi") values,
                lateout("rax") result,
                clobber_abi("C"),
            );
        }
        result
    }

    /// Calls [`found`] with a value in each register that it has to keep.
    #[cfg(target_arch = "aarch64")]
    fn with_values(values: &[usize; KEPT]) -> u64 {
        let result;
        // SAFETY: all registers have their values again at the end, but for those that a call may change.
        unsafe {
            asm!(
                "stp x19, x20, [sp, -160]!", "stp x21, x22, [sp, 16]", "stp x23, x24, [sp, 32]",
                "stp x25, x26, [sp, 48]", "stp x27, x28, [sp, 64]", "str x29, [sp, 80]",
                "stp d8, d9, [sp, 96]", "stp d10, d11, [sp, 112]",
                "stp d12, d13, [sp, 128]", "stp d14, d15, [sp, 144]",
                "mov x0, sp",
                "ldp x19, x20, [x1]", "ldp x21, x22, [x1, 16]", "ldp x23, x24, [x1, 32]",
                "ldp x25, x26, [x1, 48]", "ldp x27, x28, [x1, 64]", "ldr x29, [x1, 80]",
                "ldp d8, d9, [x1, 88]", "ldp d10, d11, [x1, 104]",
                "ldp d12, d13, [x1, 120]", "ldp d14, d15, [x1, 136]",
                "bl {found}",
                "ldp d14, d15, [sp, 144]", "ldp d12, d13, [sp, 128]",
                "ldp d10, d11, [sp, 112]", "ldp d8, d9, [sp, 96]",
                "ldr x29, [sp, 80]", "ldp x27, x28, [sp, 64]", "ldp x25, x26, [sp, 48]",
                "ldp x23, x24, [sp, 32]", "ldp x21, x22, [sp, 16]", "ldp x19, x20, [sp], 160",
                found = sym found,
                in("x1") values,
                lateout("x0") result,
                clobber_abi("C"),
            );
        }
        result
    }

    #[test]
    fn what_a_call_keeps_in_registers_is_on_the_stack() {
        // On another stack, because values that nobody needs any more may be left on this one.
        let values = std::thread::spawn(|| Box::new(std::array::from_fn(value)));
        let values = values.join().unwrap();
        assert_eq!(with_values(&values), (1 << KEPT) - 1);
    }
}
