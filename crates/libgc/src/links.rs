//! Disappearing links: words that are cleared when the object that they refer to dies. Short links
//! are cleared before finalizers are called. Long links are cleared only when the object is not
//! kept for a finalizer either.

use crate::table::{self, Most};
use crate::{collect, finalize, leaks, report, state};
use libc::{c_int, c_void};
use plimsoll_heap::Heap;
use std::ffi::CStr;

/// Return values of libgc's functions for links (gc.h).
const SUCCESS: c_int = 0;
const DUPLICATE: c_int = 1;
const UNIMPLEMENTED: c_int = 3;
const NOT_FOUND: c_int = 4;

/// The object of each link, by the link's address.
type Table = table::Table<usize>;

/// All links of the program. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Links {
    /// Links that are cleared before finalizers run.
    short: Table,
    /// Links that are cleared once the object cannot be reached by finalizers either.
    long: Table,
    /// How many there may be before a collection.
    most: Most,
}

impl Links {
    /// Clears short links to dead objects.
    pub(crate) fn clear_short(&mut self, dead: &impl Fn(usize) -> bool) {
        clear(&mut self.short, dead);
    }

    /// Clears long links to dead objects.
    pub(crate) fn clear_long(&mut self, dead: &impl Fn(usize) -> bool) {
        clear(&mut self.long, dead);
    }

    /// Removes links that lie in dead objects.
    pub(crate) fn forget_dead(&mut self, dead: &impl Fn(usize) -> bool, heap: &Heap) {
        for table in [&mut self.short, &mut self.long] {
            table.retain(|&link, _| heap.slot(link).is_none() || !dead(link));
        }
    }

    fn count(&self) -> usize {
        self.short.len() + self.long.len()
    }

    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.short.len(), self.long.len())
    }
}

fn clear(table: &mut Table, dead: &impl Fn(usize) -> bool) {
    table.retain(|&link, &mut object| {
        let lives = !dead(object);
        if !lives {
            // SAFETY: a word that the program registered, and did not unregister.
            unsafe { *(link as *mut usize) = 0 };
        }
        lives
    });
}

/// Ends the program if the link is null or not aligned.
fn check(link: *mut *mut c_void, complaint: &CStr) {
    if link.is_null() || !link.is_aligned() {
        report::abort(complaint);
    }
}

fn register(
    table: impl FnOnce(&mut Links) -> &mut Table,
    link: *mut *mut c_void,
    object: *const c_void,
) -> c_int {
    if leaks::wanted() {
        return UNIMPLEMENTED;
    }
    let mut gc = state::lock();
    let grows = gc.program.links.most.is_reached(gc.program.links.count());
    if grows {
        collect::before_growth(&mut gc);
        let links = &mut gc.program.links;
        links.most.grow(links.count());
    }
    let table = table(&mut gc.program.links);
    table::make_room(table);
    let former = table.insert(link as usize, object as usize);
    let due = grows && gc.program.finalization.is_due();
    drop(gc);
    if due {
        finalize::notify_or_invoke();
    }
    match former {
        Some(_) => DUPLICATE,
        None => SUCCESS,
    }
}

fn unregister(table: impl FnOnce(&mut Links) -> &mut Table, link: *mut *mut c_void) -> c_int {
    if !state::is_ready() {
        return 0;
    }
    let mut gc = state::lock();
    c_int::from(
        table(&mut gc.program.links)
            .remove(&(link as usize))
            .is_some(),
    )
}

fn relink(
    table: impl FnOnce(&mut Links) -> &mut Table,
    from: *mut *mut c_void,
    to: *mut *mut c_void,
) -> c_int {
    if !state::is_ready() {
        return NOT_FOUND;
    }
    let mut gc = state::lock();
    let table = table(&mut gc.program.links);
    if !table.contains_key(&(from as usize)) {
        return NOT_FOUND;
    }
    if from == to {
        return SUCCESS;
    }
    if table.contains_key(&(to as usize)) {
        return DUPLICATE;
    }
    if let Some(object) = table.remove(&(from as usize)) {
        table.insert(to as usize, object);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_register_disappearing_link(link: *mut *mut c_void) -> c_int {
    let heap = state::heap();
    match heap.slot(link as usize) {
        // The object that contains the link, as with libgc.
        Some(slot) => {
            GC_general_register_disappearing_link(link, heap.start(slot) as *const c_void)
        }
        None => report::abort(c"Bad arg to GC_register_disappearing_link"),
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_general_register_disappearing_link(
    link: *mut *mut c_void,
    object: *const c_void,
) -> c_int {
    check(link, c"Bad arg to GC_general_register_disappearing_link");
    register(|links| &mut links.short, link, object)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_register_long_link(link: *mut *mut c_void, object: *const c_void) -> c_int {
    check(link, c"Bad arg to GC_register_long_link");
    register(|links| &mut links.long, link, object)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_unregister_disappearing_link(link: *mut *mut c_void) -> c_int {
    unregister(|links| &mut links.short, link)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_unregister_long_link(link: *mut *mut c_void) -> c_int {
    unregister(|links| &mut links.long, link)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_move_disappearing_link(
    link: *mut *mut c_void,
    to: *mut *mut c_void,
) -> c_int {
    check(to, c"Bad new_link arg to GC_move_disappearing_link");
    relink(|links| &mut links.short, link, to)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_move_long_link(link: *mut *mut c_void, to: *mut *mut c_void) -> c_int {
    check(to, c"Bad new_link arg to GC_move_long_link");
    relink(|links| &mut links.long, link, to)
}
