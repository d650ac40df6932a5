//! gc.h: variants of the functions for debugging, whose objects have [headers](crate::objects::header).

use super::inspection::{GC_base, GC_is_valid_displacement, GC_is_visible};
use crate::abi::variables::finds_leaks;
use crate::finalization::finalizers::{Order, Procedure};
use crate::finalization::registration;
use crate::objects::allocate::allocate;
use crate::objects::debug::debug_allocate;
use crate::objects::header::{FREED, HEADER, damage, describe, header};
use crate::objects::kinds::{AUNCOLLECTABLE, NORMAL, PTRFREE, UNCOLLECTABLE};
use crate::objects::{release, resize};
use crate::output::complain;
use crate::{diagnostics, start};
use libc::{c_char, c_int, c_void};
use plimsoll_heap::KindId;
use std::ptr::null_mut;

/// The byte that fills a freed object.
const FILL: u8 = 0xdb;

/// Exported for clients of gc_mark.h.
#[unsafe(no_mangle)]
static GC_debug_header_size: usize = HEADER;

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_get_debug_header_size() -> usize {
    HEADER
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
    let heap = start::heap();
    let Some(slot) = heap.slot(address) else {
        diagnostics::abort(c"GC_debug_free of what is no object");
    };
    let Some(header) = header(address) else {
        complain(&format!(
            "GC_debug_free: {address:#x} has no debugging information\n"
        ));
        return;
    };
    let base = address - HEADER;
    if header.seal == FREED ^ address {
        complain(&format!(
            "GC_debug_free: {} was freed already\n",
            describe(base)
        ));
        return;
    }
    if let Some(word) = damage(base, heap.size(slot)) {
        complain(&format!(
            "GC_debug_free: {word:#x} in or near object at {}\n",
            describe(base)
        ));
    }
    header.seal = FREED ^ address;
    let kept = matches!(heap.kind_of(slot), UNCOLLECTABLE | AUNCOLLECTABLE);
    if kept || finds_leaks() {
        // SAFETY: the object's base; the caller does not use it any more.
        unsafe { release::free(heap, base as *mut c_void) };
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
    let heap = start::heap();
    let Some(slot) = heap.slot(object as usize) else {
        diagnostics::abort(c"GC_debug_realloc of what is no object");
    };
    let Some(header) = header(object as usize) else {
        complain(&format!(
            "GC_debug_realloc: {:#x} has no debugging information\n",
            object as usize
        ));
        // SAFETY: the caller's promise.
        return unsafe { resize::realloc(object, bytes) };
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
    if finds_leaks() {
        return;
    }
    if header(object as usize).is_none() {
        complain(&format!(
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
    registration::register(base, wrapped, data, (&mut old, &mut old_data), order);
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
        diagnostics::abort(c"GC_debug_end_stubborn_change of what is no object");
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_debug_ptr_store_and_dirty(place: *mut c_void, value: *const c_void) {
    // SAFETY: the caller's.
    unsafe {
        *GC_is_visible(place).cast::<*mut c_void>() = GC_is_valid_displacement(value.cast_mut());
    };
    GC_debug_end_stubborn_change(place);
}
