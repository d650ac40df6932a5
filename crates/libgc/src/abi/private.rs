//! Names that libgc exports and that only its private headers declare. They are for programs
//! compiled with those headers: libgc's own tests, and allocators that take objects from free lists
//! in inlined code.

use crate::racy_cell::Variable;

/// The free lists of one kind: one for each size up to half a page, in granules.
const LISTS: usize = 129;
type Lists = [Variable<usize>; LISTS];

/// These lists are always empty, because free slots are found in bins here. A program that finds a
/// list empty allocates an object. Slots that the program itself puts into a list are free for the
/// next collection.
static OBJECTS: [Lists; 4] = [const { [const { Variable::new(0) }; LISTS] }; 4];
#[unsafe(no_mangle)]
static GC_objfreelist_ptr: &Lists = &OBJECTS[0];
#[unsafe(no_mangle)]
static GC_aobjfreelist_ptr: &Lists = &OBJECTS[1];
#[unsafe(no_mangle)]
static GC_uobjfreelist_ptr: &Lists = &OBJECTS[2];
#[unsafe(no_mangle)]
static GC_auobjfreelist_ptr: &Lists = &OBJECTS[3];

/// Takes back the slots in the lists. The world is stopped.
pub(crate) fn clear_lists() {
    OBJECTS.as_flattened().iter().for_each(|list| list.set(0));
}
