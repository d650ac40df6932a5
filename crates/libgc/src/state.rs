//! The state that the collector's lock guards. [`crate::start`] makes it.

use crate::diagnostics;
use crate::finalization::Finalization;
use crate::leaks::Leaks;
use crate::lock::{self, LOCK};
use crate::roots::Roots;
use crate::thread::cancel::Uncancelled;
use crate::thread::float_environment::FloatEnvironment;
use crate::thread::registered::Threads;
use crate::thread::unregistered::Unknown;
use libc::c_void;
use plimsoll_collector::Collector;
use plimsoll_heap::Heap;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
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
    /// Functions and links of objects that die.
    pub(crate) finalization: Finalization,
    /// Objects that may be lost.
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

impl Program {
    /// Unregisters this thread, whose result is kept if the program may still ask for it.
    pub(crate) fn leave(&mut self, heap: &Heap, result: *mut c_void) {
        let freed = self.threads.leave(heap, result);
        self.counted.freed = self.counted.freed.saturating_add(freed);
    }
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

static STATE: Place = Place(UnsafeCell::new(None));

/// A thread that holds the lock does without cancellation, and without the program's floating-point
/// environment.
struct Owned {
    _float_environment: FloatEnvironment,
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
            lock::unlock();
            drop(owned);
        }
    }
}

impl Locked {
    /// Leaves the lock held on the program's behalf, until `unlock`.
    pub(crate) fn keep(mut self) {
        self.owned = None;
    }
}

/// Whether the program runs a function with the lock ([`Lent`]). Guarded by the lock.
static LENT: AtomicBool = AtomicBool::new(false);

/// The program runs a function with the lock, and nobody uses the state meanwhile.
pub(crate) struct Lent;

impl Lent {
    pub(crate) fn begin() -> Lent {
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
    lock::is_mine() && LENT.load(Relaxed)
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

impl Guard {
    /// The guard of the lock, which this thread has just taken.
    pub(crate) fn of_taken_lock() -> Guard {
        Guard { owned: true }
    }
}

pub(crate) fn guard() -> Guard {
    let owned = !lock::is_mine();
    if owned {
        LOCK.lock();
    }
    Guard { owned }
}

/// Takes the lock, and the state by `held`. A thread that holds the lock cannot be cancelled, and has the
/// usual floating-point environment.
pub(crate) fn lock_with(held: fn() -> Locked) -> Locked {
    let owned = Owned {
        _float_environment: FloatEnvironment::begin(),
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

/// Takes the lock of the collector, which is made.
pub(crate) fn lock() -> Locked {
    lock_with(held)
}

/// The state of the collector, which is made, when this thread holds the lock already.
pub(crate) fn held() -> Locked {
    made().unwrap_or_else(|| diagnostics::abort(c"The collector was used before it was made"))
}

/// The state, if it was made. This thread holds the lock.
pub(crate) fn made() -> Option<Locked> {
    // SAFETY: under the lock.
    let state = unsafe { &mut *STATE.0.get() }.as_mut()?;
    Some(Locked {
        heap: state.collector.heap(),
        state,
        owned: None,
    })
}

/// Sets the state of a new collector. This thread holds the lock.
pub(crate) fn set(state: State) -> &'static mut State {
    // SAFETY: under the lock.
    unsafe { &mut *STATE.0.get() }.insert(state)
}
