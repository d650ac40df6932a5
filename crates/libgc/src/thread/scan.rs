//! What of its stacks a thread refers to the heap from, while the world stands still.
//!
//! That is the stack that it was registered with, from where its stack pointer is. But it may be on
//! another one, of which nobody told: a handler's, or a coroutine's. Then what is in use of that
//! counts, up to its end as far as that can be known; and all of its own, since how far down that
//! is in use cannot be told.

use super::{Section, Thread, Threads, current, stack, stop};
use crate::collector;
use std::ops::Range;
use std::ptr::eq;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes below its stack pointer that belong to a function that calls no other.
const RED_ZONE: usize = 128;

/// A stack of which nobody told has no more bytes than this: what is mapped beside it is not looked
/// into without end.
const MOST: usize = 256 << 20;

fn load(place: &[AtomicUsize; 2]) -> Range<usize> {
    place[0].load(Relaxed)..place[1].load(Relaxed)
}

impl Threads {
    /// Every stretch of memory that holds references of threads: stacks, results. The world is stopped; this
    /// thread's registers are on its stack above `here`.
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
    /// The addresses that its own stack may have; none where that is not known.
    pub(super) fn own(&self) -> Range<usize> {
        load(&self.own)
    }

    /// Where its stack ends, or did when it began to block. None of a thread that has ended,
    /// whether it said so or not.
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

    /// The same of one that was stopped: where its registers are; or they are on the stack of its
    /// handlers, and it is elsewhere.
    fn interrupted_at(&self, root: &mut impl FnMut(usize, usize)) -> usize {
        let at = self.stopped_at.load(Relaxed);
        let (handlers, pointer) = interrupted(at);
        if !handlers.contains(&at) || handlers.contains(&pointer) {
            return at;
        }
        root(at, handlers.end);
        let low = pointer.saturating_sub(RED_ZONE);
        match stack::readable_until(low, pointer) == pointer {
            true => low,
            false => pointer,
        }
    }

    /// Every part of its stacks that is in use, the lowest of which begins at `low`.
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

    /// Whether all from `low` to `top` is one stack: its own, or one that the program switched to
    /// and said the end of. A stack for handlers may be a part of its own.
    fn is_one_stack(&self, low: usize, top: usize) -> bool {
        if let Some(handlers) = self.handlers(low) {
            return low <= top && top <= handlers.end;
        }
        let own = self.own();
        let inside = own.start <= low && top <= own.end && !own.is_empty();
        low <= top && (inside || top - low <= MOST && stack::readable_until(low, top) == top)
    }

    /// The end of a stack that is not its own and in use from `low` on.
    fn end_elsewhere(&self, low: usize) -> usize {
        let most = low.saturating_add(MOST);
        let told = self.handlers(low).or_else(|| object(low));
        stack::readable_until(low, told.map_or(most, |stack| stack.end.min(most)))
    }

    /// The stack of its handlers, as the kernel has it or the program told, if `low` is there.
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

/// The stack of the handlers of a thread that waits in ours, and where its stack ended when it was
/// interrupted; the kernel has put its registers there.
fn interrupted(context: usize) -> (Range<usize>, usize) {
    // SAFETY: what the kernel gave the handler; the thread waits in it.
    let context = unsafe { &*(context as *const libc::ucontext_t) };
    (
        stack::addresses(&context.uc_stack),
        stack::pointer_of(context),
    )
}

/// The object that a stack is in, if the program takes its stacks from the heap.
fn object(low: usize) -> Option<Range<usize>> {
    let heap = collector::made_heap()?;
    let slot = heap.slot(low)?;
    let start = heap.start(slot);
    Some(start..start + heap.size(slot))
}
