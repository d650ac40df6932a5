//! The variables of libgc's interface, and the functions that read and set them. They are settings, which
//! any module of this library may read; they know none of these modules.

use crate::output;
use crate::racy_cell::Variable;
use libc::{c_char, c_int, c_uint, c_ulong, c_void};
use std::time::Duration;

/// `int`s and words that are exported as variables and also have functions.
macro_rules! variables {
    ($($name:ident: $type:ty = $value:expr, $get:ident, $set:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) static $name: Variable<$type> = Variable::new($value);
        #[unsafe(no_mangle)]
        extern "C" fn $get() -> $type { $name.get() }
        #[unsafe(no_mangle)]
        extern "C" fn $set(value: $type) { $name.set(value) }
    )*};
}

/// The same, without an exported variable.
macro_rules! settings {
    ($($name:ident: $type:ty = $value:expr, $get:ident, $set:ident;)*) => {$(
        pub(crate) static $name: Variable<$type> = Variable::new($value);
        #[unsafe(no_mangle)]
        extern "C" fn $get() -> $type { $name.get() }
        #[unsafe(no_mangle)]
        extern "C" fn $set(value: $type) { $name.set(value) }
    )*};
}

pub(crate) type OomFn = extern "C-unwind" fn(usize) -> *mut c_void;
pub(crate) type Callback = extern "C-unwind" fn();
pub(crate) type HeapResize = extern "C-unwind" fn(usize);
pub(crate) type Event = extern "C-unwind" fn(c_uint);
pub(crate) type ThreadEvent = extern "C-unwind" fn(c_uint, *mut c_void);
pub(crate) type StopFunc = extern "C-unwind" fn() -> c_int;
pub(crate) type AbortFunc = extern "C-unwind" fn(*const c_char);
pub(crate) type ToggleFunc = extern "C-unwind" fn(*mut c_void) -> c_uint;
pub(crate) type Await = extern "C-unwind" fn(*mut c_void);

/// `struct GC_timeval_s`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct TimeLimit {
    milliseconds: c_ulong,
    nanoseconds: c_ulong,
}

/// The value of libgc's `GC_TIME_UNLIMITED`.
const UNLIMITED: c_ulong = 999_999;

variables! {
    GC_find_leak: c_int = 0, GC_get_find_leak, GC_set_find_leak;
    GC_finalize_on_demand: c_int = 0, GC_get_finalize_on_demand, GC_set_finalize_on_demand;
    GC_java_finalization: c_int = 1, GC_get_java_finalization, GC_set_java_finalization;
    GC_dont_expand: c_int = 0, GC_get_dont_expand, GC_set_dont_expand;
    GC_full_freq: c_int = 19, GC_get_full_freq, GC_set_full_freq;
    GC_non_gc_bytes: usize = 0, GC_get_non_gc_bytes, GC_set_non_gc_bytes;
    GC_no_dls: c_int = 0, GC_get_no_dls, GC_set_no_dls;
    GC_free_space_divisor: usize = 3, GC_get_free_space_divisor, GC_set_free_space_divisor;
    GC_max_retries: usize = 0, GC_get_max_retries, GC_set_max_retries;
    GC_dont_precollect: c_int = 0, GC_get_dont_precollect, GC_set_dont_precollect;
    GC_time_limit: c_ulong = UNLIMITED, GC_get_time_limit, GC_set_time_limit;
    GC_oom_fn: OomFn = output::no_memory, GC_get_oom_fn, GC_set_oom_fn;
    GC_on_abort: AbortFunc = output::abort_default, GC_get_abort_func, GC_set_abort_func;
    GC_on_heap_resize: Option<HeapResize> = None, GC_get_on_heap_resize, GC_set_on_heap_resize;
    GC_finalizer_notifier: Option<Callback> = None, GC_get_finalizer_notifier, GC_set_finalizer_notifier;
    GC_push_other_roots: Option<Callback> = None, GC_get_push_other_roots, GC_set_push_other_roots;
}

settings! {
    on_collection_event: Option<Event> = None, GC_get_on_collection_event, GC_set_on_collection_event;
    on_thread_event: Option<ThreadEvent> = None, GC_get_on_thread_event, GC_set_on_thread_event;
    start_callback: Option<Callback> = None, GC_get_start_callback, GC_set_start_callback;
    stop_func: StopFunc = never_stop, GC_get_stop_func, GC_set_stop_func;
    toggleref_func: Option<ToggleFunc> = None, GC_get_toggleref_func, GC_set_toggleref_func;
    await_finalize: Option<Await> = None, GC_get_await_finalize_proc, GC_set_await_finalize_proc;
    bytes_per_finalizer: usize = 10_000, GC_get_allocd_bytes_per_finalizer, GC_set_allocd_bytes_per_finalizer;
    min_bytes: usize = 1, GC_get_min_bytes_allocd, GC_set_min_bytes_allocd;
    rate: c_int = 10, GC_get_rate, GC_set_rate;
    prior_attempts: c_int = 1, GC_get_max_prior_attempts, GC_set_max_prior_attempts;
    no_automatic: c_int = 0, GC_get_disable_automatic_collection, GC_set_disable_automatic_collection;
    unmap_on_gcollect: c_int = 0, GC_get_force_unmap_on_gcollect, GC_set_force_unmap_on_gcollect;
    manual_vdb: c_int = 0, GC_get_manual_vdb_allowed, GC_set_manual_vdb_allowed;
}

