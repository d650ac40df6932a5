//! Runs inside libgc's own calls, on the program's thread, with the allocation lock held. It
//! reads counters, sets `GC_set_dont_expand` and `GC_set_free_space_divisor` (which take no lock),
//! and calls the program's own hooks. Nothing here allocates memory.

use crate::collector::{self, EVENT_END, EVENT_RECLAIM_END, EVENT_START, Libgc};
use crate::heap::Heap;
use crate::orders::ORDERS;
use crate::program_settings::{program_on_event, program_on_resize};
use crate::published::PUBLISHED;
use crate::{adapter_thread, apply_schedule, fork, own_memory};
use plimsoll_kernel::clock;
use plimsoll_unit::Bytes;
use std::ffi::c_int;

/// Installs the hooks; they call the program's own ones.
pub fn install(gc: &Libgc) {
    PUBLISHED.resized(Heap::read(gc).whole);
    // The first reading of the clock takes the loader's lock. In a hook libgc's lock is held.
    let _ = clock::now();
    // SAFETY: both live as long as the process; they may be called on any thread.
    unsafe {
        (gc.set_on_event)(Some(on_event));
        (gc.set_on_resize)(Some(on_resize));
    }
}

unsafe extern "C" fn on_event(event: c_int) {
    if let Some(gc) = collector::get() {
        match event {
            EVENT_START => {
                let heap = Heap::read(gc);
                PUBLISHED.began(clock::now(), heap.allocated);
                measure_other(&heap, Bytes::ZERO);
            }
            EVENT_RECLAIM_END => measure_other(&Heap::read(gc), Bytes::ZERO),
            EVENT_END => at_end(gc),
            _ => {}
        }
    }
    if let Some(program) = program_on_event() {
        // SAFETY: the program's hook, as libgc would call it.
        unsafe { program(event) };
    }
}

unsafe extern "C" fn on_resize(size: usize) {
    if let Some(gc) = collector::get() {
        let heap = Heap::read(gc);
        let grown = PUBLISHED.resized(heap.whole);
        // libgc's tables grow with the heap, and the ceiling has to fall by as much before it is
        // reached.
        measure_other(&heap, grown);
        apply_schedule::apply(gc);
    }
    if let Some(program) = program_on_resize() {
        // SAFETY: the program's hook, as libgc would call it.
        unsafe { program(size) };
    }
}

/// Measures the memory that is not heap. `untouched`: the mapped part of the heap that is known to be
/// untouched.
fn measure_other(heap: &Heap, untouched: Bytes) {
    let errno = errno();
    if let Some(memory) = own_memory::memory() {
        PUBLISHED.measured(memory, heap, untouched);
    }
    set_errno(errno);
}

fn at_end(gc: &'static Libgc) {
    let heap = Heap::read(gc);
    PUBLISHED.ended(clock::now(), &heap, ORDERS.rate(), ORDERS.collects());
    apply_schedule::apply(gc);
    if fork::take_orphan() {
        adapter_thread::spawn(gc, false);
    }
}

fn errno() -> c_int {
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}
