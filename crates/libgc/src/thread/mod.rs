//! Registered threads: their stacks are roots, and collections stop them.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `current` | the current thread, in thread-local storage |
//! | `pthreads` | threads that are created through the collector |
//! | `unknown` | threads that are not registered |
//! | `stack` | the bounds of a thread's stack |
//! | `scan` | which parts of a stack are roots |
//! | `stop` | stops the world |
//! | `suspend` | what programs may do to threads themselves |
//! | `blocking` | regions in which a thread does not touch objects |
//! | `cancel` | keeps cancellation out of code that holds the lock |
//! | `floats` | keeps the program's floating-point environment out of it |

pub(crate) mod blocking;
pub(crate) mod cancel;
pub(crate) mod current;
pub(crate) mod floats;
mod pthreads;
mod scan;
pub(crate) mod stack;
mod stop;
mod suspend;
pub(crate) mod unknown;

pub(crate) use stop::{AtStop, signals};

use crate::quantum::Turn;
use crate::report;
use crate::settings::{GC_stackbottom, share};
use crate::state::{self, Locked};
use libc::{c_int, c_void};
use plimsoll_heap::Bins;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use stack::{DUPLICATE, SUCCESS, StackBase};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// The state of one registered thread. It is mapped when the thread is registered, so that no
/// `malloc` is involved.
pub(crate) struct Thread {
    /// The thread uses its bins, and must not be stopped now.
    pub(crate) busy: AtomicBool,
    /// A stop was requested while the thread was busy.
    pub(crate) wanted: AtomicBool,
    pub(crate) bins: Bins,
    /// Bytes that the thread freed since the last collection.
    pub(crate) freed: AtomicUsize,
    /// What it did with its memory quantum, if there is one.
    pub(crate) turn: Turn,
    /// The end (highest address) of its stack: see [`Thread::base`].
    base: AtomicUsize,
    /// This is the thread that used the collector first: the variable `GC_stackbottom` holds the
    /// end of its stack.
    first: bool,
    /// `stopped_at`: the thread's stack pointer when it was last stopped. `blocked_at`: the same
    /// when it began to block; 0 while it does not.
    stopped_at: AtomicUsize,
    blocked_at: AtomicUsize,
    /// `own`: the address range of its own stack, from the C library or the program. The other:
    /// that of a stack for signal handlers that the program registered. Both are zero if unknown.
    own: [AtomicUsize; 2],
    alternative: [AtomicUsize; 2],
    /// The parts of its stack in which it was blocked before it became active again further down.
    sections: *const Section,
    /// The number of the last stop that it answered.
    answered: AtomicU32,
    /// `suspended`: 1 while the program wants it to wait. `parked`: 1 while it does ([`suspend`]).
    suspended: AtomicU32,
    parked: AtomicU32,
    /// The kernel's number of the thread, and its handle in the C library.
    id: libc::pid_t,
    pthread: libc::pthread_t,
    /// Created through `GC_pthread_create`: kept until it is joined, for the value that it
    /// returned.
    created: bool,
    /// Nobody will join it.
    detached: bool,
    /// It has ended; only its result is kept.
    finished: bool,
    /// The value that it returned.
    result: *mut c_void,
    /// The next thread of its list in [`Threads`]; changes under the collector's lock.
    next: *mut Thread,
}

impl Thread {
    /// The end of its stack. Programs with several stacks per thread set it when they switch, for
    /// the first thread by a variable.
    fn base(&self) -> usize {
        if self.first {
            GC_stackbottom.get()
        } else {
            self.base.load(Relaxed)
        }
    }

    fn set_base(&self, base: usize) {
        if self.first {
            GC_stackbottom.set(base);
        } else {
            self.base.store(base, Relaxed);
        }
    }
}

/// A part of a stack that holds references although the thread is active again below it.
struct Section {
    /// The stack pointer when the thread began to block.
    blocked_at: usize,
    /// The section before this one, higher up on the stack.
    before: *const Section,
}

/// In how many lists the threads are. With thousands of threads, one list would have to be walked far
/// for each that is joined.
const LISTS: usize = 256;

/// All registered threads of the process. The lists change under the collector's lock.
pub(crate) struct Threads {
    /// By the hash of the handle ([`list_of`]): the thread that registered last; null if there is none.
    lists: [*mut Thread; LISTS],
}

/// The list of the thread with this handle: the upper bits of a product, because handles are addresses
/// that differ by the size of a stack (Fibonacci hashing).
fn list_of(pthread: libc::pthread_t) -> usize {
    (pthread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LISTS.ilog2())) as usize
}

