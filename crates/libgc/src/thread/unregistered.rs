//! Threads that are not registered. Collections do not stop them, and do not see references on
//! their stacks.
//!
//! An unregistered thread that collects ends the program with a message, as with libgc, because its
//! own objects would be lost. A thread that only allocates is allowed by libgc, but its objects are
//! freed when another thread collects. Here they stay alive as long as the thread: some programs
//! allocate a little while a thread ends.

use super::current;
use crate::{diagnostics, unwind};
use libc::pid_t;
use plimsoll_heap::{Bins, Heap};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{
    AtomicBool, AtomicI32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Set at the program's end, when no lost object matters any more.
static ANYBODY: AtomicBool = AtomicBool::new(false);

/// The thread that forks: its number is different in the child.
static FORKS: AtomicI32 = AtomicI32::new(0);

fn this() -> pid_t {
    // SAFETY: only asks who this is.
    unsafe { libc::gettid() }
}

/// Whether a thread still exists. If the kernel does not say, it does.
fn is_there(thread: pid_t) -> bool {
    // SAFETY: signal 0 only asks; this thread's own error number.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) == 0
            || *libc::__errno_location() != libc::ESRCH
    }
}

/// Whether this thread belongs to the program and is not registered.
fn is_unknown() -> bool {
    current::get().is_null() && !unwind::is_ours()
}

/// Ends the program if this thread wants to collect and is not allowed to.
pub(crate) fn check_collector() {
    if is_unknown() && !ANYBODY.load(Acquire) {
        diagnostics::abort(c"Collecting from unknown thread");
    }
}

/// Calls `then`, during which any thread may collect.
pub(crate) fn let_anybody(then: impl FnOnce()) {
    ANYBODY.store(true, Release);
    then();
    ANYBODY.store(false, Release);
}

/// The objects that unregistered threads allocated, by the kernel's number of the thread. Guarded
/// by the collector's lock.
#[derive(Default)]
pub(crate) struct Unknown {
    objects: HashMap<pid_t, HashSet<usize>>,
    /// Bins that all of them share.
    bins: Option<Box<Bins>>,
}

impl Unknown {
    /// The bins for these threads. The first call makes them.
    pub(crate) fn own_bins(&mut self) -> &mut Bins {
        self.bins.get_or_insert_with(Bins::boxed)
    }

    /// The same, if they were made.
    pub(crate) fn bins(&self) -> Option<&Bins> {
        self.bins.as_deref()
    }

    /// Empties the bins.
    pub(crate) fn retire_bins(&mut self, heap: &Heap) {
        if let Some(bins) = &mut self.bins {
            bins.retire(heap);
        }
    }

    /// Notes an object that this thread allocated.
    pub(crate) fn note(&mut self, start: usize) {
        if is_unknown() {
            self.objects.entry(this()).or_default().insert(start);
        }
    }

    /// Notes that this thread freed an object.
    pub(crate) fn forget(&mut self, start: usize) {
        if !self.objects.is_empty()
            && is_unknown()
            && let Some(objects) = self.objects.get_mut(&this())
        {
            objects.remove(&start);
        }
    }

    /// Notes that this thread is registered now: from now on its stack is scanned.
    pub(crate) fn registered(&mut self) {
        self.objects.remove(&this());
    }

    /// Drops the objects of threads that have ended. Called before the world is stopped.
    pub(crate) fn prepare(&mut self) {
        self.objects.retain(|&thread, _| is_there(thread));
    }

    /// Calls `root` with each object's address, as a word that refers to it.
    pub(crate) fn each_root(&self, root: impl FnMut(usize)) {
        self.objects.values().flatten().copied().for_each(root);
    }

    /// Called in a child of fork, after [`forks`]: the other threads do not exist there.
    pub(crate) fn forked(&mut self) {
        let own = self.objects.remove(&FORKS.load(Relaxed));
        self.objects.clear();
        if let Some(own) = own {
            self.objects.insert(this(), own);
        }
    }
}

/// Notes that this thread is about to fork.
pub(crate) fn forks() {
    FORKS.store(this(), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread of a test is not registered.
    #[test]
    fn objects_live_as_long_as_the_thread() {
        let mut unknown = Unknown::default();
        let count = |unknown: &Unknown| {
            let mut count = 0;
            unknown.each_root(|_| count += 1);
            count
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                (16..48).step_by(16).for_each(|start| unknown.note(start));
                unknown.prepare();
                count(&unknown)
            });
            assert_eq!(other.join().unwrap(), 2);
        });
        unknown.note(64);
        unknown.note(64);
        unknown.note(80);
        unknown.forget(80);
        unknown.forget(96);
        // The kernel may not have removed the other thread completely yet.
        while count(&unknown) > 1 {
            unknown.prepare();
        }
        assert_eq!(count(&unknown), 1);
        forks();
        unknown.forked();
        unknown.prepare();
        assert_eq!(count(&unknown), 1, "in the child it is the same thread");
        unknown.registered();
        assert_eq!(count(&unknown), 0);
    }
}
