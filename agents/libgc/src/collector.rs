//! libgc's public functions (`gc.h`), looked up at run time. In a process without libgc, [`get`]
//! returns `None`.

use crate::symbols;
use plimsoll_unit::Bytes;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// `GC_word`.
pub type Word = usize;
/// `GC_on_collection_event_proc`.
pub type OnEvent = unsafe extern "C" fn(c_int);
/// `GC_on_heap_resize_proc`.
pub type OnResize = unsafe extern "C" fn(Word);
/// `GC_finalizer_notifier_proc`.
pub type Notifier = unsafe extern "C" fn();
/// `GC_fn_type`.
pub type Body = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// `GC_EVENT_START`: a collection begins; the allocation lock is held.
pub const EVENT_START: c_int = 0;
/// `GC_EVENT_RECLAIM_END`: the free blocks are known; those that were due have been unmapped.
pub const EVENT_RECLAIM_END: c_int = 4;
/// `GC_EVENT_END`: the collection is over; the lock is still held.
pub const EVENT_END: c_int = 5;

/// `struct GC_stack_base` (without the field for machines with a register stack).
#[repr(C)]
#[derive(Debug)]
pub struct StackBase {
    base: *mut c_void,
}

/// `struct GC_prof_stats_s`: sizes in bytes, counts since the start.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Address space of the heap, unmapped parts included.
    pub heap: Word,
    /// Free whole blocks, unmapped ones included.
    pub free: Word,
    /// Bytes given back to the kernel.
    pub unmapped: Word,
    /// Bytes allocated since the last collection.
    pub allocated_since: Word,
    /// Bytes allocated before the last collection.
    pub allocated_before: Word,
    /// Explicitly managed bytes.
    pub non_gc: Word,
    /// Collections so far.
    pub collections: Word,
    /// Marker threads besides the collecting one.
    pub markers_m1: Word,
    /// Bytes reclaimed since the last collection.
    pub reclaimed_since: Word,
    /// Bytes reclaimed before the last collection.
    pub reclaimed_before: Word,
    /// Bytes explicitly freed since the last collection.
    pub freed_since: Word,
    /// Bytes obtained from the kernel.
    pub obtained: Word,
}

impl Stats {
    /// The heap that is not unmapped.
    pub fn mapped(&self) -> Bytes {
        self.heap.saturating_sub(self.unmapped).into()
    }

    /// The heap in blocks that hold objects.
    pub fn used(&self) -> Bytes {
        self.heap.saturating_sub(self.free).into()
    }

    /// Free whole blocks, including unmapped ones.
    pub fn free_blocks(&self) -> Bytes {
        self.free.into()
    }

    /// The free heap that is still mapped.
    pub fn idle(&self) -> Bytes {
        self.free.saturating_sub(self.unmapped).into()
    }

    /// The memory allocated since the start.
    pub fn allocated(&self) -> Bytes {
        self.allocated_before
            .saturating_add(self.allocated_since)
            .into()
    }
}

