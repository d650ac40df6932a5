//! Adds finalizers and links. Before a table of them grows, there is a collection: many may be dead.

use super::finalizers::{Order, Procedure};
use super::invoke::notify_or_invoke;
use super::links::{Links, Table};
use crate::abi::variables::finds_leaks;
use crate::state::{self, Locked};
use crate::{collect, heap, start, table};
use libc::{c_int, c_void};
use std::ptr::null_mut;

/// Return values of libgc's functions for links (gc.h).
const SUCCESS: c_int = 0;
const DUPLICATE: c_int = 1;
const UNIMPLEMENTED: c_int = 3;
const NOT_FOUND: c_int = 4;

/// Releases the lock, and calls the finalizers that became due in a collection that was made because a table
/// `was_full`.
fn after_growth(gc: Locked, was_full: bool) {
    let due = was_full && gc.program.finalization.is_due();
    drop(gc);
    if due {
        notify_or_invoke();
    }
}

/// Sets the finalizer of an object, or removes it if there is none. Stores the previous one at the
/// places given.
pub(crate) fn register(
    object: *mut c_void,
    procedure: Option<Procedure>,
    data: *mut c_void,
    former: (*mut Option<Procedure>, *mut *mut c_void),
    order: Order,
) {
    if finds_leaks() {
        // As with libgc, the places for the previous one stay unchanged.
        return;
    }
    let mut gc = start::lock();
    let grows = gc.program.finalization.finalizers.is_full();
    if grows {
        collect::before_growth(&mut gc);
        gc.program.finalization.finalizers.grow();
    }
    let start = object as usize;
    let is_object = gc.heap.slot(start).is_some();
    let all = &mut gc.program.finalization.finalizers;
    let old = match procedure {
        Some(procedure) if is_object => all.set(start, procedure, data, order),
        _ => all.remove(start),
    };
    // SAFETY: the caller's, where they are not null.
    unsafe {
        if let Some(place) = former.0.as_mut() {
            *place = old.map(|(procedure, _)| procedure);
        }
        if let Some(place) = former.1.as_mut() {
            *place = old.map_or(null_mut(), |(_, data)| data);
        }
    }
    after_growth(gc, grows);
}

/// Adds a link to the table.
pub(crate) fn link(
    table: impl FnOnce(&mut Links) -> &mut Table,
    link: *mut *mut c_void,
    object: *const c_void,
) -> c_int {
    if finds_leaks() {
        return UNIMPLEMENTED;
    }
    let mut gc = start::lock();
    let grows = gc.program.finalization.links.is_full();
    if grows {
        collect::before_growth(&mut gc);
        gc.program.finalization.links.grow();
    }
    let table = table(&mut gc.program.finalization.links);
    table::make_room(table);
    let former = table.insert(link as usize, object as usize);
    after_growth(gc, grows);
    match former {
        Some(_) => DUPLICATE,
        None => SUCCESS,
    }
}

/// Removes a link from the table. 1 if it was there.
pub(crate) fn unlink(
    table: impl FnOnce(&mut Links) -> &mut Table,
    link: *mut *mut c_void,
) -> c_int {
    if !heap::is_ready() {
        return 0;
    }
    let mut gc = state::lock();
    c_int::from(
        table(&mut gc.program.finalization.links)
            .remove(&(link as usize))
            .is_some(),
    )
}

/// Moves a link in the table to another place.
pub(crate) fn relink(
    table: impl FnOnce(&mut Links) -> &mut Table,
    from: *mut *mut c_void,
    to: *mut *mut c_void,
) -> c_int {
    if !heap::is_ready() {
        return NOT_FOUND;
    }
    let mut gc = state::lock();
    let table = table(&mut gc.program.finalization.links);
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
