//! The stacks of one thread, and which parts of them are in use while the world is stopped.
//!
//! Normally that is the stack that the thread was registered with, from its stack pointer to its
//! end. But the thread may be on a stack that was not registered: a signal handler's, or a
//! coroutine's. Then the part of that stack in use counts, up to its end as far as that can be
//! determined. In addition all of the thread's own stack counts, because how much of it is in use
//! is unknown.

use super::stack;
use crate::abi::variables::GC_stackbottom;
use crate::heap;
use std::ops::Range;
use std::ptr::null;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed},
};

/// Bytes below the stack pointer that a leaf function may use.
const RED_ZONE: usize = 128;

/// The most bytes of an unregistered stack: this bounds how far adjacent mapped memory is scanned.
const MOST: usize = 256 << 20;

/// The stacks of one thread, and where it stands on them.
pub(crate) struct StackUse {
    /// The end (highest address) of its stack: see [`StackUse::base`].
    base: AtomicUsize,
    /// This is the thread that used the collector first: the variable `GC_stackbottom` holds the
    /// end of its stack.
    first: bool,
    /// The thread's stack pointer when it was last stopped.
    stopped_at: AtomicUsize,
    /// The same when it began to block; 0 while it does not.
    blocked_at: AtomicUsize,
    /// The address range of its own stack, from the C library or the program; zero if unknown.
    own: AtomicRange,
    /// That of a stack for signal handlers that the program registered; zero if unknown.
    alternative: AtomicRange,
    /// The parts of its stack in which it was blocked before it became active again further down.
    sections: *const Section,
}

/// An address range that changes under the collector's lock.
struct AtomicRange([AtomicUsize; 2]);

impl AtomicRange {
    fn load(&self) -> Range<usize> {
        self.0[0].load(Relaxed)..self.0[1].load(Relaxed)
    }

    fn store(&self, range: Range<usize>) {
        self.0[0].store(range.start, Relaxed);
        self.0[1].store(range.end, Relaxed);
    }
}

/// A part of a stack that holds references although the thread is active again below it.
pub(crate) struct Section {
    /// The stack pointer when the thread began to block.
    blocked_at: usize,
    /// The section before this one, higher up on the stack.
    before: *const Section,
}

impl Section {
    /// The section of a thread that began to block at this address.
    pub(crate) fn new(blocked_at: usize) -> Section {
        Section {
            blocked_at,
            before: null(),
        }
    }
}

/// The bounds of the stacks.
impl StackUse {
    /// The stack of the thread that registers ends at `base`; `own` is its address range, if known.
    pub(super) fn begin(&self, base: usize, own: Option<Range<usize>>) {
        self.base.store(base, Relaxed);
        self.own.store(own.unwrap_or(0..0));
    }

    /// This is the thread that used the collector first.
    pub(super) fn set_first(&mut self) {
        self.first = true;
    }

    /// The end of its stack. Programs with several stacks per thread set it when they switch, for
    /// the first thread by a variable.
    pub(crate) fn base(&self) -> usize {
        if self.first {
            GC_stackbottom.get()
        } else {
            self.base.load(Relaxed)
        }
    }

    /// Sets the end of its stack.
    pub(crate) fn set_base(&self, base: usize) {
        if self.first {
            GC_stackbottom.set(base);
        } else {
            self.base.store(base, Relaxed);
        }
    }

    /// The program tells the address ranges of its own stack, for the case that this is unknown, and of
    /// the one for its signal handlers.
    pub(crate) fn tell(&self, own: Range<usize>, alternative: Range<usize>) {
        if self.own.load().is_empty() {
            self.own.store(own);
        }
        self.alternative.store(alternative);
    }
}

/// Where the thread stands.
impl StackUse {
    /// The thread stopped: its registers are at this address.
    pub(super) fn stop_at(&self, context: usize) {
        self.stopped_at.store(context, Relaxed);
    }

    /// The thread is blocked at this address; with 0, it is active.
    pub(super) fn block_at(&self, here: usize) {
        self.blocked_at.store(here, Relaxed);
    }

    /// The stack pointer when the thread began to block; `None` while it does not.
    pub(crate) fn blocked_at(&self) -> Option<usize> {
        match self.blocked_at.load(Acquire) {
            0 => None,
            blocked_at => Some(blocked_at),
        }
    }

    /// The blocked thread is active again, below this section of its stack.
    pub(crate) fn open(&mut self, section: &mut Section) {
        section.before = self.sections;
        self.sections = section;
        self.block_at(0);
    }

    /// The thread is blocked again as before its innermost section, which is this one.
    pub(super) fn close(&mut self, section: &Section) {
        self.sections = section.before;
        self.block_at(section.blocked_at);
    }
}

/// The parts in use. `is_this`: the thread is the one that asks.
impl StackUse {
    /// The stack pointer of a stopped thread. That is where its registers are, unless they are on the
    /// stack of its handlers and the thread was on another stack: then the registers are reported as a
    /// root.
    pub(super) fn interrupted_at(&self, root: &mut impl FnMut(usize, usize)) -> usize {
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
    pub(super) fn each_stretch(
        &self,
        mut low: usize,
        is_this: bool,
        root: &mut impl FnMut(usize, usize),
    ) {
        let mut at: *const Section = self.sections;
        loop {
            // SAFETY: sections are on the thread's stack, in frames that have not returned.
            let section = unsafe { at.as_ref() };
            let top = section.map_or(self.base(), |_| at as usize);
            if !self.is_one_stack(low, top, is_this) {
                root(low, self.end_elsewhere(low, is_this));
                low = self.lowest(top);
            }
            root(low, top);
            let Some(section) = section else { return };
            (low, at) = (section.blocked_at, section.before);
        }
    }

    /// Whether everything from `low` to `top` is a single stack: its own, or one that the program
    /// switched to and whose end it set. The stack of its handlers may be a part of its own.
    fn is_one_stack(&self, low: usize, top: usize, is_this: bool) -> bool {
        if let Some(handlers) = self.handlers(low, is_this) {
            return low <= top && top <= handlers.end;
        }
        let own = self.own.load();
        let inside = own.start <= low && top <= own.end && !own.is_empty();
        low <= top && (inside || top - low <= MOST && stack::readable_until(low, top) == top)
    }

    /// The end of a stack that is not its own, and is in use from `low` on.
    fn end_elsewhere(&self, low: usize, is_this: bool) -> usize {
        let most = low.saturating_add(MOST);
        let told = self.handlers(low, is_this).or_else(|| object(low));
        stack::readable_until(low, told.map_or(most, |stack| stack.end.min(most)))
    }

    /// The stack of its handlers, as the kernel or the program gave it, if `low` is in it.
    fn handlers(&self, low: usize, is_this: bool) -> Option<Range<usize>> {
        let waits = low == self.stopped_at.load(Relaxed) && self.blocked_at().is_none();
        let known = if is_this {
            stack::of_handlers()
        } else if waits {
            interrupted(low).0
        } else {
            0..0
        };
        let all = [known, self.alternative.load()];
        all.into_iter().find(|stack| stack.contains(&low))
    }

    /// The lowest address that may be in use on a stack that ends at `top`.
    fn lowest(&self, top: usize) -> usize {
        let own = self.own.load();
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
