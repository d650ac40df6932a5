//! Threads that help to mark: one for each further processor, started once the heap is large
//! enough.

use crate::collector::State;
use crate::kinds::Descriptors;
use crate::settings::GC_parallel;
use crate::unwind::thread_is_ours;
use libc::c_uint;
use plimsoll_heap::mark::{Crew, Marker};
use plimsoll_heap::{Heap, SUPERPAGE};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A heap of fewer superpages is marked before a helper wakes up.
const WORTH: usize = (8 << 20) / SUPERPAGE;
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
    spawn("gc-marker", move || {
        if let Ok(mut marker) = Marker::new(heap, &Descriptors) {
            while crew.help(&mut marker) {}
        }
    })
}

/// Starts a thread that receives no signal of the program's. False if the kernel cannot create one.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> bool {
    // SAFETY: sets are filled in by the calls; only this thread's mask changes, and is set back.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(256 << 10)
            .spawn(|| {
                thread_is_ours();
                body();
            });
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started.is_ok()
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_markers_count(count: c_uint) {
    TOLD.store(count as usize, Relaxed);
}

/// Does nothing: helpers start when there is something to mark.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_start_mark_threads() {}
