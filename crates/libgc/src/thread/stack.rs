//! The bounds of a thread's stack. Stacks grow downwards on all supported machines.

use libc::{c_int, c_void, stack_t, ucontext_t};
use rustix::process::{Resource, getrlimit};
use std::ops::Range;
use std::ptr::{null, null_mut};

/// `struct GC_stack_base`.
#[repr(C)]
pub(crate) struct StackBase {
    pub(crate) mem_base: *mut c_void,
}

/// `GC_SUCCESS`, and what libgc returns if a function is not supported.
pub(crate) const SUCCESS: c_int = 0;
pub(crate) const DUPLICATE: c_int = 1;
pub(crate) const UNIMPLEMENTED: c_int = 3;

unsafe extern "C" {
    /// The start of the stack of the process's first thread, as the loader found it.
    static __libc_stack_end: *const c_void;
}

/// The end of this thread's stack: the first address above it. `None` if the C library does not
/// tell.
pub(crate) fn base() -> Option<usize> {
    told().map(|stack| stack.end).or_else(initial)
}

/// The same for the first thread. For that one the C library reads a file of `/proc`, which may be
/// missing or closed to us.
fn initial() -> Option<usize> {
    // SAFETY: written before the program began.
    is_first().then_some(unsafe { __libc_stack_end } as usize)
}

/// Whether this is the process's first thread.
fn is_first() -> bool {
    // SAFETY: only ask for numbers.
    unsafe { libc::getpid() == libc::gettid() }
}

/// Whether it is too much to ask the C library for this thread's stack. It would call `malloc`, which
/// reserves 64 MiB of addresses for each new thread, and here these are limited.
pub(super) fn is_costly() -> bool {
    !is_first() && getrlimit(Resource::As).current.is_some()
}

/// The address range that this thread's stack may ever have, from the C library.
pub(super) fn told() -> Option<Range<usize>> {
    // SAFETY: the attributes are made by the first call, read by the second and freed by the third.
    unsafe {
        let mut attributes = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut start, mut bytes) = (null_mut(), 0);
        let known = libc::pthread_attr_getstack(&attributes, &mut start, &mut bytes) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        known.then_some(start as usize..start as usize + bytes)
    }
}

/// This thread's alternate signal stack; empty if it has none.
pub(super) fn of_handlers() -> Range<usize> {
    // SAFETY: only asks; zero is a valid `stack_t`.
    let found = unsafe {
        let mut found: stack_t = std::mem::zeroed();
        libc::sigaltstack(null(), &mut found);
        found
    };
    addresses(&found)
}

/// The address range of an alternate signal stack; empty if there is none.
pub(super) fn addresses(stack: &stack_t) -> Range<usize> {
    let start = stack.ss_sp as usize;
    start..start.saturating_add(stack.ss_size)
}

/// The stack pointer of an interrupted thread.
pub(super) fn pointer_of(context: &ucontext_t) -> usize {
    #[cfg(target_arch = "x86_64")]
    let pointer = context.uc_mcontext.gregs[libc::REG_RSP as usize];
    #[cfg(target_arch = "aarch64")]
    let pointer = context.uc_mcontext.sp;
    pointer as usize
}

/// Bytes of a page.
pub(crate) fn page() -> usize {
    // SAFETY: only asks for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// The start of the page after that of an address.
fn next_page(address: usize) -> usize {
    let page = page();
    (address / page).saturating_add(1).saturating_mul(page)
}

/// The lowest address from which memory can be read without a gap up to `end`; at least `start`.
/// Memory just below `end` must be readable. The world may be stopped.
pub(super) fn readable_from(start: usize, end: usize) -> usize {
    let page = page();
    let mut low = end / page * page;
    while low > start && is_mapped(low - page) && is_readable(low - page) {
        low -= page;
    }
    low.max(start)
}

/// The highest address up to which memory can be read without a gap from `start` on; at most `end`.
/// The world may be stopped.
pub(crate) fn readable_until(start: usize, end: usize) -> usize {
    let mut at = start;
    while at < end && is_readable(at) {
        at = next_page(at);
    }
    at.min(end)
}

/// Whether a page is mapped. Unlike a read below a stack's end, this query does not make the stack
/// grow.
fn is_mapped(start: usize) -> bool {
    let mut resident = 0u8;
    // SAFETY: mincore writes one byte for one page, and fails where nothing is mapped.
    unsafe { libc::mincore(start as *mut c_void, page(), &mut resident) == 0 }
}

/// Whether the page of an address can be read. The check needs no file, no permission, and no
/// memory.
fn is_readable(address: usize) -> bool {
    /// An invalid operation on a signal mask: the kernel reads the set before it rejects the
    /// operation.
    const NO_WAY: c_int = -1;
    const SET: usize = size_of::<u64>();
    let word = address / SET * SET;
    // SAFETY: changes nothing; the kernel tells what it cannot read.
    unsafe {
        let nothing = null_mut::<c_void>();
        let refused = libc::syscall(libc::SYS_rt_sigprocmask, NO_WAY, word, nothing, SET);
        refused == 0 || *libc::__errno_location() != libc::EFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_thread_began_where_the_process_did() {
        assert_eq!(initial(), None, "tests run in threads of their own");
        // SAFETY: written before the program began.
        assert_ne!(unsafe { __libc_stack_end } as usize, 0);
    }

    #[test]
    fn what_can_be_read_ends_at_a_hole() {
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
        let page = page();
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of this test's, of which the second page becomes inaccessible and the
        // last one goes.
        let start = unsafe {
            let start = mmap_anonymous(null_mut(), 6 * page, both, MapFlags::PRIVATE).unwrap();
            mprotect(start.byte_add(page), page, MprotectFlags::empty()).unwrap();
            munmap(start.byte_add(5 * page), page).unwrap();
            start as usize
        };
        let (first, hole, end) = (start + 2 * page, start + page, start + 5 * page);
        assert_eq!(readable_until(start + 5, end), hole);
        assert_eq!(readable_until(hole, end), hole);
        assert_eq!(readable_until(first, end - 3), end - 3);
        assert_eq!(readable_until(first + 9, end + page), end);
        assert_eq!(readable_until(8, end), 8);
        assert_eq!(readable_from(start, end), first);
        assert_eq!(readable_from(start, end - 7), first);
        assert_eq!(readable_from(first + 100, end), first + 100);
        // SAFETY: as above.
        unsafe { munmap(start as *mut c_void, 5 * page).unwrap() };
    }

    #[test]
    fn this_function_is_below_the_base() {
        let local = 0u8;
        let local = &raw const local as usize;
        assert!(base().unwrap() > local);
        std::thread::spawn(|| {
            let local = 0u8;
            let local = &raw const local as usize;
            assert!(base().unwrap() > local);
        })
        .join()
        .unwrap();
    }
}
