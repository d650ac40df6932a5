//! gc_disclaim.h: disclaim procedures, and cheap finalizers built on them.

use crate::abi::variables::finds_leaks;
use crate::finalization::disclaim::Disclaim;
use crate::finalization::finalizers::Procedure;
use crate::objects::allocate::allocate;
use crate::objects::kinds;
use crate::{diagnostics, start};
use libc::{c_int, c_void};
use plimsoll_heap::KindId;
use std::ptr::null_mut;
use std::sync::OnceLock;

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_register_disclaim_proc(
    kind: c_int,
    procedure: Disclaim,
    mark_from_all: c_int,
) {
    if finds_leaks() {
        return;
    }
    start::lock().program.finalization.disclaims.set(
        KindId(kind as u16),
        procedure,
        mark_from_all != 0,
    );
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_init_finalized_malloc() {
    FINALIZED.get_or_init(|| {
        let kind = kinds::own_kind(start::lock().heap, 0);
        GC_register_disclaim_proc(c_int::from(kind.0), finalized, 1);
        kind
    });
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_finalized_malloc(bytes: usize, closure: *const c_void) -> *mut c_void {
    let Some(&kind) = FINALIZED.get() else {
        diagnostics::abort(c"GC_finalized_malloc before GC_init_finalized_malloc");
    };
    let place = allocate(bytes.saturating_add(WORD), kind);
    if place.is_null() {
        return null_mut();
    }
    // SAFETY: a new object of that many bytes and a word.
    unsafe {
        *place.cast::<usize>() = closure as usize | HELD;
        place.byte_add(WORD)
    }
}

/// `struct GC_finalizer_closure`.
#[repr(C)]
struct Closure {
    procedure: Procedure,
    data: *mut c_void,
}

static FINALIZED: OnceLock<KindId> = OnceLock::new();

/// Tag in the lowest bit of the first word, which is a closure's address: the slot holds an object.
const HELD: usize = 1;
const WORD: usize = size_of::<usize>();

unsafe extern "C" fn finalized(place: *mut c_void) -> c_int {
    // SAFETY: a place of the kind of `GC_finalized_malloc`, so either zero or as that made it.
    unsafe {
        let word = *place.cast::<usize>();
        if word & HELD != 0 {
            let closure: &Closure = &*((word & !HELD) as *const Closure);
            (closure.procedure)(place.byte_add(WORD), closure.data);
        }
    }
    0
}
