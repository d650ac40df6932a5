//! The header of an object that the debugging functions allocated: it tells where that was, and a word
//! behind the object shows whether the program wrote past its end.

use super::kinds::{self, AUNCOLLECTABLE, NORMAL, PTRFREE, UNCOLLECTABLE};
use crate::heap;
use libc::{c_char, c_int, c_void};
use plimsoll_heap::KindId;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The header before an object.
#[repr(C)]
pub(crate) struct Header {
    /// Where the object was allocated: the source file, as the program gave it, and the line.
    pub(crate) file: *const c_char,
    pub(crate) line: usize,
    /// Its size without header and trailing word, bytes.
    pub(crate) bytes: usize,
    /// [`LIVE`] or [`FREED`], combined with the object's address so that a copy elsewhere is not
    /// valid.
    pub(crate) seal: usize,
}

/// Seals of objects in use, and of freed ones.
pub(crate) const LIVE: usize = 0x5aa5_1c3c_7e81_0ff0;
pub(crate) const FREED: usize = 0x0dea_d0b1_ec75_eaf5;

/// The content of the word after an object.
pub(crate) const END: usize = 0x3cc3_a55a_9669_f00f;
const WORD: usize = size_of::<usize>();

/// Bytes of the header.
pub(crate) const HEADER: usize = size_of::<Header>();

/// The most bytes of a program's description of an object (gc_mark.h).
const DESCRIPTION: usize = 40;

/// Set once one of the debugging functions was called.
pub(crate) static USED: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_used() -> bool {
    USED.load(Relaxed)
}

pub(crate) fn end_of(object: usize, bytes: usize) -> usize {
    (object + bytes).next_multiple_of(WORD)
}

/// The header of an object that one of these functions allocated. `object` is the address that the
/// allocation returned.
pub(crate) fn header(object: usize) -> Option<&'static mut Header> {
    let heap = heap::made()?;
    let slot = heap.slot(object)?;
    let base = heap.start(slot);
    if object != base + HEADER || heap.size(slot) < HEADER + 2 * WORD {
        return None;
    }
    // SAFETY: an object of at least that size; whether it has a header the seal says.
    let header = unsafe { &mut *(base as *mut Header) };
    let sealed = header.seal == LIVE ^ object || header.seal == FREED ^ object;
    (sealed || damage(base, heap.size(slot)).is_some()).then_some(header)
}

/// Whether the object at `base` has a header.
pub(crate) fn has_header(base: usize) -> bool {
    header(base + HEADER).is_some_and(|header| header.seal == LIVE ^ (base + HEADER))
}

/// The address of the overwritten word of an object with a header, if one was: the seal before it
/// or the word after it. If neither word is intact, the object counts as one without a header.
pub(crate) fn damage(base: usize, size: usize) -> Option<usize> {
    if size < HEADER + 2 * WORD {
        return None;
    }
    let object = base + HEADER;
    // SAFETY: an object of at least that size.
    let header = unsafe { &*(base as *const Header) };
    if header.bytes > size - HEADER - WORD {
        return None;
    }
    let end = end_of(object, header.bytes);
    // SAFETY: a word of the object, as its size is not larger than its place.
    let behind = unsafe { *(end as *const usize) } == END ^ object;
    let before = header.seal == LIVE ^ object;
    match (before, behind) {
        (true, false) => Some(end),
        (false, true) if header.seal != FREED ^ object => Some(&raw const header.seal as usize),
        _ => None,
    }
}

/// A description of the object with a header at `base`: where it was allocated, its size, its kind.
pub(crate) fn describe(base: usize) -> String {
    // SAFETY: the caller found a header there.
    let header = unsafe { &*(base as *const Header) };
    let file = if header.file.is_null() {
        "?".into()
    } else {
        // SAFETY: a string that the caller of the allocation passed, a literal.
        unsafe { CStr::from_ptr(header.file) }.to_string_lossy()
    };
    let (line, bytes) = (header.line as c_int, header.bytes);
    format!(
        "{:#x} ({file}:{line}, sz= {bytes}, {})",
        base + HEADER,
        kind_name(base)
    )
}

fn kind_name(base: usize) -> String {
    let Some((heap, slot)) = heap::made().and_then(|heap| Some((heap, heap.slot(base)?))) else {
        return String::new();
    };
    let kind = heap.kind_of(slot);
    if let Some(describe) = kinds::describer(kind) {
        let mut text = [0u8; DESCRIPTION + 1];
        // SAFETY: the program's function, for an object of the kind that it is for, and as much
        // room as it expects.
        unsafe { describe((base + HEADER) as *mut c_void, text.as_mut_ptr().cast()) };
        let length = text
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(DESCRIPTION);
        return String::from_utf8_lossy(&text[..length]).into_owned();
    }
    match kind {
        PTRFREE => "PTRFREE".to_owned(),
        NORMAL => "NORMAL".to_owned(),
        UNCOLLECTABLE => "UNCOLLECTABLE".to_owned(),
        AUNCOLLECTABLE => "ATOMIC_UNCOLLECTABLE".to_owned(),
        KindId(other) => format!("kind= {other}"),
    }
}