extern "C-unwind" fn never_stop() -> c_int {
    0
}

/// Whether objects have one extra byte; must be 0 or 1.
#[unsafe(no_mangle)]
pub(crate) static GC_all_interior_pointers: Variable<c_int> = Variable::new(1);

#[unsafe(no_mangle)]
extern "C" fn GC_get_all_interior_pointers() -> c_int {
    GC_all_interior_pointers.get()
}

#[unsafe(no_mangle)]
extern "C" fn GC_set_all_interior_pointers(value: c_int) {
    GC_all_interior_pointers.set(c_int::from(value != 0));
}

/// The part of the time limit below a millisecond, in nanoseconds.
static NANOSECONDS: Variable<c_ulong> = Variable::new(0);

/// The time limit of a step of a collection, if the program set one.
pub(crate) fn time_limit() -> Option<Duration> {
    let limit = GC_time_limit.get();
    (limit != UNLIMITED)
        .then(|| Duration::from_millis(limit) + Duration::from_nanos(NANOSECONDS.get()))
}

#[unsafe(no_mangle)]
extern "C" fn GC_get_time_limit_tv() -> TimeLimit {
    TimeLimit {
        milliseconds: GC_time_limit.get(),
        nanoseconds: NANOSECONDS.get(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn GC_set_time_limit_tv(limit: TimeLimit) {
    GC_time_limit.set(limit.milliseconds);
    NANOSECONDS.set(limit.nanoseconds);
}

#[unsafe(no_mangle)]
pub(crate) static GC_dont_gc: Variable<c_int> = Variable::new(0);
#[unsafe(no_mangle)]
pub(crate) static GC_parallel: Variable<c_int> = Variable::new(0);
#[unsafe(no_mangle)]
pub(crate) static GC_gc_no: Variable<usize> = Variable::new(0);
#[unsafe(no_mangle)]
pub(crate) static GC_use_entire_heap: Variable<c_int> = Variable::new(0);
#[unsafe(no_mangle)]
pub(crate) static GC_stackbottom: Variable<usize> = Variable::new(0);
#[unsafe(no_mangle)]
pub(crate) static GC_least_plausible_heap_addr: Variable<usize> = Variable::new(usize::MAX);
#[unsafe(no_mangle)]
pub(crate) static GC_greatest_plausible_heap_addr: Variable<usize> = Variable::new(0);

#[unsafe(no_mangle)]
extern "C" fn GC_get_parallel() -> c_int {
    GC_parallel.get()
}

#[unsafe(no_mangle)]
extern "C" fn GC_get_gc_no() -> usize {
    GC_gc_no.get()
}

/// 8.2.2 as major, minor, micro: the version of libgc that this library replaces.
#[unsafe(no_mangle)]
extern "C" fn GC_get_version() -> c_uint {
    8 << 16 | 2 << 8 | 2
}

/// Whether objects are executable. As with libgc, it must be set before there is a heap.
pub(crate) static EXECUTABLE: Variable<c_int> = Variable::new(0);

#[unsafe(no_mangle)]
extern "C" fn GC_get_pages_executable() -> c_int {
    EXECUTABLE.get()
}

#[unsafe(no_mangle)]
extern "C" fn GC_set_pages_executable(wanted: c_int) {
    EXECUTABLE.set(c_int::from(wanted != 0));
}

/// The value of `GC_set_markers_count`; 0 if it was not called.
static MARKERS: Variable<usize> = Variable::new(0);

/// The number of markers that the program set.
pub(crate) fn markers_count() -> Option<usize> {
    Some(MARKERS.get()).filter(|&count| count > 0)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_set_markers_count(count: c_uint) {
    MARKERS.set(count as usize);
}

/// Does nothing: workers start when there is something to mark.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_start_mark_threads() {}

/// The maximum that the program set before the collector was made; 0 for none.
pub(crate) static EARLY_MOST: Variable<usize> = Variable::new(0);

/// Whether the program looks for leaks.
pub(crate) fn finds_leaks() -> bool {
    GC_find_leak.get() != 0
}
