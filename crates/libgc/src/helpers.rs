//! Threads that help to mark: one for each further processor, started once the heap is large
//! enough.

use crate::collector::State;
use crate::kinds::Descriptors;
use crate::settings::GC_parallel;
use crate::unwind::thread_is_ours;
use libc::{c_uint, c_void};
use plimsoll_heap::mark::{Crew, Marker};
use plimsoll_heap::{Heap, SUPERPAGE};
use plimsoll_kernel::process::own;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A heap of fewer superpages is marked before a helper wakes up.
const WORTH: usize = (8 << 20) / SUPERPAGE;
/// Where addresses are limited, there are no helpers while fewer bytes of them are left: with a
/// thread, the C library may reserve 128 MiB for its `malloc`.
const FEW: u64 = 1 << 30;
/// The most markers, as in libgc.
const MOST: usize = 16;

/// The value of `GC_set_markers_count`; 0 if it was not called.
static TOLD: AtomicUsize = AtomicUsize::new(0);

/// Starts helpers, if there are none yet and the heap is large enough. Called before the world is
/// stopped.
pub(crate) fn call(heap: &'static Heap, state: &mut State) {
    if state.crew.is_some() || state.central.used() < WORTH || state.alone {
        return;
    }
    if own::addresses().is_some_and(|addresses| addresses.left < FEW) {
        return;
    }
    let told = TOLD.load(Relaxed);
    let markers = match state.pace.markers {
        Some(markers) => markers,
        None if told > 0 => told,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    state.alone = true;
    if markers < 2 {
        return;
    }
    let Ok(crew) = Crew::new(heap) else { return };
    let crew: &'static Crew = Box::leak(Box::new(crew));
    let started = (1..markers.min(MOST)).filter(|_| start(heap, crew)).count();
    if started > 0 {
        state.crew = Some(crew);
        GC_parallel.set(started as i32);
    }
}

/// Starts one helper.
fn start(heap: &'static Heap, crew: &'static Crew) -> bool {
    spawn(c"gc-marker", move || {
        if let Ok(mut marker) = Marker::new(heap, &Descriptors) {
            while crew.help(&mut marker) {}
        }
    })
}

/// Bytes of the stack of one of our threads.
const STACK: usize = 256 << 10;

/// What one of our threads is given.
struct Order {
    /// Its name, of at most 15 bytes.
    name: &'static CStr,
    body: Box<dyn FnOnce() + Send>,
}

/// Starts a thread that receives no signal of the program's. False if the kernel cannot create one.
///
/// The thread is the C library's, not Rust's: that would call `malloc` in it, which then reserves
/// 64 MiB of addresses for the thread.
pub(crate) fn spawn(name: &'static CStr, body: impl FnOnce() + Send + 'static) -> bool {
    let body = Box::new(body);
    let order = Box::into_raw(Box::new(Order { name, body }));
    // SAFETY: sets and attributes are filled in by the calls; only this thread's mask changes, and
    // is set back.
    let failed = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        let (mut attributes, mut id) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstacksize(&mut attributes, STACK);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let failed = libc::pthread_create(&mut id, &attributes, run, order.cast());
        libc::pthread_attr_destroy(&mut attributes);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        failed
    };
    if failed != 0 {
        // SAFETY: made above, and there is no thread that has it.
        drop(unsafe { Box::from_raw(order) });
    }
    failed == 0
}

extern "C" fn run(order: *mut c_void) -> *mut c_void {
    thread_is_ours();
    // SAFETY: made by `spawn` for this thread.
    let order = unsafe { Box::from_raw(order.cast::<Order>()) };
    let Order { name, body } = *order;
    // SAFETY: a string that ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    // A panic, which was reported, ends only this thread. Dropping what it carried may panic, too.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        std::mem::forget(payload);
    }
    null_mut()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_markers_count(count: c_uint) {
    TOLD.store(count as usize, Relaxed);
}

/// Does nothing: helpers start when there is something to mark.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_start_mark_threads() {}
