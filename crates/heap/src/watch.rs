//! Who is written to: superpages are armed after marking, and the next look asks the kernel which
//! of them were written to since.

use crate::address::{Slot, Superpage};
use crate::bits;
use crate::central::Central;
use crate::heap::Heap;
use crate::side::{Use, age, flag};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// What is to be told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// All that holds something, to find out what lies still. Where memory is short many superpages
    /// with holes do: there is not so much to allocate that all would be filled.
    Still,
    /// What holds references, to find out what may have come to refer to new objects. Full
    /// superpages and large objects only: into holes threads allocate, and write there anyway.
    Old,
    /// What holds references, and what may come to: all that is in use.
    All,
}

/// A call of the kernel is worth so many superpages. To disarm a run of fewer costs more than the
/// faults of those who write there, and so many that are armed may be armed once more to save one:
/// measured with 1 to 64, and with all and none.
const WORTH: usize = 32;

impl Heap {
    /// Whether the kernel tells who is written to.
    pub fn can_watch(&self) -> bool {
        if !self.is_tracked() {
            self.track(self.reserved());
        }
        self.is_tracked()
    }

    /// Has writes show from now on, of which the next look is told. While the world stands still,
    /// as it did since the last look, and callbacks stored no references: what is armed already may
    /// be armed once more with what lies around it.
    pub(crate) fn watch(&self, central: &Central, what: Watch) {
        if self.can_watch() {
            let wanted = |superpage| self.is_to_be_watched(superpage, what);
            let between = |superpage| self.is_armed(superpage);
            each_run(0..central.committed(), wanted, between, |start, end| {
                self.arm(start, end);
            });
        }
    }

    /// Has writes to these superpages show from now on, which were looked into just now. The world
    /// stands still, but ran since the last look: what was armed before may have been written to,
    /// and what has a summary, which would be trusted again.
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

    /// Has writes show no more where threads will allocate, if that is worth it, but for what is to
    /// show after [`Watch::Still`]. After marking.
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

    /// Whether writes to it show, and there were none at the last look.
    fn is_armed(&self, superpage: Superpage) -> bool {
        let it = self.side.descriptor(superpage);
        (age::ARMED..=age::OLDEST).contains(&it.age.load(Relaxed))
    }

    /// Whether it holds a marked object, or a part of one.
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

    /// Whether threads can allocate there no more.
    fn is_full(&self, superpage: Superpage) -> bool {
        match self.side.descriptor(superpage).usage() {
            Use::Free => false,
            Use::Small => !self.has_run(superpage, false),
            Use::Head | Use::Tail => true,
        }
    }

    /// Whether it has slots that are marked, or are not.
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

    /// The first superpage of the object that a superpage holds a part of; itself where it holds small ones.
    pub(crate) fn head(&self, superpage: Superpage) -> Superpage {
        let it = self.side.descriptor(superpage);
        match it.usage() {
            Use::Tail => Superpage(superpage.0 - it.extent.load(Relaxed)),
            _ => superpage,
        }
    }

    /// The flags of the objects that a superpage holds, or a part of.
    pub(crate) fn flags_of_object(&self, superpage: Superpage) -> u8 {
        self.side.descriptor(self.head(superpage)).flags()
    }
}

/// Tells each run of those superpages that are wanted, and of what may lie between them.
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
