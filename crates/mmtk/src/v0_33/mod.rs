//! The adapter for MMTk 0.33: translates its hooks into the calls of [`Sizer`]. It decides nothing.
//!
//! The meaning of hooks differs from version to version. In 0.33 a *collection* (`on_gc_*`) has one or
//! more *pauses* (`on_pause_*`); only in the last one is memory reclaimed (`on_gc_release`).
//! Generational plans decide after `on_pause_end` and before `on_gc_end` whether the next collection
//! is of the whole heap, by the limit: so the limit is set in `on_pause_end`.
//!
//! | module | is |
//! |---|---|
//! | `give_back` | gives free memory back, with the feature `undocumented-mmtk-0-33` |

#[cfg(feature = "undocumented-mmtk-0-33")]
mod give_back;

use crate::sizer::{After, Free, Sizer};
use mmtk::MMTK;
use mmtk::plan::Plan;
use mmtk::util::constants::{BYTES_IN_PAGE, LOG_BYTES_IN_PAGE};
use mmtk::util::heap::{GCTriggerPolicy, SpaceStats};
use mmtk::util::options::{DEFAULT_MIN_NURSERY, NurserySize};
use mmtk::vm::VMBinding;
use plimsoll_policy::sizing::{self, Sizing};
use plimsoll_unit::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};

/// A trigger of collections for any binding.
///
/// # Threads
/// MMTk calls `is_gc_required`, `is_heap_full` and the getters on any thread of the program, at each
/// poll: they only read numbers. `on_pending_allocation` is called by a thread of the program that is
/// about to wait. The other hooks are called by one thread of the collector at a time;
/// `on_pause_end` while MMTk holds its scheduler's lock, so nothing here waits or requests a
/// collection.
#[derive(Debug)]
pub struct Trigger<S: Sizing = sizing::Mmtk> {
    sizer: Sizer<S>,
    /// Whether memory was reclaimed in the present pause. Set in the packet that releases, taken at
    /// the end of the pause.
    reclaimed: AtomicBool,
    /// Whether only MMTk calls the hooks, so that a pause is one.
    #[cfg(feature = "undocumented-mmtk-0-33")]
    is_trusted: bool,
}

impl<S: Sizing> Trigger<S> {
    /// A trigger by this sizer, which gives no memory back.
    pub fn new(sizer: Sizer<S>) -> Trigger<S> {
        Trigger {
            sizer,
            reclaimed: AtomicBool::new(false),
            #[cfg(feature = "undocumented-mmtk-0-33")]
            is_trusted: false,
        }
    }

    /// A trigger by this sizer, which gives memory back when
    /// [`Builder::give_back`](crate::Builder::give_back) says.
    ///
    /// # Safety
    /// Only MMTk calls the methods of [`GCTriggerPolicy`] of this trigger: hand it out from
    /// `Collection::create_gc_trigger`, and call none of them elsewhere. They are safe functions, and
    /// `on_gc_release` with `on_pause_end` after it gives back memory that is in use when the program runs
    /// meanwhile. A trigger around this one may pass each call of MMTk's on, once and at once.
    ///
    /// ```compile_fail,E0133
    /// let sizer = plimsoll_mmtk::Builder::new().open().unwrap();
    /// let trigger = plimsoll_mmtk::Trigger::giving_back(sizer);
    /// ```
    #[cfg(feature = "undocumented-mmtk-0-33")]
    pub unsafe fn giving_back(sizer: Sizer<S>) -> Trigger<S> {
        Trigger {
            is_trusted: true,
            ..Trigger::new(sizer)
        }
    }
}

impl<VM: VMBinding, S: Sizing + Send> GCTriggerPolicy<VM> for Trigger<S> {
    fn on_pending_allocation(&self, pages: usize) {
        self.sizer.pending(bytes(pages));
    }

    fn on_gc_start(&self, mmtk: &'static MMTK<VM>) {
        let plan = mmtk.get_plan();
        let (reserved, used) = (plan.get_reserved_pages(), plan.get_used_pages());
        self.sizer.began(bytes(reserved), bytes(used));
    }

