//! Names that libgc exports and only its private headers declare, for programs that were compiled
//! with those: libgc's own tests, and allocators that take objects from free lists in line.

use crate::collector;
use crate::settings::Variable;

/// Lists of one kind: one for each size up to half a page, in granules.
const LISTS: usize = 129;
type Lists = [Variable<usize>; LISTS];

/// Free lists are in bins here, and these are empty: who finds nothing asks for an object. What a
/// program puts there by itself is free for the next collection.
static OBJECTS: [Lists; 4] = [const { [const { Variable::new(0) }; LISTS] }; 4];

#[unsafe(no_mangle)]
static GC_objfreelist_ptr: &Lists = &OBJECTS[0];
#[unsafe(no_mangle)]
static GC_aobjfreelist_ptr: &Lists = &OBJECTS[1];
#[unsafe(no_mangle)]
static GC_uobjfreelist_ptr: &Lists = &OBJECTS[2];
#[unsafe(no_mangle)]
static GC_auobjfreelist_ptr: &Lists = &OBJECTS[3];

/// Takes back what is in the lists; the world is stopped.
pub(crate) fn clear_lists() {
    OBJECTS.as_flattened().iter().for_each(|list| list.set(0));
}

/// Says that so many bytes were taken from lists. The caller holds the lock.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_incr_bytes_allocd(bytes: usize) {
    if collector::is_ready() {
        collector::either().stats.add_told(bytes);
    }
}

/// Says that so many were put there. The caller holds the lock.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_incr_bytes_freed(bytes: usize) {
    if collector::is_ready() {
        let mut gc = collector::either();
        gc.stats.freed = gc.stats.freed.saturating_add(bytes);
    }
}
