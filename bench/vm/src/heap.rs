//! How large the heap is: the choices of the command line, and the trigger that follows from them.

use crate::vm::{Vm, mmtk};
use crate::watch::Watch;
use mmtk::util::VMThread;
use mmtk::util::heap::GCTriggerPolicy;
use mmtk::util::options::{GCTriggerSelector, PlanSelector};
use mmtk::{MMTK, MMTKBuilder, memory_manager};
use plimsoll_mmtk::{Builder, Bytes, Control, GiveBack, Trigger};
use plimsoll_policy::sizing::{AfterStalls, Ended, IslaVista, Ratios, Sizing};
use std::str::FromStr;
use std::sync::OnceLock;

/// The rule for the size of the heap. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapKind {
    /// It never changes: MMTk's own.
    Fixed(u64),
    /// MMTk's own dynamic heap (MemBalancer), between these two.
    Dynamic(u64, u64),
    /// Isla Vista up to this.
    IslaVista(u64),
    /// Isla Vista up to this, as its paper prints it.
    Printed(u64),
    /// A heap that doubles until the kernel stalls the program, up to this; then Isla Vista.
    AfterStalls(u64),
}

/// All about the heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The rule for the size.
    pub(crate) kind: HeapKind,
    /// Whether a broker is followed.
    pub(crate) broker: bool,
    /// When memory is given back.
    pub(crate) give_back: GiveBack,
    /// Whether the order of MMTk's calls is watched.
    pub(crate) watch: bool,
}

/// MMTk asks for a trigger by a function without arguments, so what it should be is kept here.
static SETTINGS: OnceLock<Settings> = OnceLock::new();
static CONTROL: OnceLock<Control> = OnceLock::new();

/// Builds the heap. Called once.
pub(crate) fn build(settings: Settings, plan: PlanSelector, workers: usize) -> MMTK<Vm> {
    let _ = SETTINGS.set(settings);
    let mut builder = MMTKBuilder::new_no_env_vars();
    builder.options.plan.set(plan);
    builder.options.threads.set(workers);
    let selector = match settings.kind {
        HeapKind::Fixed(bytes) => GCTriggerSelector::FixedHeapSize(bytes as usize),
        HeapKind::Dynamic(min, max) => {
            GCTriggerSelector::DynamicHeapSize(min as usize, max as usize)
        }
        HeapKind::IslaVista(_) | HeapKind::Printed(_) | HeapKind::AfterStalls(_) => {
            GCTriggerSelector::Delegated
        }
    };
    builder.options.gc_trigger.set(selector);
    builder.build()
}

/// Starts the collector. Called once, after [`crate::vm::hold`]. `is_told`: whether the trigger is told, as
/// it should be.
pub(crate) fn start(is_told: bool) {
    memory_manager::initialize_collection(mmtk(), VMThread::UNINITIALIZED);
    if let Some(control) = control().filter(|_| is_told) {
        control.ready();
    }
}

/// The handle on the limit; `None` where MMTk's own triggers decide.
pub(crate) fn control() -> Option<&'static Control> {
    CONTROL.get()
}

/// The trigger for `Collection::create_gc_trigger`.
///
/// # Panics
/// When the settings are not for a delegated trigger, or the maximum is too small: there is no way to
/// tell MMTk.
pub(crate) fn create_gc_trigger() -> Box<dyn GCTriggerPolicy<Vm>> {
    let settings = SETTINGS.get().expect("the heap is being built");
    let builder = |max| {
        let builder = Builder::new().max(Bytes(max)).broker(settings.broker);
        builder.give_back(settings.give_back)
    };
    let trigger = match settings.kind {
        HeapKind::AfterStalls(max) => trigger(builder(max).policy::<AfterStalls>()),
        HeapKind::IslaVista(max) => trigger(builder(max)),
        HeapKind::Printed(max) => trigger(builder(max).policy::<Printed>()),
        HeapKind::Fixed(_) | HeapKind::Dynamic(..) => unreachable!("MMTk has its own triggers"),
    };
    if settings.watch {
        Box::new(Watch::new(trigger))
    } else {
        trigger
    }
}

