//! Threads that are not registered. Nobody stops them, and what they have on their stacks is not seen.
//!
//! One that collects ends the program, and says why, as with libgc: what it has would be lost. One
//! that only allocates libgc lets do so, and takes its objects when another thread collects. Here
//! they live as long as the thread that got them: some programs allocate a little where a thread
//! ends, and stay as they are.

use super::current;
use crate::{report, unwind};
use libc::pid_t;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{
    AtomicBool, AtomicI32,
    Ordering::{Acquire, Relaxed, Release},
};

/// At the end of the program nothing is lost any more that anybody wants.
static ANYBODY: AtomicBool = AtomicBool::new(false);

/// Who forks: the thread's number is another in the child.
static FORKS: AtomicI32 = AtomicI32::new(0);

fn this() -> pid_t {
    // SAFETY: only asks who this is.
    unsafe { libc::gettid() }
}

/// Whether a thread has not ended. Where the kernel does not say, it has not.
fn is_there(thread: pid_t) -> bool {
    // SAFETY: signal 0 only asks; this thread's own error number.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) == 0
            || *libc::__errno_location() != libc::ESRCH
    }
}

/// Whether this thread is one that the program did not register.
fn is_unknown() -> bool {
    current::get().is_null() && !unwind::is_ours()
}

/// Ends the program where this thread is to collect and may not.
pub(crate) fn check_collector() {
    if is_unknown() && !ANYBODY.load(Acquire) {
        report::abort(c"Collecting from unknown thread");
    }
}

/// Any thread may collect in `then`.
pub(crate) fn let_anybody(then: impl FnOnce()) {
    ANYBODY.store(true, Release);
    then();
    ANYBODY.store(false, Release);
}

/// The objects that such threads got, by the number that the kernel has for each.
#[derive(Default)]
pub(crate) struct Unknown {
    objects: HashMap<pid_t, HashSet<usize>>,
}

impl Unknown {
    /// An object that this thread gets.
    pub(crate) fn note(&mut self, start: usize) {
        if is_unknown() {
            self.objects.entry(this()).or_default().insert(start);
        }
    }

    /// This thread freed it.
    pub(crate) fn forget(&mut self, start: usize) {
        if !self.objects.is_empty()
            && is_unknown()
            && let Some(objects) = self.objects.get_mut(&this())
        {
            objects.remove(&start);
        }
    }

    /// This thread is registered: what it has is seen from now on.
    pub(crate) fn registered(&mut self) {
        self.objects.remove(&this());
    }

    /// Forgets those of threads that have ended. Before the world is stopped.
    pub(crate) fn prepare(&mut self) {
        self.objects.retain(|&thread, _| is_there(thread));
    }

    /// The objects, as words that refer to them.
    pub(crate) fn each_root(&self, root: impl FnMut(usize)) {
        self.objects.values().flatten().copied().for_each(root);
    }

    /// In a child of fork, after [`forks`]: the other threads did not come along.
    pub(crate) fn forked(&mut self) {
        let own = self.objects.remove(&FORKS.load(Relaxed));
        self.objects.clear();
        if let Some(own) = own {
            self.objects.insert(this(), own);
        }
    }
}

/// This thread is about to fork.
pub(crate) fn forks() {
    FORKS.store(this(), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread of a test is registered with nobody.
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
        // The kernel may still be at the end of the other.
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
