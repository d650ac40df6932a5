//! Debugging variants of the functions: each object has a header that tells where it was allocated,
//! and a word after it that shows whether the program wrote past its end.

use crate::allocate::{GC_base, allocate, allocate_held};
use crate::finalize::{self, Order, Procedure};
use crate::inspect::{GC_is_valid_displacement, GC_is_visible};
use crate::kinds::{self, AUNCOLLECTABLE, NORMAL, PTRFREE, UNCOLLECTABLE};
use crate::release::GC_free;
use crate::resize::GC_realloc;
use crate::state;
use crate::{leaks, report};
use libc::{c_char, c_int, c_void};
use plimsoll_heap::KindId;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The header before an object.
#[repr(C)]
struct Header {
    /// Where the object was allocated: the source file, as the program gave it, and the line.
    file: *const c_char,
    line: usize,
    /// Its size without header and trailing word, bytes.
    bytes: usize,
    /// [`LIVE`] or [`FREED`], combined with the object's address so that a copy elsewhere is not
    /// valid.
    seal: usize,
}

/// Seals of objects in use, and of freed ones.
const LIVE: usize = 0x5aa5_1c3c_7e81_0ff0;
const FREED: usize = 0x0dea_d0b1_ec75_eaf5;
/// The content of the word after an object.
const END: usize = 0x3cc3_a55a_9669_f00f;
const WORD: usize = size_of::<usize>();
/// Bytes of the header.
const HEADER: usize = size_of::<Header>();
/// The byte that fills a freed object.
const FILL: u8 = 0xdb;
/// The most bytes of a program's description of an object (gc_mark.h).
const DESCRIPTION: usize = 40;

/// Exported for clients of gc_mark.h.
#[unsafe(no_mangle)]
static GC_debug_header_size: usize = HEADER;

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_debug_header_size() -> usize {
    HEADER
}

/// Set once one of the debugging functions was called.
static USED: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_used() -> bool {
    USED.load(Relaxed)
}

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

fn end_of(object: usize, bytes: usize) -> usize {
    (object + bytes).next_multiple_of(WORD)
}

