//! The roots of all threads, while the world is stopped.

use super::record::Thread;
use super::registered::Threads;
use super::{current, stop};
use std::ptr::eq;

impl Threads {
    /// Calls `root` with every stretch of memory of threads that holds references: stacks and
    /// results. The world is stopped; this thread's registers are on its stack above `here`.
    pub(crate) fn each_root(&self, here: usize, mut root: impl FnMut(usize, usize)) {
        for thread in self.all() {
            // SAFETY: as in `all`.
            let this = unsafe { &*thread };
            let result = this.joining.place();
            root(result, result + size_of::<usize>());
            let is_this = eq(this, current::get());
            let low = if is_this {
                Some(here)
            } else {
                stands_at(this, &mut root)
            };
            if let Some(low) = low {
                this.stack.each_stretch(low, is_this, &mut root);
            }
        }
    }
}

/// The stack pointer of another thread now, or when it began to block. `None` if the thread has ended,
/// whether it was unregistered or not.
fn stands_at(thread: &Thread, root: &mut impl FnMut(usize, usize)) -> Option<usize> {
    if thread.joining.is_finished() {
        return None;
    }
    thread.stack.blocked_at().or_else(|| {
        let stands = stop::has_answered(thread) || thread.suspension.is_parked();
        stands.then(|| thread.stack.interrupted_at(root))
    })
}
