//! Disclaim procedures: a program's functions that see its dead objects before their slots are
//! reused.
//!
//! A procedure is called for every slot of its kind without a live object, even for slots that were
//! never used. Such slots are zero, and the procedure recognises them by the first word, as with
//! libgc. A slot is zeroed once its procedure has released the object, so the procedure is called
//! only once per object.

use libc::{c_int, c_void};
use plimsoll_heap::mark::{Finalizable, Marker};
use plimsoll_heap::{Central, Heap, KindId};

pub(crate) type Disclaim = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The procedures, by kind. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Disclaims {
    all: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    kind: KindId,
    procedure: Disclaim,
    /// Objects to which the kind's dead objects refer are kept alive until these are released.
    mark_from_all: bool,
}

impl Disclaims {
    /// Sets the procedure of a kind.
    pub(crate) fn set(&mut self, kind: KindId, procedure: Disclaim, mark_from_all: bool) {
        self.all.retain(|other| other.kind != kind);
        self.all.push(Entry {
            kind,
            procedure,
            mark_from_all,
        });
    }

    /// Whether there are no procedures.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Marks the objects that dead objects of kinds with `mark_from_all` refer to. The world is stopped, and
    /// everything else is marked.
    pub(crate) fn mark(&self, heap: &Heap, central: &Central, marker: &mut Marker<'_>) {
        for entry in self.all.iter().filter(|entry| entry.mark_from_all) {
            let dead = heap.unmarked(central, entry.kind);
            let dying = dead.map(|slot| Finalizable { slot, itself: true });
            marker.contents(central, dying, |_| {});
        }
    }
}

/// Calls the procedures for all dead objects. The world runs, but the slots cannot be reused yet.
pub(crate) fn ask(disclaims: &Disclaims, heap: &Heap, central: &Central) {
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
