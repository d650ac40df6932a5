//! One marker: a stack, two queues, and the loop over them.

use super::Tracer;
use super::crew::Crew;
use super::queue::Queue;
use crate::address::{GRANULE, SUPERPAGE, Slot, Superpage};
use crate::area::Area;
use crate::bits;
use crate::central::Central;
use crate::heap::Heap;
use crate::kind::KindId;
use crate::prefetch::prefetch;
use crate::side::{Use, flag};
use std::ops::AddAssign;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Candidates that wait while their mark bits are loaded.
const CANDIDATES: usize = 64;
/// Objects that wait while their contents are loaded.
const OBJECTS: usize = 32;
/// Room of a stack, in objects: 16 MiB of addresses, or less where the heap has few: so many a
/// superpage, 1 KiB.
const STACK: usize = 1 << 20;
const PER_SUPERPAGE: usize = 64;
/// Bytes that one step looks at: what is longer is cut, so that others can take a part.
const STRIDE: usize = 8 << 10;
/// Bytes of a line of the processor's caches.
const LINE: usize = 64;
/// After so many spans the clock is looked at, where there is a time to stop at.
const TICKS: u32 = 64;
/// Objects that fit in what a stack keeps.
const FEW: u64 = 4096;
/// Said in the first address's lowest bits: the front end traces it.
const TRACED: usize = 1;
/// Or: a superpage whose summary stands for it; one whose bookmarked slots are reached.
const SUMMARY: usize = 2;
const BOOKMARKS: usize = 3;
const WHAT: usize = 3;
pub(super) const WORD: usize = size_of::<usize>();

/// Memory to look into: words from `start` to `end`, or, with [`TRACED`], one object.
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What a marker did, since it was asked last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marking {
    /// Objects that it marked.
    pub objects: u64,
    /// Objects for which the stack had no room.
    pub overflows: u64,
    /// Spans that it took from others.
    pub shared: u64,
    /// Superpages that it read from swap.
    pub read: u64,
    /// Superpages that it passed over, for their summaries.
    pub replayed: u64,
    /// Summaries that it made, and superpages for which it could not.
    pub summarised: u64,
    /// See there.
    pub unsummarised: u64,
}

impl AddAssign for Marking {
    fn add_assign(&mut self, other: Marking) {
        self.objects += other.objects;
        self.overflows += other.overflows;
        self.shared += other.shared;
        self.read += other.read;
        self.replayed += other.replayed;
        self.summarised += other.summarised;
        self.unsummarised += other.unsummarised;
    }
}

/// Marks what it is told of, and what that refers to.
pub struct Marker<'a> {
    pub(super) heap: &'a Heap,
    pub(super) tracer: &'a dyn Tracer,
    pub(super) stack: Area<Span>,
    candidates: Queue<usize, CANDIDATES>,
    objects: Queue<Span, OBJECTS>,
    /// Addresses below which no object lies, and how many bytes from there on objects may lie.
    low: usize,
    reach: usize,
    /// Others mark at the same time.
    pub(super) shared: bool,
    /// Marking stops then, and goes on another time.
    pub(super) until: Option<Instant>,
    /// Where it goes on with what was written to before a collection in steps, if it does; and with
    /// what is pending.
    pub(super) written_from: Option<usize>,
    pub(super) pending_from: u32,
    /// Spans that it looked into: the clock is not looked at for each.
    looked: u32,
    /// It stopped with work left, which is of this round of its crew's.
    pub(super) left: bool,
    pub(super) round: u32,
    pub(super) marking: Marking,
    /// What the objects of one superpage refer to, while it is summarised.
    pub(super) targets: Box<[u64; SUPERPAGE / WORD]>,
}

