//! Where a thread's stack begins. Stacks grow downwards on all that we run on.

use libc::{c_int, c_void};
use std::ptr::null_mut;

/// `struct GC_stack_base`.
#[repr(C)]
pub(crate) struct StackBase {
    pub(crate) mem_base: *mut c_void,
}

/// `GC_SUCCESS` and what libgc returns where it cannot.
pub(super) const SUCCESS: c_int = 0;
pub(super) const DUPLICATE: c_int = 1;
pub(super) const UNIMPLEMENTED: c_int = 3;

unsafe extern "C" {
    /// Where the stack of the process's first thread began, as the loader found it.
    static __libc_stack_end: *const c_void;
}

/// The end of this thread's stack: the first address above it. None where the C library does not know.
pub(crate) fn base() -> Option<usize> {
    told().or_else(initial)
}

/// Of the first thread: for that one the C library reads a file of `/proc`, which may be none, or not to be opened.
fn initial() -> Option<usize> {
    // SAFETY: only ask for numbers.
    let first = unsafe { libc::getpid() == libc::gettid() };
    // SAFETY: written before the program began.
    first.then_some(unsafe { __libc_stack_end } as usize)
}

fn told() -> Option<usize> {
    // SAFETY: the attributes are made by the first call, read by the second and freed by the third.
    unsafe {
        let mut attributes = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut start, mut bytes) = (null_mut(), 0);
        let known = libc::pthread_attr_getstack(&attributes, &mut start, &mut bytes) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        known.then_some(start as usize + bytes)
    }
}

/// The lowest address from `start` on from which all is mapped up to `base`; the world may be stopped.
pub(super) fn mapped_from(start: usize, base: usize) -> usize {
    // SAFETY: only asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let mut low = base / page * page;
    let mut resident = 0u8;
    while low >= start + page {
        let below = low - page;
        // SAFETY: mincore writes one byte for one page, and fails where nothing is mapped.
        if unsafe { libc::mincore(below as *mut c_void, page, &mut resident) } != 0 {
            break;
        }
        low = below;
    }
    low.max(start)
}

/// About where this thread's stack ends now: below all that callers of this function have on it.
#[inline(never)]
pub(crate) fn pointer() -> usize {
    let here = 0u8;
    std::hint::black_box(&here) as *const u8 as usize
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_get_stack_base(found: *mut StackBase) -> c_int {
    match base() {
        Some(base) => {
            // SAFETY: the caller's.
            unsafe { (*found).mem_base = base as *mut c_void };
            SUCCESS
        }
        None => UNIMPLEMENTED,
    }
}

type StackFunction = unsafe extern "C-unwind" fn(*mut StackBase, *mut c_void) -> *mut c_void;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_call_with_stack_base(
    function: StackFunction,
    argument: *mut c_void,
) -> *mut c_void {
    let mut base = StackBase {
        mem_base: null_mut(),
    };
    base.mem_base = (&raw mut base).cast();
    // SAFETY: what the caller asks for.
    let result = unsafe { function(&mut base, argument) };
    // The place on the stack must outlive the call.
    std::hint::black_box(&base);
    result
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
    fn this_function_is_between_pointer_and_base() {
        let local = 0u8;
        let local = &raw const local as usize;
        assert!(pointer() < local);
        assert!(base().unwrap() > local);
        std::thread::spawn(|| {
            let local = 0u8;
            let local = &raw const local as usize;
            assert!(pointer() < local && local < base().unwrap());
        })
        .join()
        .unwrap();
    }
}
