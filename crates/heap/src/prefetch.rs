//! Prefetching a cache line before its use.

/// Starts to load the line that holds `address`. This is a hint, and never faults, whatever the
/// address.
#[inline(always)]
pub(crate) fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address as *const i8) }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch has no effect but on the caches.
    unsafe {
        std::arch::asm!("prfm pldl1keep, \
                         [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}