macro_rules! functions {
    ($($field:ident: $name:literal, fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The table of functions. It exists only if all of them were found.
        #[derive(Debug)]
        pub struct Libgc {
            $(
                #[doc = concat!("`", $name, "`")]
                pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,
            )*
        }

        impl Libgc {
            fn find() -> Option<Self> {
                Some(Self {
                    $($field: {
                        let address = symbols::real(concat!($name, "\0"))?;
                        // SAFETY: gc.h of libgc 8 declares the function of this name with this type.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    init: "GC_init", fn();
    version: "GC_get_version", fn() -> u32;
    is_disabled: "GC_is_disabled", fn() -> c_int;
    is_incremental: "GC_is_incremental_mode", fn() -> c_int;
    stats: "GC_get_prof_stats_unsafe", fn(*mut Stats, usize) -> usize;
    collect_and_unmap: "GC_gcollect_and_unmap", fn();
    malloc_atomic_uncollectable: "GC_malloc_atomic_uncollectable", fn(usize) -> *mut c_void;
    free: "GC_free", fn(*mut c_void);
    all_interior_pointers: "GC_get_all_interior_pointers", fn() -> c_int;
    size: "GC_size", fn(*const c_void) -> usize;
    set_automatic_off: "GC_set_disable_automatic_collection", fn(c_int);
    automatic_off: "GC_get_disable_automatic_collection", fn() -> c_int;
    set_dont_expand: "GC_set_dont_expand", fn(c_int);
    dont_expand: "GC_get_dont_expand", fn() -> c_int;
    set_divisor: "GC_set_free_space_divisor", fn(Word);
    divisor: "GC_get_free_space_divisor", fn() -> Word;
    set_retries: "GC_set_max_retries", fn(Word);
    retries: "GC_get_max_retries", fn() -> Word;
    set_on_event: "GC_set_on_collection_event", fn(Option<OnEvent>);
    on_event: "GC_get_on_collection_event", fn() -> Option<OnEvent>;
    set_on_resize: "GC_set_on_heap_resize", fn(Option<OnResize>);
    on_resize: "GC_get_on_heap_resize", fn() -> Option<OnResize>;
    set_on_demand: "GC_set_finalize_on_demand", fn(c_int);
    on_demand: "GC_get_finalize_on_demand", fn() -> c_int;
    set_notifier: "GC_set_finalizer_notifier", fn(Option<Notifier>);
    notifier: "GC_get_finalizer_notifier", fn() -> Option<Notifier>;
    allow_threads: "GC_allow_register_threads", fn();
    stack_base: "GC_get_stack_base", fn(*mut StackBase) -> c_int;
    register_thread: "GC_register_my_thread", fn(*const StackBase) -> c_int;
    unregister_thread: "GC_unregister_my_thread", fn() -> c_int;
    do_blocking: "GC_do_blocking", fn(Body, *mut c_void) -> *mut c_void;
    call_active: "GC_call_with_gc_active", fn(Body, *mut c_void) -> *mut c_void;
    suspend_signal: "GC_get_suspend_signal", fn() -> c_int;
    restart_signal: "GC_get_thr_restart_signal", fn() -> c_int;
}

/// `GC_SUCCESS`.
const SUCCESS: c_int = 0;
/// `GC_DUPLICATE`: the thread is registered already.
const DUPLICATE: c_int = 1;

/// The table, if the process has a libgc that offers all of the functions.
pub fn get() -> Option<&'static Libgc> {
    static TABLE: OnceLock<Libgc> = OnceLock::new();
    if let Some(table) = TABLE.get() {
        return Some(table);
    }
    let table = Libgc::find()?;
    Some(TABLE.get_or_init(|| table))
}

impl Libgc {
    /// Reads the counters without the allocation lock: while they change, one may be ahead of
    /// another by a block.
    pub fn read(&self) -> Stats {
        let mut stats = Stats::default();
        // SAFETY: the structure is valid for writing and its size is given.
        unsafe { (self.stats)(&mut stats, size_of::<Stats>()) };
        stats
    }

    /// Whether the program forbade collections (`GC_disable`).
    pub fn disabled(&self) -> bool {
        // SAFETY: no preconditions.
        unsafe { (self.is_disabled)() != 0 }
    }

    /// Whether the program made the collector incremental, which gives it another schedule.
    pub fn incremental(&self) -> bool {
        // SAFETY: no preconditions.
        unsafe { (self.is_incremental)() != 0 }
    }

    /// Registers the calling thread, so that it may collect.
    pub fn register_this_thread(&self) -> bool {
        let mut base = StackBase {
            base: std::ptr::null_mut(),
        };
        // SAFETY: `base` is valid for writing; `allow_threads` was called when libgc started.
        unsafe {
            (self.stack_base)(&mut base) == SUCCESS
                && matches!((self.register_thread)(&base), SUCCESS | DUPLICATE)
        }
    }
}
