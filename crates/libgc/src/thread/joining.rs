//! The state of a thread that is kept for the one that joins it.

use libc::c_void;

/// Whether a thread will be joined, and its result. A thread that has ended is kept only if it was created
/// through the collector and is not detached. Changes under the collector's lock.
pub(crate) struct Joining {
    /// Created through `GC_pthread_create`: kept until it is joined, for the value that it
    /// returned.
    created: bool,
    /// Nobody will join it.
    detached: bool,
    /// It has ended; only its result is kept.
    finished: bool,
    /// The value that it returned.
    result: *mut c_void,
}

impl Joining {
    /// The thread was created through the collector, as a detached one or not.
    pub(super) fn begin(&mut self, detached: bool) {
        (self.created, self.detached) = (true, detached);
    }

    /// Whether the thread was created through the collector.
    pub(super) fn is_created(&self) -> bool {
        self.created
    }

    /// Nobody will join the thread.
    pub(super) fn detach(&mut self) {
        self.detached = true;
    }

    /// Whether the thread has ended, and is kept for its result.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// The thread ends with this result. False if nobody will ask for it.
    pub(super) fn finish(&mut self, result: *mut c_void) -> bool {
        let kept = self.created && !self.detached;
        if kept {
            (self.result, self.finished) = (result, true);
        }
        kept
    }

    /// The value that the thread returned, or will return.
    pub(super) fn result(&self) -> *mut c_void {
        self.result
    }

    /// Stores what the thread will return.
    pub(super) fn set_result(&mut self, result: *mut c_void) {
        self.result = result;
    }

    /// The address of the result, which is a root.
    pub(super) fn place(&self) -> usize {
        (&raw const self.result).addr()
    }
}
