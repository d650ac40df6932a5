//! The collector of this process: made when it is first needed, and guarded by one lock.

use crate::disclaim::Disclaims;
use crate::finalize::Finalization;
use crate::kinds::{self, Descriptors};
use crate::leaks::{self, Leaks};
use crate::links::Links;
use crate::lock::Lock;
use crate::roots::Roots;
use crate::settings::{GC_greatest_plausible_heap_addr, GC_least_plausible_heap_addr};
use crate::thread::cancel::Uncancelled;
use crate::thread::floats::Floats;
use crate::thread::unknown::Unknown;
use crate::thread::{self, Threads, signals};
use crate::toggle::Toggles;
use crate::unwind::{Whole, end_where_we_panic};
use crate::{collect, environ, fork, places, report, stress};
use libc::{c_int, c_void};
use plimsoll_collector::Collector;
use plimsoll_heap::Heap;
use plimsoll_heap::mark::Marker;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Everything that the collector's lock guards.
pub(crate) struct State {
    /// The heap, and the decisions about it.
    pub(crate) collector: Collector<'static>,
    /// The program.
    pub(crate) program: Program,
}

/// The program, as far as a collection has to know it. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Program {
    /// The registered threads.
    pub(crate) threads: Threads,
    /// Threads that are not registered.
    pub(crate) unknown: Unknown,
    /// Static data and the ranges that the program added.
    pub(crate) roots: Roots,
    /// Finalizers.
    pub(crate) finalization: Finalization,
    /// Disappearing links.
    pub(crate) links: Links,
    /// Toggle references.
    pub(crate) toggles: Toggles,
    /// Disclaim procedures.
    pub(crate) disclaims: Disclaims,
    /// What the search for leaks has to know.
    pub(crate) leaks: Leaks,
    /// Bytes that the program counts itself.
    pub(crate) counted: Counted,
    /// Bytes of the heap that are executable.
    pub(crate) executable: usize,
    /// Bytes of the stacks that the last collection scanned.
    pub(crate) stacks: usize,
    /// The number of markers that the environment sets.
    pub(crate) markers: Option<usize>,
    /// Collections are logged.
    pub(crate) logs: bool,
}

/// Bytes that the program took or freed without the collector.
#[derive(Default)]
pub(crate) struct Counted {
    /// Bytes freed since the last collection, except those that threads count themselves.
    pub(crate) freed: usize,
    /// Bytes that the program says it took without allocating objects since the last collection.
    pub(crate) told: usize,
    /// The same before the last collection.
    pub(crate) told_before: usize,
    /// The total time in collections when the program began to measure it; `None` if it did not.
    pub(crate) measured_from: Option<Duration>,
}

impl Counted {
    /// Notes the end of a collection.
    pub(crate) fn collected(&mut self) {
        self.freed = 0;
        self.told_before = self.told_before.saturating_add(self.told);
        self.told = 0;
    }
}

struct Place(UnsafeCell<Option<State>>);
// SAFETY: used under `LOCK` only.
unsafe impl Sync for Place {}

static HEAP: OnceLock<Heap> = OnceLock::new();
static LOCK: Lock = Lock::new();
static STATE: Place = Place(UnsafeCell::new(None));
static READY: AtomicBool = AtomicBool::new(false);

/// The most bytes of addresses to reserve for objects; far above any machine's memory.
const MOST: usize = 1 << 40;

/// What a thread that holds the lock does without: cancellation, and the program's floating-point
/// environment.
struct Owned {
    _floats: Floats,
    _uncancelled: Uncancelled,
}

/// The state, in the hands of the thread that holds the lock.
pub(crate) struct Locked {
    pub(crate) heap: &'static Heap,
    /// Valid as long as the lock is held.
    state: *mut State,
    /// Set if the lock was taken for this value: dropping it frees the lock.
    owned: Option<Owned>,
}

impl Deref for Locked {
    type Target = State;
    fn deref(&self) -> &State {
        // SAFETY: made under the lock, which is held as long as this lives.
        unsafe { &*self.state }
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: as above; one function at a time uses it.
        unsafe { &mut *self.state }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(owned) = self.owned.take() {
            LOCK.unlock();
            drop(owned);
        }
    }
}

impl Locked {
    /// Leaves the lock held on the program's behalf, until [`unlock`].
    pub(crate) fn keep(mut self) {
        self.owned = None;
    }
}

/// Takes the lock. A thread that holds it cannot be cancelled, and has the usual floating-point
/// environment. The first call makes the collector.
pub(crate) fn lock() -> Locked {
    let owned = Owned {
        _floats: Floats::begin(),
        _uncancelled: Uncancelled::begin(),
    };
    LOCK.lock();
    // If the collector cannot be made, the program's out-of-memory function may throw.
    let failed = Guard { owned: true };
    let mut locked = held();
    std::mem::forget(failed);
    locked.owned = Some(owned);
    locked
}

