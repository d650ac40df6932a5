//! The values that the program set with libgc's setters. The interposed setters write them; they are in force
//! whenever the adapter is not steering, and the getters return them.

use crate::collector::{Libgc, Notifier, OnEvent, OnResize};
use crate::settings;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The values that the program set.
#[derive(Debug)]
pub struct Wishes {
    /// `GC_set_dont_expand`.
    pub dont_expand: AtomicI32,
    /// `GC_set_disable_automatic_collection`.
    pub automatic_off: AtomicI32,
    /// `GC_set_free_space_divisor`.
    pub divisor: AtomicUsize,
    /// `GC_set_max_heap_size` or `GC_MAXIMUM_HEAP_SIZE`, 0 for none.
    pub most: AtomicUsize,
    /// `GC_set_max_retries`.
    pub retries: AtomicUsize,
    /// `GC_set_on_collection_event`, the address of the function or 0.
    pub on_event: AtomicUsize,
    /// `GC_set_on_heap_resize`, the address of the function or 0.
    pub on_resize: AtomicUsize,
    /// `GC_set_finalize_on_demand`.
    pub on_demand: AtomicI32,
    /// `GC_set_finalizer_notifier`, the address of the function or 0.
    pub notifier: AtomicUsize,
}

/// The wishes of this process's program.
pub static WISHES: Wishes = Wishes {
    dont_expand: AtomicI32::new(0),
    automatic_off: AtomicI32::new(0),
    divisor: AtomicUsize::new(3),
    most: AtomicUsize::new(0),
    retries: AtomicUsize::new(0),
    on_event: AtomicUsize::new(0),
    on_resize: AtomicUsize::new(0),
    on_demand: AtomicI32::new(0),
    notifier: AtomicUsize::new(0),
};

/// The address of a nullable function; 0 for none.
pub fn address<F>(function: Option<F>) -> usize {
    const { assert!(size_of::<Option<F>>() == size_of::<usize>()) };
    // SAFETY: only instantiated with nullable function pointers, which are addresses of this size.
    unsafe { std::mem::transmute_copy(&function) }
}

/// The program's own function for collection events.
pub fn program_on_event() -> Option<OnEvent> {
    // SAFETY: holds 0 or the address of such a function, stored by `address`.
    unsafe { std::mem::transmute(WISHES.on_event.load(Ordering::Acquire)) }
}

/// The program's own function for heap resizing.
pub fn program_on_resize() -> Option<OnResize> {
    // SAFETY: as above.
    unsafe { std::mem::transmute(WISHES.on_resize.load(Ordering::Acquire)) }
}

/// The program's own finalizer notifier.
pub fn program_notifier() -> Option<Notifier> {
    // SAFETY: as above.
    unsafe { std::mem::transmute(WISHES.notifier.load(Ordering::Acquire)) }
}

/// Reads the values that the program set before the adapter started, or that `GC_init` took from
/// the environment.
pub fn learn(gc: &Libgc) {
    if WISHES.most.load(Ordering::Acquire) == 0 {
        let most = settings::size("GC_MAXIMUM_HEAP_SIZE").unwrap_or(0);
        WISHES.most.store(most, Ordering::Release);
    }
    // SAFETY: plain getters of an initialised collector.
    unsafe {
        WISHES
            .dont_expand
            .store((gc.dont_expand)(), Ordering::Release);
        WISHES
            .automatic_off
            .store((gc.automatic_off)(), Ordering::Release);
        WISHES.divisor.store((gc.divisor)(), Ordering::Release);
        WISHES.retries.store((gc.retries)(), Ordering::Release);
        WISHES
            .on_event
            .store(address((gc.on_event)()), Ordering::Release);
        WISHES
            .on_resize
            .store(address((gc.on_resize)()), Ordering::Release);
        WISHES.on_demand.store((gc.on_demand)(), Ordering::Release);
        WISHES
            .notifier
            .store(address((gc.notifier)()), Ordering::Release);
    }
}