/// The header of an object that one of these functions allocated. `object` is the address that the
/// allocation returned.
fn header(object: usize) -> Option<&'static mut Header> {
    let heap = state::heap();
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
    let heap = state::heap();
    let Some(slot) = heap.slot(base) else {
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

macro_rules! allocators {
    ($($name:ident => $kind:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name(bytes: usize, file: *const c_char, line: c_int) -> *mut c_void {
            debug_allocate(bytes, $kind, file, line)
        }
    )*};
}

allocators! {
    GC_debug_malloc => NORMAL;
    GC_debug_malloc_atomic => PTRFREE;
    GC_debug_malloc_uncollectable => UNCOLLECTABLE;
    GC_debug_malloc_atomic_uncollectable => AUNCOLLECTABLE;
    GC_debug_malloc_ignore_off_page => NORMAL;
    GC_debug_malloc_atomic_ignore_off_page => PTRFREE;
    GC_debug_malloc_stubborn => NORMAL;
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_debug_malloc_replacement(bytes: usize) -> *mut c_void {
    debug_allocate(bytes, NORMAL, c"unknown".as_ptr(), 0)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_debug_generic_or_special_malloc(
    bytes: usize,
    kind: c_int,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    debug_allocate(bytes, KindId(kind as u16), file, line)
}

/// A collectable object is filled and left to the collector, so that its slot is not reused while
/// the program may still use it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_debug_free(object: *mut c_void) {
    if object.is_null() {
        return;
    }
    let address = object as usize;
    let heap = state::heap();
    let Some(slot) = heap.slot(address) else {
        report::abort(c"GC_debug_free of what is no object");
    };
    let Some(header) = header(address) else {
        report::complain(&format!(
            "GC_debug_free: {address:#x} has no debugging information\n"
        ));
        return;
    };
    let base = address - HEADER;
    if header.seal == FREED ^ address {
        report::complain(&format!(
            "GC_debug_free: {} was freed already\n",
            describe(base)
        ));
        return;
    }
    if let Some(word) = damage(base, heap.size(slot)) {
        report::complain(&format!(
            "GC_debug_free: {word:#x} in or near object at {}\n",
            describe(base)
        ));
    }
    header.seal = FREED ^ address;
    let kept = matches!(heap.kind_of(slot), UNCOLLECTABLE | AUNCOLLECTABLE);
    if kept || leaks::wanted() {
        // SAFETY: the object's base; the caller does not use it any more.
        unsafe { GC_free(base as *mut c_void) };
    } else {
        let bytes = heap.size(slot) - HEADER;
        // SAFETY: the rest of the object, which the caller does not use any more.
        unsafe { object.cast::<u8>().write_bytes(FILL, bytes) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_debug_realloc(
    object: *mut c_void,
    bytes: usize,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    if object.is_null() {
        return debug_allocate(bytes, NORMAL, file, line);
    }
    if bytes == 0 {
        // SAFETY: the caller's promise.
        unsafe { GC_debug_free(object) };
        return null_mut();
    }
    let heap = state::heap();
    let Some(slot) = heap.slot(object as usize) else {
        report::abort(c"GC_debug_realloc of what is no object");
    };
    let Some(header) = header(object as usize) else {
        report::complain(&format!(
            "GC_debug_realloc: {:#x} has no debugging information\n",
            object as usize
        ));
        // SAFETY: the caller's promise.
        return unsafe { GC_realloc(object, bytes) };
    };
    let new = debug_allocate(bytes, heap.kind_of(slot), file, line);
    if !new.is_null() {
        // SAFETY: both are objects of at least this many bytes.
        unsafe {
            libc::memcpy(new, object, bytes.min(header.bytes));
            GC_debug_free(object);
        }
    }
    new
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_debug_realloc_replacement(
    object: *mut c_void,
    bytes: usize,
) -> *mut c_void {
    // SAFETY: the caller's arguments.
    unsafe { GC_debug_realloc(object, bytes, c"unknown".as_ptr(), 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_debug_strdup(
    text: *const c_char,
    file: *const c_char,
    line: c_int,
) -> *mut c_char {
    if text.is_null() {
        return null_mut();
    }
    // SAFETY: the caller's string.
    unsafe { GC_debug_strndup(text, libc::strlen(text), file, line) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_debug_strndup(
    text: *const c_char,
    most: usize,
    file: *const c_char,
    line: c_int,
) -> *mut c_char {
    // SAFETY: the caller's string.
    let length = unsafe { libc::strnlen(text, most) };
    let copy: *mut c_char = debug_allocate(length + 1, PTRFREE, file, line).cast();
    if !copy.is_null() {
        // SAFETY: a new object of this many bytes plus one.
        unsafe {
            copy.copy_from_nonoverlapping(text, length);
            *copy.add(length) = 0;
        }
    }
    copy
}

/// The finalizer registered for an object with a header. It is called with the address after the
/// header.
struct Closure {
    procedure: Procedure,
    data: *mut c_void,
}

unsafe extern "C-unwind" fn invoke(base: *mut c_void, closure: *mut c_void) {
    // SAFETY: registered below, with such a closure, for such an object.
    unsafe {
        let closure: &Closure = &*closure.cast();
        (closure.procedure)((base as usize + HEADER) as *mut c_void, closure.data);
    }
}

macro_rules! registers {
    ($($name:ident => $order:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            object: *mut c_void,
            procedure: Option<Procedure>,
            data: *mut c_void,
            former: *mut Option<Procedure>,
            former_data: *mut *mut c_void,
        ) {
            // SAFETY: the caller's.
            unsafe { register(object, procedure, data, (former, former_data), $order) };
        }
    )*};
}

registers! {
    GC_debug_register_finalizer => Order::Topological;
    GC_debug_register_finalizer_ignore_self => Order::IgnoreSelf;
    GC_debug_register_finalizer_no_order => Order::None;
    GC_debug_register_finalizer_unreachable => Order::Unreachable;
}

unsafe fn register(
    object: *mut c_void,
    procedure: Option<Procedure>,
    data: *mut c_void,
    former: (*mut Option<Procedure>, *mut *mut c_void),
    order: Order,
) {
    if leaks::wanted() {
        return;
    }
    if header(object as usize).is_none() {
        report::complain(&format!(
            "GC_debug_register_finalizer: {:#x} has no debugging information\n",
            object as usize
        ));
        return;
    }
    let base = (object as usize - HEADER) as *mut c_void;
    let (mut old, mut old_data) = (None, null_mut());
    let closure = procedure.map(|procedure| {
        let closure: *mut Closure = allocate(size_of::<Closure>(), NORMAL).cast();
        // SAFETY: a new object of that size.
        unsafe { *closure = Closure { procedure, data } };
        closure
    });
    let wrapped = closure.map(|_| invoke as Procedure);
    let data = closure.map_or(null_mut(), <*mut Closure>::cast);
    finalize::register(base, wrapped, data, (&mut old, &mut old_data), order);
    // SAFETY: a closure of ours where the former finalizer was; the places are the caller's, where
    // they are not null.
    unsafe {
        let before: Option<&Closure> = old.and_then(|_| old_data.cast::<Closure>().as_ref());
        if let Some(place) = former.0.as_mut() {
            *place = before.map(|before| before.procedure);
        }
        if let Some(place) = former.1.as_mut() {
            *place = before.map_or(null_mut(), |before| before.data);
        }
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_debug_register_displacement(_: usize) {}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_debug_change_stubborn(_: *const c_void) {}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_debug_end_stubborn_change(object: *const c_void) {
    if GC_base(object.cast_mut()).is_null() {
        report::abort(c"GC_debug_end_stubborn_change of what is no object");
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_debug_ptr_store_and_dirty(place: *mut c_void, value: *const c_void) {
    // SAFETY: the caller's.
    unsafe {
        *GC_is_visible(place).cast::<*mut c_void>() = GC_is_valid_displacement(value.cast_mut())
    };
    GC_debug_end_stubborn_change(place);
}