/// Lets other threads take the lock after a collection that the program asked for: the program may
/// do nothing but ask for collections.
pub(crate) fn give_way() {
    LOCK.give_way();
}

/// Whether this thread holds the lock, that is, runs a callback of the collector.
pub(crate) fn is_mine() -> bool {
    LOCK.is_mine()
}

/// The state, for functions that a program may call with the lock or without it.
pub(crate) fn either() -> Locked {
    if is_mine() { held() } else { lock() }
}

/// Whether the program runs a function with the lock ([`Lent`]). Guarded by the lock.
static LENT: AtomicBool = AtomicBool::new(false);

/// The program runs a function with the lock, and nobody uses the state meanwhile.
struct Lent;

impl Lent {
    fn begin() -> Lent {
        LENT.store(true, Relaxed);
        Lent
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        LENT.store(false, Relaxed);
    }
}

/// Whether this thread is in a function that the program runs with the lock. It may allocate, but not
/// collect: with libgc, it may if there is a place in the thread's lists, or only one thread.
pub(crate) fn is_lent() -> bool {
    is_mine() && LENT.load(Relaxed)
}

/// Holds the lock without the state, or nothing if this thread has the lock already. This does not
/// make the collector: a program may call many getters and setters before there is one.
pub(crate) struct Guard {
    /// Whether the lock was taken for this value: dropping it frees the lock.
    owned: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.owned {
            LOCK.unlock();
        }
    }
}

pub(crate) fn guard() -> Guard {
    let owned = !is_mine();
    if owned {
        LOCK.lock();
    }
    Guard { owned }
}

/// The state, when the program holds the lock already (`GC_call_with_alloc_lock`, callbacks).
pub(crate) fn held() -> Locked {
    // SAFETY: under the lock.
    let place = unsafe { &mut *STATE.0.get() };
    let heap = HEAP.get();
    let (heap, state) = match (heap, place) {
        (Some(heap), Some(state)) => (heap, state),
        (_, place) => make(place),
    };
    Locked {
        heap,
        state,
        owned: None,
    }
}

/// The heap. Queries about addresses need no lock.
#[inline(always)]
pub(crate) fn heap() -> &'static Heap {
    match HEAP.get() {
        Some(heap) => heap,
        None => new_heap(),
    }
}

#[cold]
#[inline(never)]
fn new_heap() -> &'static Heap {
    lock().heap
}

/// The heap, if it was made already.
#[inline(always)]
pub(crate) fn made_heap() -> Option<&'static Heap> {
    HEAP.get()
}

#[cold]
fn make(place: &'static mut Option<State>) -> (&'static Heap, &'static mut State) {
    end_where_we_panic();
    let Ok((heap, central)) = Heap::new(stress::os(), MOST) else {
        report::abort(c"No room for a heap: is there a limit on addresses (ulimit -v)?");
    };
    let whole = Whole::begin();
    kinds::add_first(&heap);
    let heap = HEAP.get_or_init(|| heap);
    places::tell(heap);
    let range = heap.reserved();
    // One word less than the heap's start, as in libgc: a program that refers to this variable has
    // its value in static data, which would keep the first object alive.
    GC_least_plausible_heap_addr.set(range.start - size_of::<usize>());
    GC_greatest_plausible_heap_addr.set(range.end);
    let Ok(marker) = Marker::new(heap, &Descriptors) else {
        report::abort(c"No room for a mark stack");
    };
    let asked = environ::read(heap);
    stress::begin(heap);
    let state = place.insert(State {
        collector: Collector::new(heap, central, marker, &asked.settings),
        program: Program {
            roots: Roots::begin(),
            markers: asked.markers,
            logs: asked.logs,
            ..Program::default()
        },
    });
    signals::install();
    thread::register_first(&mut state.program.threads);
    fork::watch();
    if leaks::wanted() {
        leaks::look_at_exit();
    }
    if environ::wants_incremental() {
        collect::turn_incremental_on(&mut state.collector);
    }
    READY.store(true, Relaxed);
    whole.end();
    (heap, state)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_init() {
    drop(lock());
}

/// Whether the collector was made already.
pub(crate) fn is_ready() -> bool {
    READY.load(Relaxed)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_init_called() -> c_int {
    c_int::from(is_ready())
}

/// libgc stops its threads here. There is nothing to do: all of ours end with the process.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_deinit() {}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_alloc_lock() {
    LOCK.lock();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_alloc_unlock() {
    unlock();
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_call_with_alloc_lock(
    function: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> *mut c_void {
    LOCK.lock();
    let _guard = Guard { owned: true };
    let _lent = Lent::begin();
    // SAFETY: what the caller asks for.
    unsafe { function(argument) }
}

/// Frees the lock that another function took and left held.
pub(crate) fn unlock() {
    LOCK.unlock();
}

/// Frees the lock in a child of fork, where no other thread can hold it.
pub(crate) fn unlock_in_child() {
    LOCK.forget();
}