/// How many threads are registered and have not ended; changes under the collector's lock.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// How many threads are registered and have not ended, as far as a thread without the lock can tell.
pub(crate) fn running() -> usize {
    RUNNING.load(Relaxed)
}

fn store(place: &[AtomicUsize; 2], range: Range<usize>) {
    place[0].store(range.start, Relaxed);
    place[1].store(range.end, Relaxed);
}

impl Default for Threads {
    fn default() -> Threads {
        Threads {
            lists: [null_mut(); LISTS],
        }
    }
}

impl Threads {
    /// All threads that are registered, and those whose results are kept.
    fn all(&self) -> impl Iterator<Item = *mut Thread> {
        (0..LISTS).flat_map(|list| self.of(list))
    }

    /// The threads of a list.
    fn of(&self, list: usize) -> impl Iterator<Item = *mut Thread> + use<> {
        let mut at = self.lists[list];
        std::iter::from_fn(move || {
            let this = at;
            // SAFETY: the list holds mapped threads; it changes under the lock only, which the
            // owner of `self` holds.
            unsafe { at = this.as_ref()?.next };
            Some(this)
        })
    }

    /// The thread that was created through the collector and has this handle.
    fn created(&self, pthread: libc::pthread_t) -> Option<*mut Thread> {
        let mut threads = self.of(list_of(pthread));
        // SAFETY: as above.
        threads.find(|&thread| unsafe { (*thread).pthread == pthread && (*thread).created })
    }

    fn running(&self) -> impl Iterator<Item = *mut Thread> {
        // SAFETY: as above.
        self.all().filter(|&thread| unsafe { !(*thread).finished })
    }

