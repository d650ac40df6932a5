//! Disclaim procedures: a program's functions that see its dead objects before their slots are
//! reused; and cheap finalizers built on them.
//!
//! A procedure is called for every slot of its kind without a live object, even for slots that were
//! never used. Such slots are zero, and the procedure recognises them by the first word, as with
//! libgc. A slot is zeroed once its procedure has released the object, so the procedure is called
//! only once per object.

use crate::allocate::allocate;
use crate::finalize::Procedure;
use crate::state;
use crate::{kinds, leaks, report};
use libc::{c_int, c_void};
use plimsoll_heap::mark::{Dying, Marker};
use plimsoll_heap::{Central, Heap, KindId};
use std::ptr::null_mut;
use std::sync::OnceLock;

type Disclaim = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The procedures, by kind. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Disclaims {
    all: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    kind: KindId,
    procedure: Disclaim,
    /// What the kind's dead objects refer to is kept alive until they are released.
    mark_from_all: bool,
}

impl Disclaims {
    /// Whether there are no procedures.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Marks what the dead objects of such kinds refer to. The world is stopped, and everything
    /// else is marked.
    pub(crate) fn mark(&self, heap: &Heap, central: &Central, marker: &mut Marker<'_>) {
        for entry in self.all.iter().filter(|entry| entry.mark_from_all) {
            let dead = heap.unmarked(central, entry.kind);
            let dying = dead.map(|slot| Dying { slot, itself: true });
            marker.contents(central, dying, |_| {});
        }
    }
}

/// Calls the procedures for all dead objects. The world runs, but the slots cannot be reused yet.
pub(crate) fn ask(heap: &Heap, central: &Central, disclaims: &Disclaims) {
    for entry in &disclaims.all {
        heap.each_unmarked(central, entry.kind, |slot| {
            let start = heap.start(slot);
            // SAFETY: the program's procedure, for a place of the kind that it is for.
            let keep = unsafe { (entry.procedure)(start as *mut c_void) } != 0;
            if !keep {
                // SAFETY: nobody has the place.
                unsafe { libc::memset(start as *mut c_void, 0, heap.size(slot)) };
            }
            keep
        });
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_register_disclaim_proc(
    kind: c_int,
    procedure: Disclaim,
    mark_from_all: c_int,
) {
    if leaks::wanted() {
        return;
    }
    let mut gc = state::lock();
    let entry = Entry {
        kind: KindId(kind as u16),
        procedure,
        mark_from_all: mark_from_all != 0,
    };
    gc.program
        .disclaims
        .all
        .retain(|other| other.kind != entry.kind);
    gc.program.disclaims.all.push(entry);
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

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_init_finalized_malloc() {
    FINALIZED.get_or_init(|| {
        let kind = kinds::own_kind(&state::lock(), 0);
        GC_register_disclaim_proc(c_int::from(kind.0), finalized, 1);
        kind
    });
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_finalized_malloc(bytes: usize, closure: *const c_void) -> *mut c_void {
    let Some(&kind) = FINALIZED.get() else {
        report::abort(c"GC_finalized_malloc before GC_init_finalized_malloc");
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
