//! A trigger around another, which notes in which of MMTk's calls the limit changes. For tests of the
//! order of calls.

use crate::vm::Vm;
use mmtk::MMTK;
use mmtk::plan::Plan;
use mmtk::util::heap::{GCTriggerPolicy, SpaceStats};
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};

static NOTED: Noted = Noted {
    in_pause_end: AtomicUsize::new(0),
    in_gc_end: AtomicUsize::new(0),
    smallest: AtomicUsize::new(usize::MAX),
    tight: AtomicUsize::new(0),
    pending: AtomicUsize::new(0),
};

#[derive(Debug)]
struct Noted {
    in_pause_end: AtomicUsize,
    in_gc_end: AtomicUsize,
    /// Smallest limit after a collection, pages.
    smallest: AtomicUsize,
    /// Collections of the whole heap by a generational plan after which less than the smallest nursery
    /// could be had.
    tight: AtomicUsize,
    pending: AtomicUsize,
}

/// The notes.
#[derive(Debug, Serialize)]
pub(crate) struct Notes {
    /// Times that the limit changed in `on_pause_end`.
    in_pause_end: usize,
    /// Times that it changed in `on_gc_end`.
    in_gc_end: usize,
    /// Smallest limit after a collection, bytes.
    smallest: usize,
    /// Collections of the whole heap after which the next one had to be the same, for lack of 2 MiB of
    /// nursery.
    tight: usize,
    /// Pages for which threads waited.
    pending: usize,
}

/// The notes so far.
pub(crate) fn notes() -> Notes {
    let get = |number: &AtomicUsize| number.load(Ordering::Relaxed);
    Notes {
        in_pause_end: get(&NOTED.in_pause_end),
        in_gc_end: get(&NOTED.in_gc_end),
        smallest: get(&NOTED.smallest).saturating_mul(4096),
        tight: get(&NOTED.tight),
        pending: get(&NOTED.pending),
    }
}

/// The trigger.
pub(crate) struct Watch {
    inner: Box<dyn GCTriggerPolicy<Vm>>,
}

impl Watch {
    /// Around a trigger.
    pub(crate) fn new(inner: Box<dyn GCTriggerPolicy<Vm>>) -> Watch {
        Watch { inner }
    }

    /// Counts in `counter` if the limit is another after the call.
    fn note(&self, counter: &AtomicUsize, call: impl FnOnce()) {
        let before = self.inner.get_current_heap_size_in_pages();
        call();
        let after = self.inner.get_current_heap_size_in_pages();
        counter.fetch_add(usize::from(before != after), Ordering::Relaxed);
    }
}

impl GCTriggerPolicy<Vm> for Watch {
    fn on_pending_allocation(&self, pages: usize) {
        NOTED.pending.fetch_add(pages, Ordering::Relaxed);
        self.inner.on_pending_allocation(pages);
    }

    fn on_gc_start(&self, mmtk: &'static MMTK<Vm>) {
        self.inner.on_gc_start(mmtk);
    }

    fn on_gc_end(&self, mmtk: &'static MMTK<Vm>) {
        self.note(&NOTED.in_gc_end, || self.inner.on_gc_end(mmtk));
        let plan = mmtk.get_plan();
        NOTED
            .smallest
            .fetch_min(plan.get_total_pages(), Ordering::Relaxed);
        let full = plan
            .generational()
            .is_some_and(|g| !g.is_current_gc_nursery());
        let short = full && plan.get_available_pages() < (2 << 20) / 4096;
        NOTED.tight.fetch_add(usize::from(short), Ordering::Relaxed);
    }

    fn on_pause_start(&self, mmtk: &'static MMTK<Vm>) {
        self.inner.on_pause_start(mmtk);
    }

    fn on_pause_end(&self, mmtk: &'static MMTK<Vm>) {
        self.note(&NOTED.in_pause_end, || self.inner.on_pause_end(mmtk));
    }

    fn on_gc_release(&self, mmtk: &'static MMTK<Vm>) {
        self.inner.on_gc_release(mmtk);
    }

    fn is_gc_required(
        &self,
        space_full: bool,
        space: Option<SpaceStats<Vm>>,
        plan: &dyn Plan<VM = Vm>,
    ) -> bool {
        self.inner.is_gc_required(space_full, space, plan)
    }

    fn is_heap_full(&self, plan: &dyn Plan<VM = Vm>) -> bool {
        self.inner.is_heap_full(plan)
    }

    fn get_current_heap_size_in_pages(&self) -> usize {
        self.inner.get_current_heap_size_in_pages()
    }

    fn get_max_heap_size_in_pages(&self) -> usize {
        self.inner.get_max_heap_size_in_pages()
    }

    fn can_heap_size_grow(&self) -> bool {
        self.inner.can_heap_size_grow()
    }
}
