//! One marker: a stack, two queues, and the loop that drains them.

use super::Tracer;
use super::leftover::{Deadline, Leftover};
use super::queue::Queue;
use super::space::{NoSpace, Space};
use super::spans::{Marking, PORTION, Span, Team};
use crate::address::{GRANULE, SUPERPAGE, Slot, Superpage};
use crate::central::Central;
use crate::descriptor::flag;
use crate::heap::Heap;
use crate::mapped_stack::MappedStack;
use crate::prefetch::prefetch;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Capacity of the queue of candidates, which wait for their mark bits to be loaded.
const CANDIDATES: usize = 64;
/// Capacity of the queue of objects, which wait for their contents to be loaded.
const OBJECTS: usize = 32;
/// The capacity of a stack in objects, at first and at most: 64 KiB and 16 MiB of addresses.
const FIRST: usize = 1 << 12;
const STACK: usize = 1 << 20;
/// The most bytes that are scanned at once. Longer spans are cut, so that other markers can take a
/// part.
const STRIDE: usize = 8 << 10;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Objects that fit in what a stack keeps.
const FEW: u64 = 4096;
/// Tag in the low bits of a span's first address: the front end traces the object.
const TRACED: usize = 1;
/// Tag: a superpage whose summary is to be replayed; or one whose bookmarked slots are to be
/// reached.
const SUMMARY: usize = 2;
const BOOKMARKS: usize = 3;
/// Tag: an object, or a part of one, whose references a map names.
const MAPPED: usize = 4;
const WHAT: usize = 7;
pub(super) const WORD: usize = size_of::<usize>();

/// A marker with more spans than this on its stack gives half of them to waiting markers.
const PLENTY: usize = 64;
/// Marks the objects that it is told of, and all that they refer to. Used by one thread.
pub struct Marker<'a, S: Space = NoSpace> {
    pub(super) heap: &'a Heap,
    /// Traces objects of kinds whose layout only the front end knows.
    pub(super) tracer: &'a dyn Tracer<S>,
    /// The front end's objects beside the heap.
    pub(super) space: &'a S,
    /// Spans that are still to be scanned.
    pub(super) stack: MappedStack<Span>,
    /// The most spans for which the stack may have room.
    room: usize,
    /// Words that may refer to objects, and wait for their mark bits to be loaded.
    candidates: Queue<usize, CANDIDATES>,
    /// Spans that wait for their memory to be loaded.
    objects: Queue<Span, OBJECTS>,
    /// `low`: the address below which no object lies. `reach`: for how many bytes from there
    /// objects may lie.
    low: usize,
    reach: usize,
    /// Other markers run at the same time.
    pub(super) shared: bool,
    /// When the step ends, and the work that steps left.
    pub(super) deadline: Deadline,
    pub(super) left: Leftover,
    /// Its counts since they were last taken.
    pub(super) marking: Marking,
    /// References of the objects of one superpage, while it is summarised; each as a granule's number.
    pub(super) targets: Box<[u64; SUPERPAGE / WORD]>,
}

impl<'a> Marker<'a> {
    /// A marker for this heap, with its own stack.
    ///
    /// # Errors
    /// There is no address space for the stack.
    pub fn new(heap: &'a Heap, tracer: &'a dyn Tracer) -> std::io::Result<Marker<'a>> {
        Marker::with_room(heap, tracer, STACK)
    }

    /// A marker whose stack has room for at most `room` objects.
    ///
    /// # Errors
    /// There is no address space for the stack.
    pub fn with_room(
        heap: &'a Heap,
        tracer: &'a dyn Tracer,
        room: usize,
    ) -> std::io::Result<Marker<'a>> {
        Marker::beside(heap, tracer, &NoSpace, room)
    }
}