/// A trigger by one policy, whose handle is kept.
fn trigger<S: Sizing + Send + 'static>(builder: Builder<S>) -> Box<dyn GCTriggerPolicy<Vm>> {
    let sizer = builder.open().unwrap_or_else(|e| panic!("{e}"));
    let _ = CONTROL.set(sizer.control());
    // SAFETY: MMTk gets it, and `Watch` around it only passes MMTk's calls on.
    Box::new(unsafe { Trigger::giving_back(sizer) })
}

/// The first limit by the printed rule: it begins small, and grows by a fiftieth of what is left.
const FIRST: Bytes = Bytes::mib(32);

/// Isla Vista as its paper prints it, to compare with. `None` before the bound is known, which is a part of
/// its first step.
#[derive(Clone, Debug, Default)]
struct Printed(Option<IslaVista>);

impl Sizing for Printed {
    fn bounded(&mut self, most: Bytes) {
        match &mut self.0 {
            Some(rule) => rule.bounded(most),
            None => self.0 = Some(IslaVista::new(Ratios::PAPER, FIRST, most)),
        }
    }

    fn ended(&mut self, ended: &Ended) {
        if let Some(rule) = &mut self.0 {
            rule.ended(ended);
        }
    }

    fn size(&self) -> Bytes {
        self.0.as_ref().map_or(FIRST, Sizing::size)
    }
}

/// `fixed:256m`, `dynamic:8m,256m`, `isla-vista:256m`, `printed:256m`, `after-stalls:256m`.
impl FromStr for HeapKind {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<HeapKind, SizeError> {
        let wrong = || SizeError::Kind(text.to_owned());
        let (name, sizes) = text.split_once(':').ok_or_else(wrong)?;
        let mut sizes = sizes.split(',').map(bytes);
        let (first, second) = (sizes.next().flatten(), sizes.next());
        match (name, first, second) {
            ("fixed", Some(size), None) => Ok(HeapKind::Fixed(size)),
            ("dynamic", Some(min), Some(Some(max))) => Ok(HeapKind::Dynamic(min, max)),
            ("isla-vista", Some(max), None) => Ok(HeapKind::IslaVista(max)),
            ("printed", Some(max), None) => Ok(HeapKind::Printed(max)),
            ("after-stalls", Some(max), None) => Ok(HeapKind::AfterStalls(max)),
            _ => Err(wrong()),
        }
    }
}

/// An argument that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SizeError {
    /// No kind of heap.
    #[error("`{0}` is none of fixed:N, dynamic:N,N, isla-vista:N, printed:N, after-stalls:N")]
    Kind(String),
    /// No number of bytes.
    #[error("`{0}` is no number of bytes: give one, or one with k, m or g")]
    Bytes(String),
}

/// A number of bytes, or of `k`, `m` or `g`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'k') => (&text[..at], 10),
        (at, 'm') => (&text[..at], 20),
        (at, 'g') => (&text[..at], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_rule_grows_by_a_fiftieth_and_never_gets_its_steps_back() {
        let mut rule = Printed::default();
        rule.bounded(Bytes::mib(232));
        assert_eq!(rule.size(), Bytes::mib(32));
        let mut after = |stalls| {
            rule.ended(&Ended {
                live: Bytes::mib(8),
                stalls,
                ..Ended::default()
            });
            rule.size()
        };
        assert_eq!(after(0), Bytes::mib(36));
        assert_eq!(after(0), Bytes::mib(40));
        assert_eq!(after(1), Bytes::mib(28), "the last nursery");
        assert_eq!(after(0), Bytes::mib(29), "a quarter of the step");
    }

    #[test]
    fn kinds_of_heaps_are_read_and_nonsense_is_refused() {
        assert_eq!("fixed:2m".parse(), Ok(HeapKind::Fixed(2 << 20)));
        assert_eq!(
            "dynamic:4k,1g".parse(),
            Ok(HeapKind::Dynamic(4 << 10, 1 << 30))
        );
        assert_eq!("printed:1m".parse(), Ok(HeapKind::Printed(1 << 20)));
        for bad in [
            "",
            "fixed",
            "fixed:",
            "fixed:1,2",
            "dynamic:1",
            "other:1",
            "fixed:é",
        ] {
            assert!(bad.parse::<HeapKind>().is_err(), "{bad}");
        }
    }
}
