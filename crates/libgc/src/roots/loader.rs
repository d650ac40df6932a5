//! The loader's list: the writable segments of the program and of its libraries, and the lock that
//! guards the list.
//!
//! The C library holds that lock while it unmaps a library, and while it adds one to the list. Only
//! [`dl_iterate_phdr`](libc::dl_iterate_phdr) takes the lock for callers, and only while it
//! iterates. So code that needs the list to stay unchanged runs inside that call.

use libc::{c_char, c_int, c_void, dl_phdr_info};
use std::ops::Range;
use std::sync::atomic::AtomicUsize;

/// Calls `then` while no thread can load or unload anything. `then` may iterate over the list
/// itself, because the lock is recursive.
pub(crate) fn while_held<F: FnOnce()>(then: F) {
    unsafe extern "C" fn first<F: FnOnce()>(
        _: *mut dl_phdr_info,
        _: usize,
        then: *mut c_void,
    ) -> c_int {
        // SAFETY: what is passed below; nobody else uses it meanwhile.
        let then = unsafe { &mut *then.cast::<Option<F>>() };
        if let Some(then) = then.take() {
            then();
        }
        // Stops after one object.
        1
    }
    let mut then = Some(then);
    // SAFETY: the callback gets what it expects, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first::<F>), (&raw mut then).cast()) };
    if let Some(then) = then {
        // The list is empty, so nothing can be unloaded.
        then();
    }
}

/// A loaded object.
pub(crate) struct Object {
    /// Its path, as the loader knows it; valid as long as it is loaded.
    pub(crate) name: *const c_char,
    /// How many other objects had been unloaded when it was listed.
    pub(crate) unloaded: u64,
}

/// Calls `tell` with the object and the address range of each writable segment, except this
/// library's own. The lock is held meanwhile.
pub(crate) fn each_segment<F: FnMut(&Object, Range<usize>)>(mut tell: F) {
    unsafe extern "C" fn each_object<F: FnMut(&Object, Range<usize>)>(
        info: *mut dl_phdr_info,
        _: usize,
        tell: *mut c_void,
    ) -> c_int {
        // SAFETY: what is passed below, and what the loader vouches for.
        unsafe { each_of(&*info, &mut *tell.cast::<F>()) };
        0
    }
    // SAFETY: the callback gets what it expects, and nobody else uses it meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(each_object::<F>), (&raw mut tell).cast()) };
}

/// Does the same for one object.
///
/// # Safety
/// The loader's lock is held, and `info` is the loader's.
unsafe fn each_of(info: &dl_phdr_info, tell: &mut impl FnMut(&Object, Range<usize>)) {
    static OURS: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: says the caller.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    // SAFETY: a string of the loader's, where it is not null; the program itself has an empty name.
    let main = info.dlpi_name.is_null() || unsafe { *info.dlpi_name } == 0;
    let range = |header: &libc::Elf64_Phdr| {
        // The difference of an object that lies below the addresses that it was linked for is negative.
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
        start..start.saturating_add(header.p_memsz as usize)
    };
    let segments = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD);
    let own = (&raw const OURS) as usize;
    if !main && segments.clone().any(|header| range(header).contains(&own)) {
        return;
    }
    let object = Object {
        name: info.dlpi_name,
        unloaded: info.dlpi_subs,
    };
    for header in segments.filter(|header| header.p_flags & libc::PF_W != 0) {
        tell(&object, range(header));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_it_is_held_it_can_be_listed() {
        let mut found = 0;
        while_held(|| each_segment(|_, range| found += usize::from(!range.is_empty())));
        assert!(found > 1, "the program, and the C library");
    }
}
