//! All registered threads.

use super::record::Thread;
use super::{current, stack};
use libc::c_void;
use plimsoll_heap::{Bins, Heap};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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

impl Default for Threads {
    fn default() -> Threads {
        Threads {
            lists: [null_mut(); LISTS],
        }
    }
}

impl Threads {
    /// All threads that are registered, and those whose results are kept.
    pub(super) fn all(&self) -> impl Iterator<Item = *mut Thread> {
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
    pub(super) fn created(&self, pthread: libc::pthread_t) -> Option<*mut Thread> {
        let mut threads = self.of(list_of(pthread));
        // SAFETY: as above.
        threads.find(|&thread| unsafe {
            (*thread).pthread == pthread && (*thread).joining.is_created()
        })
    }

    pub(super) fn running(&self) -> impl Iterator<Item = *mut Thread> {
        // SAFETY: as above.
        self.all()
            .filter(|&thread| unsafe { !(*thread).joining.is_finished() })
    }

    /// The running thread with this handle.
    pub(crate) fn find(&self, pthread: libc::pthread_t) -> Option<&'static Thread> {
        self.running()
            // SAFETY: threads of the list, under the lock.
            .map(|thread| unsafe { &*thread })
            .find(|this| this.pthread == pthread)
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
        let own = (!stack::is_costly()).then(stack::told).flatten();
        this.stack.begin(base, own);
        // SAFETY: both only ask who this is.
        (this.id, this.pthread) = unsafe { (libc::gettid(), libc::pthread_self()) };
        let first = &mut self.lists[list_of(this.pthread)];
        this.next = std::mem::replace(first, thread);
        RUNNING.fetch_add(1, Relaxed);
        current::set(thread);
        Some(thread)
    }

    /// Registers the thread that uses the collector first, whose stack ends at `base`.
    pub(crate) fn register_first(&mut self, base: usize) {
        let thread = self.register(base);
        // SAFETY: mapped just now, and this thread's own.
        if let Some(this) = thread.and_then(|thread| unsafe { thread.as_mut() }) {
            this.stack.set_first();
        }
    }

    /// Unregisters this thread. Its result is kept if the program may still ask for it. Returns the bytes
    /// that it freed since the last collection.
    pub(crate) fn leave(&mut self, heap: &Heap, result: *mut c_void) -> usize {
        let thread = current::get();
        // SAFETY: this thread's own.
        let Some(this) = (unsafe { thread.as_mut() }) else {
            return 0;
        };
        // The next sweep finds again what its bins hold.
        this.bins.abandon(heap);
        let freed = this.freed.swap(0, Relaxed);
        current::set(null_mut());
        RUNNING.fetch_sub(1, Relaxed);
        if !this.joining.finish(result) {
            self.remove(thread);
        }
        freed
    }

    /// Removes a thread from its list, and unmaps its state.
    pub(super) fn remove(&mut self, thread: *mut Thread) {
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

    /// Called in a child of fork: removes all threads but this one. Slots that their bins did not hand
    /// out are free again, unless the fork came while a thread changed them.
    pub(crate) fn only_this(&mut self, heap: &Heap) {
        let this = current::get();
        for list in 0..LISTS {
            while let Some(other) = self.of(list).find(|&thread| thread != this) {
                // SAFETY: a thread of a list, which does not exist here, so that nobody changes it.
                let other_thread = unsafe { &mut *other };
                if !other_thread.deferral.is_busy() {
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
    pub(crate) fn retire_bins(&mut self, heap: &Heap) {
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
