//! Which parts of a thread's stacks are roots, while the world is stopped.
//!
//! Normally that is the stack that the thread was registered with, from its stack pointer to its
//! end. But the thread may be on a stack that was not registered: a signal handler's, or a
//! coroutine's. Then the part of that stack in use counts, up to its end as far as that can be
//! determined. In addition all of the thread's own stack counts, because how much of it is in use
//! is unknown.

use super::record::{Section, Thread};
use super::registered::Threads;
use super::{current, stack, stop};
use crate::heap;
use std::ops::Range;
use std::ptr::eq;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes below the stack pointer that a leaf function may use.
const RED_ZONE: usize = 128;

/// The most bytes of an unregistered stack: this bounds how far adjacent mapped memory is scanned.
const MOST: usize = 256 << 20;

fn load(place: &[AtomicUsize; 2]) -> Range<usize> {
    place[0].load(Relaxed)..place[1].load(Relaxed)
}

impl Threads {
    /// Calls `root` with every stretch of memory of threads that holds references: stacks and
    /// results. The world is stopped; this thread's registers are on its stack above `here`.
    pub(crate) fn each_root(&self, here: usize, mut root: impl FnMut(usize, usize)) {
        for thread in self.all() {
            // SAFETY: as in `all`.
            let this = unsafe { &*thread };
            let result = &raw const this.result as usize;
            root(result, result + size_of::<usize>());
            if let Some(low) = this.stands_at(here, &mut root) {
                this.each_stretch(low, &mut root);
            }
        }
    }
}

impl Thread {
    /// The address range of its own stack; empty if unknown.
    pub(crate) fn own(&self) -> Range<usize> {
        load(&self.own)
    }

    /// Its stack pointer now, or when it began to block. `None` if the thread has ended, whether it
    /// was unregistered or not.
    fn stands_at(&self, here: usize, root: &mut impl FnMut(usize, usize)) -> Option<usize> {
        let blocked_at = self.blocked_at.load(Relaxed);
        if self.finished {
            None
        } else if eq(self, current::get()) {
            Some(here)
        } else if blocked_at != 0 {
            Some(blocked_at)
        } else {
            let stands = stop::has_answered(self) || self.parked.load(Relaxed) != 0;
            stands.then(|| self.interrupted_at(root))
        }
    }

    /// The same for a stopped thread. That is where its registers are, unless they are on the stack
    /// of its handlers and the thread was on another stack: then the registers are reported as a
    /// root.
    fn interrupted_at(&self, root: &mut impl FnMut(usize, usize)) -> usize {
        let at = self.stopped_at.load(Relaxed);
        let (handlers, pointer) = interrupted(at);
        if !handlers.contains(&at) || handlers.contains(&pointer) {
            return at;
        }
        root(at, handlers.end);
        let low = pointer.saturating_sub(RED_ZONE);
        if stack::readable_until(low, pointer) == pointer {
            low
        } else {
            pointer
        }
    }

    /// Calls `root` with every part of its stacks that is in use; the lowest part begins at `low`.
    fn each_stretch(&self, mut low: usize, root: &mut impl FnMut(usize, usize)) {
        let mut at: *const Section = self.sections;
        loop {
            // SAFETY: sections are on the thread's stack, in frames that have not returned.
            let section = unsafe { at.as_ref() };
            let top = section.map_or(self.base(), |_| at as usize);
            if !self.is_one_stack(low, top) {
                root(low, self.end_elsewhere(low));
                low = self.lowest(top);
            }
            root(low, top);
            let Some(section) = section else { return };
            (low, at) = (section.blocked_at, section.before);
        }
    }

    /// Whether everything from `low` to `top` is a single stack: its own, or one that the program
    /// switched to and whose end it set. The stack of its handlers may be a part of its own.
    fn is_one_stack(&self, low: usize, top: usize) -> bool {
        if let Some(handlers) = self.handlers(low) {
            return low <= top && top <= handlers.end;
        }
        let own = self.own();
        let inside = own.start <= low && top <= own.end && !own.is_empty();
        low <= top && (inside || top - low <= MOST && stack::readable_until(low, top) == top)
    }

    /// The end of a stack that is not its own, and is in use from `low` on.
    fn end_elsewhere(&self, low: usize) -> usize {
        let most = low.saturating_add(MOST);
        let told = self.handlers(low).or_else(|| object(low));
        stack::readable_until(low, told.map_or(most, |stack| stack.end.min(most)))
    }

    /// The stack of its handlers, as the kernel or the program gave it, if `low` is in it.
    fn handlers(&self, low: usize) -> Option<Range<usize>> {
        let waits = low == self.stopped_at.load(Relaxed) && self.blocked_at.load(Relaxed) == 0;
        let known = if eq(self, current::get()) {
            stack::of_handlers()
        } else if waits {
            interrupted(low).0
        } else {
            0..0
        };
        let all = [known, load(&self.alternative)];
        all.into_iter().find(|stack| stack.contains(&low))
    }

    /// The lowest address that may be in use on a stack that ends at `top`.
    fn lowest(&self, top: usize) -> usize {
        let own = self.own();
        let inside = own.start < top && top <= own.end;
        let start = if inside {
            own.start
        } else {
            top.saturating_sub(MOST)
        };
        stack::readable_from(start, top)
    }
}

/// For a thread that waits in our handler: the stack of its handlers, and its stack pointer when it
/// was interrupted. The kernel stored both at `context`.
fn interrupted(context: usize) -> (Range<usize>, usize) {
    // SAFETY: what the kernel gave the handler; the thread waits in it.
    let context = unsafe { &*(context as *const libc::ucontext_t) };
    (
        stack::addresses(&context.uc_stack),
        stack::pointer_of(context),
    )
}

/// The object that contains a stack, if the program allocates its stacks in the heap.
fn object(low: usize) -> Option<Range<usize>> {
    let heap = heap::made()?;
    let slot = heap.slot(low)?;
    let start = heap.start(slot);
    Some(start..start + heap.size(slot))
}
