//! Allocates objects with a [header](super::header).

use super::allocate::{allocate, allocate_held};
use super::header::{END, HEADER, Header, LIVE, USED, end_of};
use super::kinds::{AUNCOLLECTABLE, UNCOLLECTABLE};
use libc::{c_char, c_int, c_void};
use plimsoll_heap::KindId;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

const WORD: usize = size_of::<usize>();

pub(crate) fn debug_allocate(
    bytes: usize,
    kind: KindId,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    let whole = bytes.saturating_add(HEADER + 2 * WORD);
    let base = match kind {
        UNCOLLECTABLE | AUNCOLLECTABLE => allocate_held(whole, kind),
        _ => allocate(whole, kind),
    } as usize;
    if base == 0 {
        return null_mut();
    }
    USED.store(true, Relaxed);
    let object = base + HEADER;
    // SAFETY: a new object with room for the header, `bytes` and two words.
    unsafe {
        *(base as *mut Header) = Header {
            file,
            line: line as usize,
            bytes,
            seal: LIVE ^ object,
        };
        *(end_of(object, bytes) as *mut usize) = END ^ object;
    }
    object as *mut c_void
}
