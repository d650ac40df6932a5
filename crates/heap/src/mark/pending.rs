//! Pending superpages, in address order: those for which a stack had no room, and those in swap.
//! Superpages in swap are handled a window at a time: the window is requested from swap, read,
//! scanned until nothing more comes of it, summarised, and paged out again. So each superpage is
//! read once per round, before it is needed, and memory holds one window of them.

use super::marker::{Marker, WORD};
use super::space::Space;
use super::spans::Span;
use crate::address::{GRANULE, SUPERPAGE, Superpage};
use crate::bits;
use crate::central::Central;
use crate::descriptor::{Use, age, flag};
use crate::kind::PointerMap;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Superpages of a window: 1 MiB.
pub(super) const WINDOW: usize = 64;

/// Pending superpages, lowest address first.
pub(super) struct Window {
    superpages: [Superpage; WINDOW],
    /// Whether each of them is absent.
    absent: [bool; WINDOW],
    /// Number of superpages.
    length: usize,
}

impl Window {
    pub(super) fn new() -> Window {
        Window {
            superpages: [Superpage(0); WINDOW],
            absent: [false; WINDOW],
            length: 0,
        }
    }

    /// Adds a superpage. True if the window is full now.
    pub(super) fn push(&mut self, superpage: Superpage, absent: bool) -> bool {
        self.superpages[self.length] = superpage;
        self.absent[self.length] = absent;
        self.length += 1;
        self.length == WINDOW
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Superpage> + '_ {
        self.superpages[..self.length].iter().copied()
    }

    pub(super) fn absent(&self) -> impl Iterator<Item = Superpage> + '_ {
        self.all()
            .zip(self.absent)
            .filter_map(|(superpage, absent)| absent.then_some(superpage))
    }
}