impl<'a> Marker<'a> {
    /// A marker for this heap, with a stack of its own.
    ///
    /// # Errors
    /// There are no addresses for the stack.
    pub fn new(heap: &'a Heap, tracer: &'a dyn Tracer) -> std::io::Result<Marker<'a>> {
        let room = STACK.min(heap.side.superpages() * PER_SUPERPAGE);
        Marker::with_room(heap, tracer, room)
    }

    /// A marker whose stack has room for so many objects.
    ///
    /// # Errors
    /// There are no addresses for the stack.
    pub fn with_room(
        heap: &'a Heap,
        tracer: &'a dyn Tracer,
        room: usize,
    ) -> std::io::Result<Marker<'a>> {
        let range = heap.range();
        Ok(Marker {
            heap,
            tracer,
            stack: Area::new(heap.os.as_ref(), room)?,
            candidates: Queue::new(),
            objects: Queue::new(),
            low: range.start,
            reach: range.len(),
            shared: false,
            until: None,
            written_from: None,
            pending_from: 0,
            looked: 0,
            left: false,
            round: 0,
            marking: Marking::default(),
            targets: Box::new([0; SUPERPAGE / WORD]),
        })
    }

    /// Marks from `roots`, and returns when all is marked. Nobody else marks meanwhile.
    pub(crate) fn mark_from(&mut self, central: &Central, roots: impl FnOnce(&mut Marker<'_>)) {
        let before = self.marking.objects;
        self.begin(false);
        roots(self);
        self.drain(None);
        self.drain_pending(central, None);
        // Front ends mark several times in a collection: a few objects do not make the stack grow.
        if self.marking.objects.wrapping_sub(before) > FEW {
            self.shrink();
        }
    }

    /// Marks from `roots`, and from what an earlier step left, until then. False where there is
    /// work left for another. Nobody else marks meanwhile.
    pub(crate) fn step(
        &mut self,
        central: &Central,
        until: Instant,
        roots: impl FnOnce(&mut Marker<'_>),
    ) -> bool {
        self.begin(false);
        self.until = Some(until);
        roots(self);
        self.go_on_with_written(central, None);
        let done = self.drain(None) && self.written_from.is_none();
        self.until = None;
        done && self.drain_pending(central, Some(until))
    }

    /// Forgets what steps left to do.
    pub fn forget(&mut self) {
        self.stack.clear();
        self.candidates = Queue::new();
        self.objects = Queue::new();
        self.left = false;
        self.written_from = None;
        self.pending_from = 0;
    }

    /// Begins a collection: the heap may have grown since the last.
    pub(super) fn begin(&mut self, shared: bool) {
        self.reach = self.heap.range().len();
        self.shared = shared;
    }

    /// Objects that were marked since [`take_marking`](Marker::take_marking) was called last.
    pub fn marked(&self) -> u64 {
        self.marking.objects
    }

    /// What was done since this was called last.
    pub fn take_marking(&mut self) -> Marking {
        std::mem::take(&mut self.marking)
    }

    /// Reports a word that may be a reference: if it points into a slot, that slot's object is marked.
    #[inline(always)]
    pub fn word(&mut self, word: usize) {
        if word.wrapping_sub(self.low) >= self.reach {
            return;
        }
        self.heap.side.prefetch(word);
        let due = self.candidates.exchange(word);
        if due != 0 {
            self.visit(due);
        }
    }

    /// Reports memory, any aligned word of which may be a reference: a stack, static data, part of an object.
    ///
    /// # Safety
    /// From `start`, rounded up to a word, to `end`, rounded down, memory can be read and nobody
    /// writes to it.
    pub unsafe fn span(&mut self, start: usize, end: usize) {
        let span = Span {
            start: start.next_multiple_of(WORD),
            end: end / WORD * WORD,
        };
        if span.start < span.end {
            self.look_at_words(span);
        }
    }

    /// Marks one slot and has its object looked into, whether it was marked already or not.
    pub(super) fn slot(&mut self, slot: Slot) {
        let flags = self.heap.side.descriptor(slot.superpage).flags();
        self.mark(slot);
        self.remember(slot, flags);
    }

    #[inline(always)]
    fn mark(&mut self, slot: Slot) -> bool {
        if self.shared {
            self.heap.side.mark::<true>(slot)
        } else {
            self.heap.side.mark::<false>(slot)
        }
    }

    #[inline(always)]
    fn visit(&mut self, word: usize) {
        let Some((slot, flags)) = self.heap.side.resolve(word) else {
            return;
        };
        self.reach(slot, flags);
    }

    /// A slot that is referred to.
    #[inline(always)]
    pub(super) fn reach(&mut self, slot: Slot, flags: u8) {
        if self.mark(slot) {
            if flags & flag::UNCOLLECTABLE != 0 {
                return self.reach_free(slot);
            }
            self.marking.objects += 1;
            self.remember(slot, flags);
        }
    }

    /// What lives until it is freed is marked as long as that. This slot is free, whoever still refers to it.
    #[cold]
    fn reach_free(&mut self, slot: Slot) {
        self.heap.side.unmark(slot);
    }

    /// Has an object looked into, unless there is nothing to see: now, or when its superpage's turn comes.
    #[inline(always)]
    pub(super) fn remember(&mut self, slot: Slot, flags: u8) {
        if flags & (flag::OPAQUE | flag::ABSENT) == 0 {
            return self.push(slot, flags);
        }
        if flags & flag::OPAQUE == 0 {
            self.put_off(slot, flags);
        }
    }

    /// An object by itself is read even if it is absent.
    #[inline(always)]
    pub(super) fn push(&mut self, slot: Slot, flags: u8) {
        let start = self.heap.side.start(slot);
        let bytes = self.heap.side.size(slot);
        let mut span = Span {
            start,
            end: start + bytes,
        };
        if flags & flag::TRACED != 0 {
            span.start |= TRACED;
        } else if bytes > SUPERPAGE {
            return self.push_large(slot);
        }
        if !self.stack.push(span) {
            self.overflow(slot.superpage);
        }
    }

    /// A large object by its superpages: some may be absent.
    #[cold]
    fn push_large(&mut self, slot: Slot) {
        let side = self.heap.side;
        let (start, end) = (side.start(slot), side.start(slot) + side.size(slot));
        let mut at = start;
        while at < end {
            let superpage = side.superpage(at);
            let next = end.min(side.address(superpage) + SUPERPAGE);
            let flags = side.descriptor(superpage).flags();
            if flags & flag::ABSENT != 0 {
                self.absent(superpage, flags);
            } else if !self.stack.push(Span {
                start: at,
                end: next,
            }) {
                self.overflow(superpage);
            }
            at = next;
        }
    }

    /// An object of an absent superpage.
    #[cold]
    fn put_off(&mut self, slot: Slot, flags: u8) {
        let large = self.heap.is_large(slot);
        if large && flags & flag::TRACED == 0 {
            return self.push_large(slot);
        }
        self.absent(slot.superpage, flags);
    }

    /// Puts an absent superpage off until its turn comes in the order of addresses, or takes its
    /// summary for it.
    pub(super) fn absent(&mut self, superpage: Superpage, flags: u8) {
        let it = self.heap.side.descriptor(superpage);
        if it.has(flag::PENDING) || !it.raise(flag::PENDING) {
            return;
        }
        if flags & flag::SUMMARISED == 0 {
            self.heap.pending.store(true, Relaxed);
            return;
        }
        if !self.push_superpage(superpage, SUMMARY) {
            // Then it is read: rarely.
            it.lower(flag::SUMMARISED);
            self.overflow(superpage);
        }
    }

    fn push_superpage(&mut self, superpage: Superpage, what: usize) -> bool {
        let start = self.heap.side.address(superpage);
        self.stack.push(Span {
            start: start | what,
            end: start + SUPERPAGE,
        })
    }

    pub(super) fn push_bookmarks(&mut self, superpage: Superpage) -> bool {
        self.push_superpage(superpage, BOOKMARKS)
    }

    #[cold]
    fn overflow(&mut self, superpage: Superpage) {
        self.marking.overflows += 1;
        self.heap.side.descriptor(superpage).raise(flag::PENDING);
        self.heap.pending.store(true, Relaxed);
    }

    /// Looks into all that was marked, and into all that this marks. False where the time is over before.
    pub(super) fn drain(&mut self, crew: Option<&Crew>) -> bool {
        self.left = true;
        loop {
            while let Some(span) = self.next() {
                self.look(span);
                if let Some(crew) = crew {
                    crew.offer(self);
                }
                if self.is_over() {
                    return false;
                }
            }
            while let Some(due) = self.candidates.take() {
                self.visit(due);
            }
            if self.stack.is_empty() {
                self.left = false;
                return true;
            }
        }
    }

    #[inline(always)]
    fn is_over(&mut self) -> bool {
        self.looked = self.looked.wrapping_add(1);
        self.looked.is_multiple_of(TICKS) && self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// What to look into next: what was loaded longest.
    #[inline(always)]
    fn next(&mut self) -> Option<Span> {
        while let Some(span) = self.stack.pop() {
            prefetch(span.start);
            // Small objects are seldom as long as a line, and seldom begin where one does.
            prefetch((span.start + LINE).min(span.end - 1));
            let due = self.objects.exchange(span);
            if due.end != 0 {
                return Some(due);
            }
        }
        self.objects.take()
    }

    #[inline(always)]
    fn look(&mut self, span: Span) {
        if span.start & WHAT != 0 {
            return self.look_at_other(span);
        }
        if span.end - span.start > STRIDE {
            return self.look_at_part(span);
        }
        self.look_at_words(span);
    }

    #[cold]
    fn look_at_other(&mut self, span: Span) {
        let superpage = self.heap.side.superpage(span.start);
        match span.start & WHAT {
            SUMMARY => self.replay(superpage),
            BOOKMARKS => self.replay_bookmarks(superpage),
            _ => self.look_at_traced(span.start & !WHAT, span.end),
        }
    }

    #[inline(always)]
    pub(super) fn look_at_words(&mut self, span: Span) {
        let mut at = span.start;
        while at < span.end {
            // SAFETY: objects that were marked, or memory that the caller of `span` vouches for.
            let word = unsafe { (at as *const usize).read() };
            self.word(word);
            at += WORD;
        }
    }

    #[cold]
    fn look_at_part(&mut self, span: Span) {
        let cut = span.start + STRIDE;
        let rest = Span {
            start: cut,
            end: span.end,
        };
        if self.stack.push(rest) {
            self.look_at_words(Span { end: cut, ..span });
        } else {
            self.look_at_words(span);
        }
    }

    pub(super) fn look_at_traced(&mut self, start: usize, end: usize) {
        let superpage = self.heap.side.superpage(start);
        let it = self.heap.side.descriptor(superpage);
        let small = it.usage() == Use::Small;
        if small && self.heap.is_stepping() && self.heap.freed(start).is_some() {
            // Between two steps; what is in it now is the collector's.
            return;
        }
        let kind = KindId(it.kind.load(Relaxed));
        let tracer = self.tracer;
        // SAFETY: a marked object of this kind; the world stands still.
        unsafe { tracer.trace(start, end - start, kind, self) };
    }

    /// Looks into objects that live until they are freed, and so are roots.
    pub(crate) fn uncollectable(&mut self, central: &Central) {
        for at in 0..central.committed() as u32 {
            let superpage = Superpage(at);
            let it = self.heap.side.descriptor(superpage);
            if it.has(flag::UNCOLLECTABLE) && matches!(it.usage(), Use::Small | Use::Head) {
                self.each_marked(superpage);
            }
        }
    }

    /// Has all marked objects of a superpage looked into, sooner or later.
    pub(super) fn each_marked(&mut self, superpage: Superpage) {
        let side = self.heap.side;
        let it = side.descriptor(superpage);
        let small = it.usage() == Use::Small;
        let slots = match small {
            true => usize::from(it.slots.load(Relaxed)),
            false => 1,
        };
        let together = small && it.flags() & (flag::OPAQUE | flag::TRACED | flag::ABSENT) == 0;
        for (from, to) in bits::runs(side.marks(superpage), 0, slots, true) {
            if together {
                self.push_run(superpage, from, to);
                continue;
            }
            for index in from..to {
                let index = index as u16;
                if self.stack.is_full() {
                    self.drain(None);
                }
                self.remember(Slot { superpage, index }, it.flags());
            }
        }
    }

    /// Neighbouring slots of a superpage of small objects, as one.
    fn push_run(&mut self, superpage: Superpage, from: usize, to: usize) {
        if self.stack.is_full() {
            self.drain(None);
        }
        let side = self.heap.side;
        let bytes = usize::from(side.descriptor(superpage).granules.load(Relaxed)) * GRANULE;
        let start = side.address(superpage);
        let span = Span {
            start: start + from * bytes,
            end: start + to * bytes,
        };
        if !self.stack.push(span) {
            self.overflow(superpage);
        }
    }

    /// Gives back what the stack took beyond its first 64 KiB.
    pub(super) fn shrink(&mut self) {
        self.stack.shrink(self.heap.os.as_ref(), 64 << 10);
    }
}

const _: () = assert!(GRANULE > WHAT && GRANULE.is_multiple_of(WORD));
