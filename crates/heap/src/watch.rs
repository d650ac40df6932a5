//! Watching for writes: superpages are armed after marking, and the next look asks the kernel which
//! of them were written to since.

use crate::address::{Slot, Superpage};
use crate::bits;
use crate::central::Central;
use crate::heap::Heap;
use crate::side::{Use, age, flag};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Which superpages to watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// All that hold something, to find out which are not written to. When memory is short this
    /// includes many superpages with holes: too little is allocated to fill them all.
    Still,
    /// Those that hold references, to find out which may refer to new objects. Only full superpages
    /// and large objects: threads allocate into holes, and so write to the other superpages anyway.
    Old,
    /// Those that hold references, or may come to: all that are in use.
    All,
}

/// One call of the kernel costs as much as this many superpages. Disarming a shorter run costs more
/// than the write faults that it would prevent; and as many armed superpages may be armed once more
/// to save one call. Measured with 1 to 64, and with all and none.
const WORTH: usize = 32;

impl Heap {
    /// Whether the kernel tracks writes to the heap; tries to turn that on first.
    pub fn can_watch(&self) -> bool {
        if !self.is_tracked() {
            self.track(self.range());
        }
        self.is_tracked()
    }

    /// Arms superpages, so that the next look reports writes to them. The world must have been
    /// stopped since the last look, and callbacks must have stored no references: superpages that
    /// are armed already may be armed once more together with their neighbours.
    pub(crate) fn watch(&self, central: &Central, what: Watch) {
        if self.can_watch() {
            let wanted = |superpage| self.is_to_be_watched(superpage, what);
            let between = |superpage| self.is_armed(superpage);
            each_run(0..central.committed(), wanted, between, |start, end| {
                self.arm(start, end);
            });
        }
    }

    /// Arms those of these superpages that were just scanned. The world is stopped, but ran since
    /// the last look. So superpages that were armed before are left out, because they may have been
    /// written to, and so are those with a summary, which would be trusted again.
    pub(crate) fn watch_written(&self, superpages: Range<usize>) {
        let wanted = |superpage| {
            let summary = self.side.descriptor(superpage).summary.load(Relaxed);
            self.is_to_be_watched(superpage, Watch::All) && summary == 0
        };
        each_run(
            superpages,
            wanted,
            |_| false,
            |start, end| {
                self.arm(start, end);
            },
        );
    }

    /// Disarms superpages into which threads will allocate, if that is worth a call, except those
    /// that are watched after [`Watch::Still`]. Call it after marking.
    pub(crate) fn unwatch(&self, central: &Central) {
        let idle = |superpage: Superpage| {
            self.is_armed(superpage) && !(self.is_alive(superpage) && self.is_full(superpage))
        };
        let none = |_| false;
        each_run(0..central.committed(), idle, none, |start, end| {
            if end - start < WORTH {
                return;
            }
            for at in start..end {
                let it = self.side.descriptor(Superpage(at as u32));
                it.forget_age();
            }
            self.os.disarm(self.addresses(start, end));
        });
    }

    fn is_to_be_watched(&self, superpage: Superpage, what: Watch) -> bool {
        let it = self.side.descriptor(superpage);
        if it.age.load(Relaxed) != age::UNKNOWN || it.has(flag::ABSENT) {
            return false;
        }
        let holds_references = || self.flags_of_object(superpage) & flag::OPAQUE == 0;
        match what {
            Watch::Still => self.is_alive(superpage),
            Watch::Old => self.is_full(superpage) && holds_references(),
            Watch::All => it.usage() != Use::Free && holds_references(),
        }
    }

    /// Disarms superpages that were taken for an object, if some of them were armed when they were
    /// freed and it is worth a call.
    pub(crate) fn unwatch_taken(&self, first: Superpage, count: usize) {
        let all = first.index()..first.index() + count;
        let armed = |&at: &usize| {
            let it = self.side.descriptor(Superpage(at as u32));
            it.armed.load(Relaxed) != 0
        };
        if count < WORTH || all.clone().filter(armed).count() < WORTH {
            return;
        }
        let (start, end) = (all.start, all.end);
        for at in all {
            let it = self.side.descriptor(Superpage(at as u32));
            it.armed.store(0, Relaxed);
        }
        self.os.disarm(self.addresses(start, end));
    }

    /// Whether a superpage is armed and was not written to at the last look.
    pub(crate) fn is_armed(&self, superpage: Superpage) -> bool {
        let it = self.side.descriptor(superpage);
        (age::ARMED..=age::OLDEST).contains(&it.age.load(Relaxed))
    }

    /// Whether a superpage holds a marked object, or a part of one.
    pub(crate) fn is_alive(&self, superpage: Superpage) -> bool {
        let object = Slot {
            superpage: self.head(superpage),
            index: 0,
        };
        match self.side.descriptor(superpage).usage() {
            Use::Free => false,
            Use::Small => self.has_run(superpage, true),
            Use::Head | Use::Tail => self.side.is_marked(object),
        }
    }

    /// Whether threads can no longer allocate in a superpage.
    fn is_full(&self, superpage: Superpage) -> bool {
        match self.side.descriptor(superpage).usage() {
            Use::Free => false,
            Use::Small => !self.has_run(superpage, false),
            Use::Head | Use::Tail => true,
        }
    }

    /// Whether a superpage has a slot whose mark equals `marked`.
    fn has_run(&self, superpage: Superpage, marked: bool) -> bool {
        let slots = self.side.descriptor(superpage).slots.load(Relaxed);
        let marks = self.side.marks(superpage);
        bits::runs(marks, 0, usize::from(slots), marked)
            .next()
            .is_some()
    }

    fn addresses(&self, start: usize, end: usize) -> Range<usize> {
        let address = |at: usize| self.side.address(Superpage(at as u32));
        address(start)..address(end)
    }

    fn arm(&self, start: usize, end: usize) {
        if self.os.arm(self.addresses(start, end)).is_err() {
            return self.set_tracked(false);
        }
        self.watched.store(true, Relaxed);
        for at in start..end {
            let it = self.side.descriptor(Superpage(at as u32));
            if it.age.load(Relaxed) == age::UNKNOWN {
                it.age.store(age::ARMED, Relaxed);
            }
        }
    }

    /// The first superpage of the large object that this superpage holds a part of; the superpage
    /// itself if it holds small objects.
    pub(crate) fn head(&self, superpage: Superpage) -> Superpage {
        let it = self.side.descriptor(superpage);
        match it.usage() {
            Use::Tail => Superpage(superpage.0 - it.extent.load(Relaxed)),
            _ => superpage,
        }
    }

    /// The flags of the objects in a superpage, or of the object that it holds a part of.
    pub(crate) fn flags_of_object(&self, superpage: Superpage) -> u8 {
        self.side.descriptor(self.head(superpage)).flags()
    }
}

/// Calls `tell` with each run of wanted superpages. A run may include superpages that are not
/// wanted but may lie `between`.
fn each_run(
    superpages: Range<usize>,
    wanted: impl Fn(Superpage) -> bool,
    between: impl Fn(Superpage) -> bool,
    mut tell: impl FnMut(usize, usize),
) {
    let mut run: Option<(usize, usize)> = None;
    for at in superpages {
        let superpage = Superpage(at as u32);
        if wanted(superpage) {
            run = Some(run.map_or((at, at + 1), |(start, _)| (start, at + 1)));
        } else if let Some((start, end)) =
            run.filter(|&(_, end)| at - end >= WORTH || !between(superpage))
        {
            tell(start, end);
            run = None;
        }
    }
    if let Some((start, end)) = run {
        tell(start, end);
    }
}