    fn on_pause_start(&self, _mmtk: &'static MMTK<VM>) {
        self.sizer.pause_began();
    }

    fn on_gc_release(&self, _mmtk: &'static MMTK<VM>) {
        self.reclaimed.store(true, Ordering::Release);
    }

    fn on_pause_end(&self, mmtk: &'static MMTK<VM>) {
        if self.reclaimed.swap(false, Ordering::AcqRel) {
            let decision = self.sizer.ended(&after(mmtk));
            if decision.give_back != Free::Nothing {
                self.give_back(mmtk, decision.give_back);
            }
        }
        self.sizer.pause_ended();
    }

    fn is_gc_required(
        &self,
        space_full: bool,
        space: Option<SpaceStats<VM>>,
        plan: &dyn Plan<VM = VM>,
    ) -> bool {
        if !plan.constraints().collects_garbage {
            // NoGC panics at its limit, so that must not be less than the maximum.
            self.sizer.never_collects();
        }
        if self.sizer.take_wanted() || plan.collection_required(space_full, space) {
            return true;
        }
        self.sizer.let_through();
        false
    }

    fn is_heap_full(&self, plan: &dyn Plan<VM = VM>) -> bool {
        self.sizer.is_full(bytes(plan.get_reserved_pages()))
    }

    fn get_current_heap_size_in_pages(&self) -> usize {
        pages(self.sizer.limit())
    }

    fn get_max_heap_size_in_pages(&self) -> usize {
        pages(self.sizer.max())
    }

    fn can_heap_size_grow(&self) -> bool {
        self.sizer.can_grow()
    }
}

impl<S: Sizing> Trigger<S> {
    #[cfg(feature = "undocumented-mmtk-0-33")]
    fn give_back<VM: VMBinding>(&self, mmtk: &'static MMTK<VM>, free: Free) {
        if !self.is_trusted {
            return;
        }
        // SAFETY: called in `on_pause_end` only, which MMTk alone calls, as whoever made this has promised:
        // the program is stopped, memory was reclaimed, and no thread of the collector works.
        self.sizer
            .giving_back(|| unsafe { give_back::give_back(mmtk, free) });
    }

    #[cfg(not(feature = "undocumented-mmtk-0-33"))]
    fn give_back<VM: VMBinding>(&self, _mmtk: &'static MMTK<VM>, _free: Free) {}
}

/// The state of the heap after memory was reclaimed.
fn after<VM: VMBinding>(mmtk: &MMTK<VM>) -> After {
    let plan = mmtk.get_plan();
    let generational = plan.generational();
    After {
        reserved: bytes(plan.get_reserved_pages()),
        used: bytes(plan.get_used_pages()),
        // A nursery may have to be copied, so it counts twice; and so does what is left for it.
        headroom: generational.map_or(Bytes::ZERO, |_| smallest_nursery(mmtk) * 4),
        full: generational.is_none_or(|plan| !plan.is_current_gc_nursery()),
        beside: plan.concurrent().is_some(),
    }
}

/// The smallest nursery by the options.
fn smallest_nursery<VM: VMBinding>(mmtk: &MMTK<VM>) -> Bytes {
    let min = match *mmtk.get_options().nursery {
        NurserySize::Fixed(bytes) => bytes,
        NurserySize::Bounded { min, .. } => min,
        NurserySize::ProportionalBounded { .. } => DEFAULT_MIN_NURSERY,
    };
    Bytes(min as u64)
}

fn bytes(pages: usize) -> Bytes {
    Bytes((pages as u64) << LOG_BYTES_IN_PAGE)
}

/// Whole pages within this much memory; the maximum is finite, so they fit.
fn pages(bytes: Bytes) -> usize {
    usize::try_from(bytes.0 / BYTES_IN_PAGE as u64).unwrap_or(usize::MAX >> LOG_BYTES_IN_PAGE)
}