    /// Registers this thread, whose stack ends at `base`. `None` if there is no memory.
    pub(crate) fn register(&mut self, base: usize) -> Option<*mut Thread> {
        // SAFETY: a new mapping; zero is a valid `Thread`.
        let thread = unsafe {
            mmap_anonymous(
                null_mut(),
                size_of::<Thread>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
            .ok()?
            .cast::<Thread>()
        };
        // SAFETY: mapped just now.
        let this = unsafe { &mut *thread };
        this.base.store(base, Relaxed);
        let own = (!stack::is_costly()).then(stack::told).flatten();
        store(&this.own, own.unwrap_or(0..0));
        // SAFETY: both only ask who this is.
        (this.id, this.pthread) = unsafe { (libc::gettid(), libc::pthread_self()) };
        let first = &mut self.lists[list_of(this.pthread)];
        this.next = std::mem::replace(first, thread);
        RUNNING.fetch_add(1, Relaxed);
        current::set(thread);
        Some(thread)
    }

    /// Removes a thread from its list, and unmaps its state.
    fn remove(&mut self, thread: *mut Thread) {
        // SAFETY: a thread of a list.
        let list = list_of(unsafe { (*thread).pthread });
        let mut link = &raw mut self.lists[list];
        // SAFETY: links of the list, under the lock; `thread` is one of it, and nobody uses it any more.
        unsafe {
            while !(*link).is_null() {
                if *link == thread {
                    *link = (*thread).next;
                    let _ = munmap(thread.cast(), size_of::<Thread>());
                    return;
                }
                link = &raw mut (**link).next;
            }
        }
    }

    /// Called in a child of fork: removes all threads but this one. What their bins did not hand out is free
    /// again, unless the fork came while a thread changed them.
    pub(crate) fn only_this(&mut self, heap: &plimsoll_heap::Heap) {
        let this = current::get();
        for list in 0..LISTS {
            while let Some(other) = self.of(list).find(|&thread| thread != this) {
                // SAFETY: a thread of a list, which does not exist here, so that nobody changes it.
                let other_thread = unsafe { &mut *other };
                if !other_thread.busy.load(Relaxed) {
                    other_thread.bins.abandon(heap);
                }
                self.remove(other);
            }
        }
        RUNNING.store(usize::from(!this.is_null()), Relaxed);
        // SAFETY: this thread's own.
        if let Some(this) = unsafe { this.as_mut() } {
            // SAFETY: only asks who this is.
            this.id = unsafe { libc::gettid() };
        }
    }

    /// Empties the bins of all threads. The world is stopped.
    pub(crate) fn retire_bins(&mut self, heap: &plimsoll_heap::Heap) {
        for thread in self.all() {
            // SAFETY: the thread is stopped, or is this one, outside of its bins.
            unsafe {
                (*thread).bins.retire(heap);
                (*thread).freed.store(0, Relaxed);
            }
        }
    }

    /// Calls `each` with the bins of all threads. The world is stopped.
    pub(crate) fn each_bins(&self, mut each: impl FnMut(&Bins)) {
        // SAFETY: as in `retire_bins`.
        self.all()
            .for_each(|thread| each(unsafe { &(*thread).bins }));
    }

    /// Whether `is` is true of the bins of any thread. The threads may run.
    pub(crate) fn any_bins(&self, is: impl Fn(&Bins) -> bool) -> bool {
        // SAFETY: as in `all`.
        self.all().any(|thread| is(unsafe { &(*thread).bins }))
    }

    /// Bytes that all threads freed since the last collection.
    pub(crate) fn freed(&self) -> usize {
        // SAFETY: as in `all`.
        self.all()
            .map(|thread| unsafe { (*thread).freed.load(Relaxed) })
            .sum()
    }
}

/// Registers the thread that uses the collector first. Like libgc, this takes it for the program's
/// main thread.
pub(crate) fn register_first(threads: &mut Threads) {
    let told = GC_stackbottom.get();
    let base = if told != 0 {
        told
    } else {
        // With any other end, the frames above it would not be scanned.
        stack::base().unwrap_or_else(|| report::abort(c"Nobody tells where the stack begins"))
    };
    GC_stackbottom.set(base);
    let thread = threads.register(base);
    // SAFETY: mapped just now, and this thread's own.
    if let Some(this) = thread.and_then(|thread| unsafe { thread.as_mut() }) {
        this.first = true;
    }
    // The main thread may end before the others (`pthread_exit`).
    pthreads::watch_end();
}

/// `GC_EVENT_THREAD_SUSPENDED` and `_UNSUSPENDED`.
const SUSPENDED: u32 = 10;
const UNSUSPENDED: u32 = 11;

/// Threads may always be registered.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_allow_register_threads() {
    share();
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_register_my_thread(base: *const StackBase) -> c_int {
    share();
    let mut gc = state::lock();
    if !current::get().is_null() {
        return DUPLICATE;
    }
    // SAFETY: the caller's.
    let base = unsafe { (*base).mem_base } as usize;
    match gc.program.threads.register(base) {
        Some(_) => {
            gc.program.unknown.registered();
            // The thread may end without unregistering.
            pthreads::watch_end();
            SUCCESS
        }
        None => stack::UNIMPLEMENTED,
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_unregister_my_thread() -> c_int {
    let mut gc = state::lock();
    leave(&mut gc, null_mut());
    SUCCESS
}

/// Unregisters this thread. Its result is kept if the program may still ask for it.
fn leave(gc: &mut Locked, result: *mut c_void) {
    let thread = current::get();
    // SAFETY: this thread's own.
    let Some(this) = (unsafe { thread.as_mut() }) else {
        return;
    };
    // The next census finds again what its bins hold.
    this.bins.abandon(gc.heap);
    let freed = this.freed.swap(0, Relaxed);
    let sum = &mut gc.program.counted.freed;
    *sum = sum.saturating_add(freed);
    current::set(null_mut());
    RUNNING.fetch_sub(1, Relaxed);
    if this.created && !this.detached {
        this.result = result;
        this.finished = true;
    } else {
        gc.program.threads.remove(thread);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_thread_is_registered() -> c_int {
    c_int::from(!current::get().is_null())
}

/// Registers the range of a stack of this thread's that its signal handlers run on.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_register_altstack(
    stack: *mut c_void,
    stack_bytes: usize,
    alternative: *mut c_void,
    bytes: usize,
) {
    let range = |start: *mut c_void, bytes| start as usize..(start as usize).saturating_add(bytes);
    let _gc = state::lock();
    // SAFETY: this thread's own; under the lock.
    if let Some(this) = unsafe { current::get().as_ref() } {
        if this.own().is_empty() {
            store(&this.own, range(stack, stack_bytes));
        }
        store(&this.alternative, range(alternative, bytes));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_get_my_stackbottom(found: *mut StackBase) -> *mut c_void {
    let gc = state::lock();
    let thread = current::get();
    // SAFETY: this thread's own; `found` is the caller's.
    unsafe {
        let base = thread.as_ref().map_or(0, Thread::base);
        (*found).mem_base = base as *mut c_void;
    }
    drop(gc);
    thread.cast()
}

/// The caller holds the allocation lock, or the handle is that of the calling thread.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_set_stackbottom(handle: *mut c_void, base: *const StackBase) {
    let thread: *mut Thread = if handle.is_null() {
        current::get()
    } else {
        handle.cast()
    };
    // SAFETY: a handle that `GC_get_my_stackbottom` gave, or this thread; `base` is the caller's.
    unsafe {
        let base = (*base).mem_base as usize;
        match thread.as_ref() {
            Some(this) => this.set_base(base),
            None => GC_stackbottom.set(base),
        }
    }
}
