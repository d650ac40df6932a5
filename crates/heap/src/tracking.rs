//! Watching for writes: superpages are armed after marking, and the next look asks the kernel which
//! of them were written to since.

use crate::address::Superpage;
use crate::descriptor::{Use, age, flag};
use crate::side::Side;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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

/// How a heap copes with swap. Less than everything is for measuring what each part is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Means {
    /// It only holds less memory while some of the heap is in swap, and reads absent superpages as
    /// if they were present.
    Resizing,
    /// It also reads absent superpages in address order, in each collection.
    Order,
    /// It also summarises absent superpages when it reads them, and uses the summaries from then
    /// on.
    #[default]
    Bookmarks,
}

/// Whether the kernel tracks writes to one heap. Only the holder of [`Central`](crate::Central)
/// changes it.
#[derive(Default)]
pub(crate) struct Tracking {
    /// Writes are tracked, so it is known whether a summary is still valid.
    tracked: AtomicBool,
    /// Some superpage is armed.
    armed: AtomicBool,
    /// The means against paging that may be used; set once.
    means: OnceLock<Means>,
}

impl Tracking {
    /// Restricts the heap to these means. The first call decides.
    pub(crate) fn limit(&self, means: Means) {
        let _ = self.means.set(means);
    }

    pub(crate) fn means(&self) -> Means {
        self.means.get().copied().unwrap_or_default()
    }

    /// Whether writes are tracked.
    pub(crate) fn is_on(&self) -> bool {
        self.tracked.load(Relaxed)
    }

    /// Whether some superpage is armed.
    pub(crate) fn is_any_armed(&self) -> bool {
        self.armed.load(Relaxed)
    }

    /// Has writes to these addresses tracked, if the means include that and the kernel supports it.
    pub(crate) fn begin(&self, side: &Side, all: Range<usize>) {
        let wanted = self.means() == Means::Bookmarks;
        let on = wanted && side.os().track(all).is_ok();
        self.tracked.store(on, Relaxed);
    }

    /// Whether the kernel tracks writes to the heap; tries to turn that on first.
    pub(crate) fn is_possible(&self, side: &Side) -> bool {
        if !self.is_on() {
            self.begin(side, side.range());
        }
        self.is_on()
    }

    /// Arms what lies in a range of addresses. False if writes are tracked no longer.
    pub(crate) fn arm(&self, side: &Side, range: Range<usize>) -> bool {
        let armed = side.os().arm(range).is_ok();
        if armed {
            self.armed.store(true, Relaxed);
        } else {
            self.tracked.store(false, Relaxed);
        }
        armed
    }

    /// Arms superpages, so that the next look reports writes to them. The world must have been
    /// stopped since the last look, and callbacks must have stored no references: superpages that
    /// are armed already may be armed once more together with their neighbours.
    pub(crate) fn watch(&self, side: &Side, committed: usize, what: Watch) {
        if self.is_possible(side) {
            let wanted = |superpage| is_to_be_watched(side, superpage, what);
            let between = |superpage| side.is_armed(superpage);
            each_run(0..committed, wanted, between, |start, end| {
                self.arm_run(side, start, end);
            });
        }
    }

    /// Arms those of these superpages that were just scanned. The world is stopped, but ran since
    /// the last look. So superpages that were armed before are left out, because they may have been
    /// written to, and so are those with a summary, which would be trusted again.
    pub(crate) fn watch_written(&self, side: &Side, superpages: Range<usize>) {
        let wanted = |superpage| {
            let summary = side.descriptor(superpage).summary.load(Relaxed);
            is_to_be_watched(side, superpage, Watch::All) && summary == 0
        };
        each_run(
            superpages,
            wanted,
            |_| false,
            |start, end| {
                self.arm_run(side, start, end);
            },
        );
    }

    fn arm_run(&self, side: &Side, start: usize, end: usize) {
        if !self.arm(side, addresses(side, start, end)) {
            return;
        }
        for at in start..end {
            let it = side.descriptor(Superpage(at as u32));
            if it.age.load(Relaxed) == age::UNKNOWN {
                it.age.store(age::ARMED, Relaxed);
            }
        }
    }
}

/// Disarms superpages into which threads will allocate, if that is worth a call, except those
/// that are watched after [`Watch::Still`]. Call it after marking.
pub(crate) fn unwatch(side: &Side, committed: usize) {
    let idle = |superpage: Superpage| {
        side.is_armed(superpage) && !(side.is_alive(superpage) && side.is_full(superpage))
    };
    let none = |_| false;
    each_run(0..committed, idle, none, |start, end| {
        if end - start < WORTH {
            return;
        }
        for at in start..end {
            side.descriptor(Superpage(at as u32)).forget_age();
        }
        side.os().disarm(addresses(side, start, end));
    });
}

/// Disarms superpages that were taken for an object, if some of them were armed when they were
/// freed and it is worth a call.
pub(crate) fn unwatch_taken(side: &Side, first: Superpage, count: usize) {
    let (start, end) = (first.index(), first.index() + count);
    let armed = |at: usize| &side.descriptor(Superpage(at as u32)).armed;
    let is_armed = |&at: &usize| armed(at).load(Relaxed) != 0;
    if count < WORTH || (start..end).filter(is_armed).count() < WORTH {
        return;
    }
    (start..end).for_each(|at| armed(at).store(0, Relaxed));
    side.os().disarm(addresses(side, start, end));
}

fn is_to_be_watched(side: &Side, superpage: Superpage, what: Watch) -> bool {
    let it = side.descriptor(superpage);
    if it.age.load(Relaxed) != age::UNKNOWN || it.has(flag::ABSENT) {
        return false;
    }
    let holds_references = || side.flags_of_object(superpage) & flag::OPAQUE == 0;
    match what {
        Watch::Still => side.is_alive(superpage),
        Watch::Old => side.is_full(superpage) && holds_references(),
        Watch::All => it.usage() != Use::Free && holds_references(),
    }
}

fn addresses(side: &Side, start: usize, end: usize) -> Range<usize> {
    let address = |at: usize| side.address(Superpage(at as u32));
    address(start)..address(end)
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
