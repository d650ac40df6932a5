//! The collector of this process: made when it is first needed, and behind one lock.

use crate::disclaim::Disclaims;
use crate::finalize::Finalization;
use crate::footprint::Surroundings;
use crate::incremental::{self, Incremental};
use crate::kinds::{self, Descriptors};
use crate::leaks::{self, Leaks};
use crate::links::Links;
use crate::lock::Lock;
use crate::pace::Pace;
use crate::roots::Roots;
use crate::settings::{GC_greatest_plausible_heap_addr, GC_least_plausible_heap_addr};
use crate::stats::Stats;
use crate::steps::Steps;
use crate::thread::cancel::Uncancelled;
use crate::thread::unknown::Unknown;
use crate::thread::{self, Threads, signals};
use crate::toggle::Toggles;
use crate::unwind::{Whole, end_where_we_panic};
use crate::{environ, fork, report, stress};
use libc::{c_int, c_void};
use plimsoll_heap::mark::{Crew, Marker};
use plimsoll_heap::{Bins, Central, Heap, SUPERPAGE};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Everything that the lock guards.
pub(crate) struct State {
    pub(crate) central: Central,
    pub(crate) marker: Marker<'static>,
    /// Who marks with `marker`; none before the heap is worth it, and where one processor is all there is.
    pub(crate) crew: Option<&'static Crew>,
    /// It was looked for helpers.
    pub(crate) alone: bool,
    pub(crate) threads: Threads,
    /// For threads that are not registered, and what of theirs lives.
    pub(crate) spare: Option<Box<Bins>>,
    pub(crate) unknown: Unknown,
    pub(crate) roots: Roots,
    pub(crate) finalization: Finalization,
    pub(crate) links: Links,
    pub(crate) toggles: Toggles,
    pub(crate) disclaims: Disclaims,
    pub(crate) leaks: Leaks,
    pub(crate) pace: Pace,
    pub(crate) surroundings: Surroundings,
    pub(crate) incremental: Incremental,
    pub(crate) steps: Steps,
    pub(crate) stats: Stats,
    /// Bytes of the heap that can be executed.
    pub(crate) executable: usize,
}

struct Place(UnsafeCell<Option<State>>);
// SAFETY: used under `LOCK` only.
unsafe impl Sync for Place {}

static HEAP: OnceLock<Heap> = OnceLock::new();
static LOCK: Lock = Lock::new();
static STATE: Place = Place(UnsafeCell::new(None));
static READY: AtomicBool = AtomicBool::new(false);

/// Bytes of addresses for objects: as many as may be, up to this. A machine's memory is far below.
const MOST: usize = 1 << 40;

/// The state, for who holds the lock.
pub(crate) struct Locked {
    pub(crate) heap: &'static Heap,
    state: *mut State,
    /// The lock was taken for this, and is freed when this goes.
    owned: Option<Uncancelled>,
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
        if let Some(uncancelled) = self.owned.take() {
            LOCK.unlock();
            drop(uncancelled);
        }
    }
}

impl Locked {
    /// Leaves the lock held, for the program: until [`unlock`].
    pub(crate) fn keep(mut self) {
        self.owned = None;
    }
}

/// Takes the lock: while this thread has it it is not cancelled. The first time, it makes the collector.
pub(crate) fn lock() -> Locked {
    let uncancelled = Uncancelled::begin();
    LOCK.lock();
    // Where nothing can be made the program's function may throw.
    let failed = Guard { owned: true };
    let mut locked = held();
    std::mem::forget(failed);
    locked.owned = Some(uncancelled);
    locked
}

/// After a collection that the program asked for: it may do nothing but ask.
pub(crate) fn give_way() {
    LOCK.give_way();
}

/// Whether this thread holds the lock: a callback of the collector's is under way.
pub(crate) fn is_mine() -> bool {
    LOCK.is_mine()
}

/// The state, for what libgc's interface lets a program ask with the lock and without it.
pub(crate) fn either() -> Locked {
    if is_mine() { held() } else { lock() }
}

/// The lock alone, where this thread does not hold it already. Nothing is made: much may be asked
/// and said before there is a collector, and must not be its beginning.
pub(crate) struct Guard {
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

/// The state, where the program holds the lock already (`GC_call_with_alloc_lock`, callbacks).
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

/// The heap; questions about addresses need no lock.
pub(crate) fn heap() -> &'static Heap {
    match HEAP.get() {
        Some(heap) => heap,
        None => lock().heap,
    }
}

/// The heap, if there is one already.
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
    let range = heap.reserved();
    // A word less, as in libgc: a program that names the variable has it among its own data, and
    // the first object would live on.
    GC_least_plausible_heap_addr.set(range.start - size_of::<usize>());
    GC_greatest_plausible_heap_addr.set(range.end);
    let Ok(marker) = Marker::new(heap, &Descriptors) else {
        report::abort(c"No room for a mark stack");
    };
    let state = place.insert(State {
        central,
        marker,
        crew: None,
        alone: false,
        threads: Threads::new(),
        spare: None,
        unknown: Unknown::default(),
        roots: Roots::begin(),
        finalization: Finalization::default(),
        links: Links::default(),
        toggles: Toggles::default(),
        disclaims: Disclaims::default(),
        leaks: Leaks::default(),
        pace: Pace::default(),
        surroundings: Surroundings::default(),
        incremental: Incremental::default(),
        steps: Steps::default(),
        stats: Stats::default(),
        executable: 0,
    });
    environ::read(heap, &mut state.pace);
    state.pace.room = range.len() / SUPERPAGE;
    let most = state.surroundings.room(&state.central, state.pace.initial);
    state.pace.begin(&mut state.central, most);
    signals::install();
    thread::register_first(&mut state.threads);
    fork::watch();
    if leaks::wanted() {
        leaks::look_at_exit();
    }
    state.incremental.forbidden = environ::forbids_incremental();
    if environ::wants_incremental() {
        incremental::turn_on(heap, state);
    }
    READY.store(true, Relaxed);
    whole.end();
    (heap, state)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_init() {
    drop(lock());
}

/// Whether there is a collector already.
pub(crate) fn is_ready() -> bool {
    READY.load(Relaxed)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_init_called() -> c_int {
    c_int::from(is_ready())
}

/// libgc stops its threads at exit; there is nothing here that would not end with the process.
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
    // SAFETY: what the caller asks for.
    unsafe { function(argument) }
}

/// Frees the lock that another function took and did not free.
pub(crate) fn unlock() {
    LOCK.unlock();
}

/// In a child of fork, where nobody else is left to hold the lock.
pub(crate) fn unlock_in_child() {
    LOCK.forget();
}
