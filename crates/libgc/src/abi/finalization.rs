//! gc.h: finalizers, disappearing links and toggle references.

use crate::abi::variables::toggleref_func;
use crate::finalization::finalizers::{Order, Procedure};
use crate::finalization::{invoke, registration};
use crate::{diagnostics, heap, output, start};
use libc::{c_int, c_void};
use std::ffi::CStr;

macro_rules! registers {
    ($($name:ident => $order:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name(
            object: *mut c_void,
            procedure: Option<Procedure>,
            data: *mut c_void,
            former: *mut Option<Procedure>,
            former_data: *mut *mut c_void,
        ) {
            registration::register(object, procedure, data, (former, former_data), $order);
        }
    )*};
}

registers! {
    GC_register_finalizer => Order::Topological;
    GC_register_finalizer_ignore_self => Order::IgnoreSelf;
    GC_register_finalizer_no_order => Order::None;
    GC_register_finalizer_unreachable => Order::Unreachable;
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_should_invoke_finalizers() -> c_int {
    c_int::from(heap::is_ready() && start::either().program.finalization.is_due())
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_dump_finalization() {
    let gc = start::either();
    output::print(&format!(
        "{} finalizers, {} due\n",
        gc.program.finalization.finalizers.count(),
        gc.program.finalization.finalizers.due()
    ));
}

/// Calls the due finalizers and returns how many there were.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_invoke_finalizers() -> c_int {
    invoke::invoke_due()
}

/// Makes every finalizer due and calls it, even for live objects. For the end of a program.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_finalize_all() {
    invoke::invoke_all();
}

/// Ends the program if the link is null or not aligned.
fn check(link: *mut *mut c_void, complaint: &CStr) {
    if link.is_null() || !link.is_aligned() {
        diagnostics::abort(complaint);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_register_disappearing_link(link: *mut *mut c_void) -> c_int {
    let heap = start::heap();
    match heap.slot(link as usize) {
        // The object that contains the link, as with libgc.
        Some(slot) => {
            GC_general_register_disappearing_link(link, heap.start(slot) as *const c_void)
        }
        None => diagnostics::abort(c"Bad arg to GC_register_disappearing_link"),
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_general_register_disappearing_link(
    link: *mut *mut c_void,
    object: *const c_void,
) -> c_int {
    check(link, c"Bad arg to GC_general_register_disappearing_link");
    registration::link(|links| &mut links.short, link, object)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_register_long_link(link: *mut *mut c_void, object: *const c_void) -> c_int {
    check(link, c"Bad arg to GC_register_long_link");
    registration::link(|links| &mut links.long, link, object)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_unregister_disappearing_link(link: *mut *mut c_void) -> c_int {
    registration::unlink(|links| &mut links.short, link)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_unregister_long_link(link: *mut *mut c_void) -> c_int {
    registration::unlink(|links| &mut links.long, link)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_move_disappearing_link(
    link: *mut *mut c_void,
    to: *mut *mut c_void,
) -> c_int {
    check(to, c"Bad new_link arg to GC_move_disappearing_link");
    registration::relink(|links| &mut links.short, link, to)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_move_long_link(link: *mut *mut c_void, to: *mut *mut c_void) -> c_int {
    check(to, c"Bad new_link arg to GC_move_long_link");
    registration::relink(|links| &mut links.long, link, to)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_toggleref_add(object: *mut c_void, strong: c_int) -> c_int {
    if toggleref_func.get().is_some() {
        start::lock()
            .program
            .finalization
            .toggles
            .add(object as usize, strong != 0);
    }
    0
}