impl<S: Space> Marker<'_, S> {
    /// Scans pending superpages until there are none. No other marker runs. False if the time is
    /// over before that.
    pub(super) fn drain_pending(&mut self, central: &Central, until: Option<Instant>) -> bool {
        while self.heap.pending.swap(false, Relaxed) {
            // The kernel reads one window while the other is scanned.
            let (mut window, mut next) = (Window::new(), Window::new());
            let from = std::mem::take(&mut self.left.pending_from);
            for at in from..central.committed() as u32 {
                let flags = self.heap.side.descriptor(Superpage(at)).flags();
                if flags & (flag::PENDING | flag::SUMMARISED) == flag::PENDING
                    && next.push(Superpage(at), flags & flag::ABSENT != 0)
                {
                    self.ask_for(&next);
                    self.look_at_window(&window);
                    // Each step handles at least one window.
                    let ends =
                        window.length > 0 && until.is_some_and(|until| Instant::now() >= until);
                    std::mem::swap(&mut window, &mut next);
                    next.length = 0;
                    if ends {
                        // This window was requested already: the next step begins with it.
                        self.left.pending_from = window.superpages[0].0;
                        self.heap.pending.store(true, Relaxed);
                        return false;
                    }
                }
            }
            self.ask_for(&next);
            self.look_at_window(&window);
            self.look_at_window(&next);
            if from > 0 {
                self.heap.pending.store(true, Relaxed);
            }
        }
        true
    }

    pub(super) fn ask_for(&self, window: &Window) {
        self.each_run(window, |range| self.heap.side.os().will_need(range));
    }

    fn look_at_window(&mut self, window: &Window) {
        let heap = self.heap;
        let side = &heap.side;
        for superpage in window.all() {
            // While it is in memory, it is scanned like any other superpage.
            side.descriptor(superpage)
                .lower(flag::PENDING | flag::ABSENT);
        }
        for superpage in window.all() {
            self.look_at_pending(superpage);
        }
        if heap.is_tracked() {
            // The next look must query writes to these superpages, even if no summary fits.
            self.each_run(window, |range| {
                heap.tracking.arm(side, range);
            });
        }
        for superpage in window.absent() {
            self.marking.read += 1;
            if heap.is_tracked() && self.summarise(superpage) {
                self.marking.summarised += 1;
            } else {
                // A summary of an earlier round does not cover objects marked since.
                heap.summaries.drop_of(side, superpage);
                self.note_spoken(superpage);
                self.marking.unsummarised += 1;
            }
            // The summary does not cover objects that are marked here from now on: then the
            // superpage is read again.
            let it = side.descriptor(superpage);
            it.raise(flag::ABSENT);
            let age = match heap.is_tracked() {
                true if heap.is_stepping() => age::GONE_PARTLY,
                true => age::GONE,
                false => age::GONE_WRITTEN,
            };
            it.age.store(age, Relaxed);
        }
        self.each_run(window, |range| heap.side.os().page_out(range));
    }

    /// Calls `tell` with the address range of each run of adjacent absent superpages in a window.
    pub(super) fn each_run(&self, window: &Window, mut tell: impl FnMut(Range<usize>)) {
        let mut run: Option<Range<usize>> = None;
        for superpage in window.absent() {
            let start = self.heap.side.address(superpage);
            match &mut run {
                Some(run) if run.end == start => run.end += SUPERPAGE,
                _ => run
                    .replace(start..start + SUPERPAGE)
                    .into_iter()
                    .for_each(&mut tell),
            }
        }
        run.into_iter().for_each(tell);
    }

    /// Scans the marked objects of one superpage, or the part of a large object that lies in it.
    fn look_at_pending(&mut self, superpage: Superpage) {
        let side = &self.heap.side;
        let it = side.descriptor(superpage);
        match it.usage() {
            Use::Free => {}
            Use::Small => self.each_marked(superpage),
            Use::Head if it.has(flag::TRACED) => {
                let start = side.address(superpage);
                let slot = crate::Slot {
                    superpage,
                    index: 0,
                };
                self.look_at_traced(start, start + side.size(slot));
            }
            Use::Head | Use::Tail => self.look_at_part_of_large(superpage),
        }
        self.drain(None);
    }

    /// The part of a large object that lies in a superpage.
    pub(super) fn part(&self, superpage: Superpage) -> Span {
        let side = &self.heap.side;
        let start = side.address(superpage);
        let end = match side.resolve(start) {
            Some((slot, _)) => side.start(slot) + side.size(slot),
            // References may only point into its first superpage, but all of it is scanned.
            None => start + SUPERPAGE,
        };
        Span {
            start,
            end: end.min(start + SUPERPAGE),
        }
    }

    /// Summarises what a superpage's marked objects refer to. The superpage must be in memory, and
    /// armed before this call. False if there is no summary, because none fits or none may be made.
    pub(super) fn summarise(&mut self, superpage: Superpage) -> bool {
        let Some(count) = self.candidates_in(superpage) else {
            return false;
        };
        let side = &self.heap.side;
        let mut slots = 0;
        for at in 0..count {
            if let Some((slot, _)) = side.resolve(self.targets[at] as usize) {
                self.targets[slots] = ((side.start(slot) - side.heap()) / GRANULE) as u64;
                slots += 1;
            }
        }
        let stored = self
            .heap
            .summaries
            .put(side, superpage, &mut self.targets[..slots]);
        if stored {
            self.note_spoken(superpage);
        }
        stored
    }

    /// Notes as targets the words of a superpage's marked objects that point into the heap, and returns how
    /// many. `None` if the superpage may have no summary: the front end traces its objects, or one of them
    /// refers to the space.
    fn candidates_in(&mut self, superpage: Superpage) -> Option<usize> {
        let side = &self.heap.side;
        let it = side.descriptor(superpage);
        if it.has(flag::TRACED) {
            return None;
        }
        let (mut count, map) = (0, self.heap.map(superpage));
        match it.usage() {
            Use::Free => return None,
            Use::Small => {
                let slots = usize::from(it.slots.load(Relaxed));
                let bytes = side.size(crate::Slot {
                    superpage,
                    index: 0,
                });
                let start = side.address(superpage);
                for (from, to) in bits::runs(side.marks(superpage), 0, slots, true) {
                    // With a map, one object at a time.
                    let step = if map.is_some() { 1 } else { to - from };
                    for at in (from..to).step_by(step) {
                        let span = Span {
                            start: start + at * bytes,
                            end: start + (at + step) * bytes,
                        };
                        count = self.candidates_of(span, map, count)?;
                    }
                }
            }
            Use::Head | Use::Tail => count = self.candidates_of(self.part(superpage), map, 0)?,
        }
        Some(count)
    }

    /// Notes for a verification what a superpage is like that was just scanned.
    fn note_spoken(&self, superpage: Superpage) {
        if let Some(notes) = self.heap.stress.notes() {
            notes.remember_spoken(&self.heap.side, superpage);
        }
    }

    /// Appends those words of a span that point into the heap to the `count` targets noted so far;
    /// returns the new count, or `None` if one refers to the space. With a map, the span is an object or a
    /// part of one, and only the words that the map names count.
    fn candidates_of(
        &mut self,
        span: Span,
        map: Option<PointerMap>,
        mut count: usize,
    ) -> Option<usize> {
        let (range, mut outward) = (self.heap.range(), false);
        let mut note = |at: usize| {
            // SAFETY: a marked object's words. The program may write to them: then that shows, and
            // the summary is dropped.
            let word = unsafe { (at as *const usize).read_volatile() };
            outward |= self.space.contains(word);
            if range.contains(&word) && count < self.targets.len() {
                self.heap.side.prefetch(word);
                self.targets[count] = word as u64;
                count += 1;
            }
        };
        match map {
            None => (span.start..span.end).step_by(WORD).for_each(note),
            Some(map) => {
                let object = self.heap.side.object(span.start);
                map.each(object, span.start..span.end, &mut note);
            }
        }
        (!outward).then_some(count)
    }
}
