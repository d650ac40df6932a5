//! The functions of libgc that this library intercepts: `GC_init`, to know when the collector is
//! ready, and the setters of values that the adapter's schedule changes. The program's values are
//! stored, returned by the getters, and in force whenever the adapter is not steering.
//!
//! In a process without libgc nobody calls these functions, and a call does nothing.

use crate::collector::{self, Libgc, Notifier, OnEvent, OnResize, Word};
use crate::program_settings::{
    WISHES, address, learn, program_notifier, program_on_event, program_on_resize,
};
use crate::{adapter_thread, apply_schedule, fork, hooks, symbols};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

static STARTED: AtomicBool = AtomicBool::new(false);

/// Whether the adapter has taken over the settings of this process.
pub fn started() -> bool {
    STARTED.load(Ordering::Acquire)
}

/// `GC_init`. If the program never calls it, libgc itself does, through this function.
///
/// # Safety
/// As libgc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GC_init() {
    let Some(real) = symbols::real("GC_init\0") else {
        return;
    };
    // SAFETY: gc.h declares it so.
    let real = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(real) };
    // SAFETY: the program's own call, passed on.
    unsafe { real() };
    if !adapter_thread::wanted() {
        return;
    }
    let Some(gc) = collector::get() else { return };
    if STARTED.swap(true, Ordering::AcqRel) {
        return;
    }
    learn(gc);
    hooks::install(gc);
    fork::watch();
    adapter_thread::start(gc);
}

macro_rules! setter {
    ($name:ident, $argument:ty, $wish:ident, $store:expr, $after:expr) => {
        /// Like libgc's, and the value is stored.
        ///
        /// # Safety
        /// As libgc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(value: $argument) {
            type Real = unsafe extern "C" fn($argument);
            if let (true, Some(gc)) = (started(), collector::get()) {
                WISHES.$wish.store($store(value), Ordering::Release);
                let after: fn(&'static Libgc) = $after;
                after(gc);
            } else if let Some(real) = symbols::real(concat!(stringify!($name), "\0")) {
                // SAFETY: gc.h declares it so; the program's own call, passed on.
                unsafe { std::mem::transmute::<*mut c_void, Real>(real)(value) };
            }
        }
    };
}

setter!(
    GC_set_dont_expand,
    c_int,
    dont_expand,
    std::convert::identity,
    apply_schedule::apply
);
setter!(
    GC_set_disable_automatic_collection,
    c_int,
    automatic_off,
    std::convert::identity,
    apply_schedule::engage
);
setter!(
    GC_set_free_space_divisor,
    Word,
    divisor,
    std::convert::identity,
    apply_schedule::apply
);
setter!(
    GC_set_on_collection_event,
    Option<OnEvent>,
    on_event,
    address,
    |_| ()
);
setter!(
    GC_set_on_heap_resize,
    Option<OnResize>,
    on_resize,
    address,
    |_| ()
);
setter!(
    GC_set_finalize_on_demand,
    c_int,
    on_demand,
    std::convert::identity,
    apply_schedule::demand
);
setter!(
    GC_set_finalizer_notifier,
    Option<Notifier>,
    notifier,
    address,
    apply_schedule::finalizers
);

setter!(
    GC_set_max_retries,
    Word,
    retries,
    std::convert::identity,
    apply_schedule::retry
);

/// Like libgc's, and the value is stored: the adapter has to collect before the heap reaches it.
///
/// # Safety
/// As libgc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GC_set_max_heap_size(bytes: Word) {
    type Real = unsafe extern "C" fn(Word);
    WISHES.most.store(bytes, Ordering::Release);
    if let Some(real) = symbols::real("GC_set_max_heap_size\0") {
        // SAFETY: gc.h declares it so; the program's own call, passed on.
        unsafe { std::mem::transmute::<*mut c_void, Real>(real)(bytes) };
    }
    if let (true, Some(gc)) = (started(), collector::get()) {
        apply_schedule::apply(gc);
    }
}

macro_rules! getter {
    ($name:ident, $result:ty, $none:expr, $wish:expr) => {
        /// Like libgc's: returns what the program set.
        ///
        /// # Safety
        /// As libgc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() -> $result {
            type Real = unsafe extern "C" fn() -> $result;
            if started() {
                return $wish;
            }
            match symbols::real(concat!(stringify!($name), "\0")) {
                // SAFETY: gc.h declares it so; the program's own call, passed on.
                Some(real) => unsafe { std::mem::transmute::<*mut c_void, Real>(real)() },
                None => $none,
            }
        }
    };
}

getter!(
    GC_get_dont_expand,
    c_int,
    0,
    WISHES.dont_expand.load(Ordering::Acquire)
);
getter!(
    GC_get_disable_automatic_collection,
    c_int,
    0,
    WISHES.automatic_off.load(Ordering::Acquire)
);
getter!(
    GC_get_free_space_divisor,
    Word,
    3,
    WISHES.divisor.load(Ordering::Acquire)
);
getter!(
    GC_get_on_collection_event,
    Option<OnEvent>,
    None,
    program_on_event()
);
getter!(
    GC_get_on_heap_resize,
    Option<OnResize>,
    None,
    program_on_resize()
);
getter!(
    GC_get_finalize_on_demand,
    c_int,
    0,
    WISHES.on_demand.load(Ordering::Acquire)
);
getter!(
    GC_get_finalizer_notifier,
    Option<Notifier>,
    None,
    program_notifier()
);
getter!(
    GC_get_max_retries,
    Word,
    0,
    WISHES.retries.load(Ordering::Acquire)
);