impl<'a, S: Space> Marker<'a, S> {
    /// As [`with_room`](Marker::with_room), for a front end that has objects beside the heap. All markers
    /// of a heap are given the same space.
    ///
    /// # Errors
    /// There is no address space for the stack.
    pub fn beside(
        heap: &'a Heap,
        tracer: &'a dyn Tracer<S>,
        space: &'a S,
        room: usize,
    ) -> std::io::Result<Marker<'a, S>> {
        let range = heap.range();
        Ok(Marker {
            heap,
            tracer,
            space,
            stack: MappedStack::new(heap.side.os(), FIRST.min(room))?,
            room,
            candidates: Queue::new(),
            objects: Queue::new(),
            low: range.start,
            reach: range.len(),
            shared: false,
            deadline: Deadline::default(),
            left: Leftover::default(),
            marking: Marking::default(),
            targets: Box::new([0; SUPERPAGE / WORD]),
        })
    }

    /// Marks from `roots`, and returns when everything is marked. No other marker runs meanwhile.
    pub(crate) fn mark_from(&mut self, central: &Central, roots: impl FnOnce(&mut Marker<'_, S>)) {
        let before = self.marking.objects;
        self.begin(false);
        roots(self);
        self.drain(None);
        self.drain_pending(central, None);
        // Front ends mark several times in a collection. A few objects cannot have made the stack
        // grow, so there is nothing to give back.
        if self.marking.objects.wrapping_sub(before) > FEW {
            self.shrink();
        }
    }

    /// Marks from `roots`, and from what an earlier step left, until the time `until`. False if
    /// there is work left for another step. No other marker runs meanwhile.
    pub(crate) fn step(
        &mut self,
        central: &Central,
        until: Instant,
        roots: impl FnOnce(&mut Marker<'_, S>),
    ) -> bool {
        self.begin(false);
        self.deadline.set(Some(until));
        roots(self);
        self.go_on_with_written(central, None);
        let done = self.drain(None) && self.left.written_from.is_none();
        self.deadline.set(None);
        done && self.drain_pending(central, Some(until))
    }

    /// Forgets the work that steps left.
    pub fn forget(&mut self) {
        self.stack.clear();
        self.candidates = Queue::new();
        self.objects = Queue::new();
        self.left.forget();
    }

    /// Begins a collection: the heap may have grown since the last one.
    pub(super) fn begin(&mut self, shared: bool) {
        self.reach = self.heap.range().len();
        self.shared = shared;
    }

    /// Objects marked since the last call of [`take_marking`](Marker::take_marking).
    pub fn marked(&self) -> u64 {
        self.marking.objects
    }

    /// The counts since the last call of this function.
    pub fn take_marking(&mut self) -> Marking {
        std::mem::take(&mut self.marking)
    }

    /// Reports a word that may be a reference: if it points into a slot, that slot's object is
    /// marked.
    #[inline(always)]
    pub fn word(&mut self, word: usize) {
        if self.space.contains(word) {
            self.space.pin(word);
        }
        self.candidate(word);
    }

    /// Reports the slot of a reference: the word at this address is one, or is none. If its object has moved
    /// or is to move, the word is replaced.
    ///
    /// # Safety
    /// The aligned word at `at` can be read and written, and only markers write to it.
    #[inline(always)]
    pub unsafe fn reference(&mut self, at: usize) {
        // SAFETY: the caller's word. Other markers may visit it at the same time.
        let slot = unsafe { AtomicUsize::from_ptr(at as *mut usize) };
        let word = slot.load(Relaxed);
        if self.space.contains(word) {
            return self.forward(slot, word);
        }
        self.candidate(word);
    }

    /// Replaces a reference into the space in its slot. A superpage whose slot refers to the space after that
    /// is to be scanned in each collection.
    #[inline(never)]
    fn forward(&mut self, slot: &AtomicUsize, word: usize) {
        // SAFETY: the word of a slot, which the space contains.
        let now = unsafe { self.space.forward(word) };
        if now != word {
            slot.store(now, Relaxed);
        }
        let at = slot.as_ptr() as usize;
        if self.space.contains(now) && at.wrapping_sub(self.low) < self.reach {
            let side = &self.heap.side;
            side.descriptor(side.superpage(at)).raise(flag::OUTWARD);
        }
        self.candidate(now);
    }

    #[inline(always)]
    fn candidate(&mut self, word: usize) {
        if word.wrapping_sub(self.low) >= self.reach {
            return;
        }
        self.heap.side.prefetch(word);
        let due = self.candidates.exchange(word);
        if due != 0 {
            self.visit(due);
        }
    }

    /// Reports memory in which any aligned word may be a reference: a stack, static data, part of
    /// an object.
    ///
    /// # Safety
    /// The memory from `start`, rounded up to a word, to `end`, rounded down, can be read, and
    /// nobody writes to it.
    pub unsafe fn span(&mut self, start: usize, end: usize) {
        let span = Span {
            start: start.next_multiple_of(WORD),
            end: end / WORD * WORD,
        };
        if span.start < span.end {
            self.look_at_words(span);
        }
    }

    /// Marks one slot and has its object scanned, even if it was marked already.
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

    /// Handles a reference to a slot: marks the slot, and has its object scanned if it was not
    /// marked.
    #[inline(always)]
    pub(super) fn reach(&mut self, slot: Slot, flags: u16) {
        if self.mark(slot) {
            if flags & flag::UNCOLLECTABLE != 0 {
                return self.reach_free(slot);
            }
            self.marking.objects += 1;
            self.remember(slot, flags);
        }
    }

    /// Handles a reference to an unmarked slot of an uncollectable kind. Its objects are marked
    /// until they are freed, so this slot is free, even if something still refers to it.
    #[cold]
    fn reach_free(&mut self, slot: Slot) {
        self.heap.side.unmark(slot);
    }

    /// Has an object scanned, unless it cannot hold references: now, or when its superpage's turn
    /// comes.
    #[inline(always)]
    pub(super) fn remember(&mut self, slot: Slot, flags: u16) {
        if flags & (flag::OPAQUE | flag::ABSENT) == 0 {
            return self.push(slot, flags);
        }
        if flags & flag::OPAQUE == 0 {
            self.put_off(slot, flags);
        }
    }

    /// Puts an object on the stack, even if it is absent.
    #[inline(always)]
    pub(super) fn push(&mut self, slot: Slot, flags: u16) {
        let start = self.heap.side.start(slot);
        let bytes = self.heap.side.size(slot);
        let mut span = Span {
            start,
            end: start + bytes,
        };
        if flags & (flag::TRACED | flag::MAPPED) != 0 {
            span.start |= match flags & flag::TRACED {
                0 if bytes > SUPERPAGE => return self.push_large(slot),
                0 => MAPPED,
                _ => TRACED,
            };
        } else if bytes > SUPERPAGE {
            return self.push_large(slot);
        }
        if !self.put(span) {
            self.overflow(slot.superpage);
        }
    }

    /// Puts a large object on the stack by superpages: some of them may be absent.
    #[cold]
    fn push_large(&mut self, slot: Slot) {
        let side = &self.heap.side;
        let (start, end) = (side.start(slot), side.start(slot) + side.size(slot));
        let tag = if side.descriptor(slot.superpage).has(flag::MAPPED) {
            MAPPED
        } else {
            0
        };
        let mut at = start;
        while at < end {
            let superpage = side.superpage(at);
            let next = end.min(side.address(superpage) + SUPERPAGE);
            let flags = side.descriptor(superpage).flags();
            if flags & flag::ABSENT != 0 {
                self.absent(superpage, flags);
            } else if !self.put(Span {
                start: at | tag,
                end: next,
            }) {
                self.overflow(superpage);
            }
            at = next;
        }
    }

    /// Handles an object of an absent superpage.
    #[cold]
    fn put_off(&mut self, slot: Slot, flags: u16) {
        let large = self.heap.is_large(slot);
        if large && flags & flag::TRACED == 0 {
            return self.push_large(slot);
        }
        self.absent(slot.superpage, flags);
    }

    /// Makes an absent superpage pending until its turn comes in address order, or uses its summary
    /// in place of reading it.
    pub(super) fn absent(&mut self, superpage: Superpage, flags: u16) {
        let it = self.heap.side.descriptor(superpage);
        if it.has(flag::PENDING) || !it.raise(flag::PENDING) {
            return;
        }
        if flags & flag::SUMMARISED == 0 {
            self.heap.pending.store(true, Relaxed);
            return;
        }
        if !self.push_superpage(superpage, SUMMARY) {
            // Without room on the stack the superpage is read after all; this is rare.
            it.lower(flag::SUMMARISED);
            self.overflow(superpage);
        }
    }

    fn push_superpage(&mut self, superpage: Superpage, what: usize) -> bool {
        let start = self.heap.side.address(superpage);
        self.put(Span {
            start: start | what,
            end: start + SUPERPAGE,
        })
    }

    pub(super) fn push_bookmarks(&mut self, superpage: Superpage) -> bool {
        self.push_superpage(superpage, BOOKMARKS)
    }

    /// Puts a span on the stack. False if there is no room.
    #[inline(always)]
    pub(super) fn put(&mut self, span: Span) -> bool {
        self.stack.push(span) || self.put_in_more(span)
    }

    #[cold]
    #[inline(never)]
    fn put_in_more(&mut self, span: Span) -> bool {
        self.stack.grow(self.room) && self.stack.push(span)
    }

    #[cold]
    pub(super) fn overflow(&mut self, superpage: Superpage) {
        self.marking.overflows += 1;
        self.heap.side.descriptor(superpage).raise(flag::PENDING);
        self.heap.pending.store(true, Relaxed);
    }

    /// Scans all that is marked, and all that this marks. False if the time is over before that.
    pub(super) fn drain(&mut self, team: Option<&Team>) -> bool {
        self.left.spans = true;
        loop {
            while let Some(span) = self.next() {
                self.look(span);
                if let Some(team) = team {
                    self.offer(team);
                }
                if self.deadline.tick() {
                    return false;
                }
            }
            while let Some(due) = self.candidates.take() {
                self.visit(due);
            }
            if self.stack.is_empty() && !self.scan_space() {
                self.left.spans = false;
                return true;
            }
        }
    }

    /// Scans objects of the space. False if there are none to scan.
    #[inline(always)]
    fn scan_space(&mut self) -> bool {
        let space = self.space;
        // SAFETY: a reference of such an object, as the space promises.
        space.scan(|at| unsafe { self.reference(at) })
    }

    /// Gives half of the work to waiting markers, if there is plenty.
    #[inline(always)]
    fn offer(&mut self, team: &Team) {
        if self.stack.len() > PLENTY && team.is_wanted() {
            let half = self.stack.len() / 2;
            team.give(|spans| self.stack.move_bottom(half.min(PORTION), &mut spans.given));
        }
    }

    /// The next span to scan: the one whose memory was prefetched first.
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
            MAPPED => self.look_at_mapped(Span {
                start: span.start & !WHAT,
                end: span.end,
            }),
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
        if self.put(rest) {
            self.look_at_words(Span { end: cut, ..span });
        } else {
            self.look_at_words(span);
        }
    }

    /// Gives back the memory that the stack took beyond its first 64 KiB.
    pub(super) fn shrink(&mut self) {
        self.stack.shrink(64 << 10);
    }
}

const _: () = assert!(GRANULE > WHAT && GRANULE.is_multiple_of(WORD) && WORD > WHAT);
