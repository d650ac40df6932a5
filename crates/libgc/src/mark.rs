//! Where marking begins: everything that the program can reach without following the heap.

use crate::collector::State;
use crate::kinds;
use crate::settings::GC_push_other_roots;
use plimsoll_heap::Central;
use plimsoll_heap::mark::{Crew, Marker};

/// Calls `mark` with the markers, and with a function that reports all roots. The world is stopped.
/// This thread's registers are on its stack at `here`, and the program's frames lie above that.
pub(crate) fn from_roots<R>(
    state: &mut State,
    here: usize,
    mark: impl FnOnce(
        &mut Central,
        &mut Marker<'_>,
        Option<&Crew>,
        &mut dyn FnMut(&mut Marker<'_>),
    ) -> R,
) -> R {
    let State {
        central,
        marker,
        crew,
        threads,
        roots,
        finalization,
        toggles,
        unknown,
        pace,
        ..
    } = state;
    let mut report = |marker: &mut Marker<'_>| {
        // Called first, because it may set where stacks end.
        if let Some(callback) = GC_push_other_roots.get() {
            kinds::with_marker(marker, || callback());
        }
        pace.stacks = 0;
        threads.each_root(here, |start, end| {
            pace.stacks += end.saturating_sub(start);
            // SAFETY: stacks of stopped threads.
            unsafe { marker.span(start, end) }
        });
        // SAFETY: static data that is readable, or what the program vouches for.
        roots.each(|start, end| unsafe { marker.span(start, end) });
        roots.each_word(|word| marker.word(word));
        finalization.each_root(|word| marker.word(word));
        toggles.each_root(|word| marker.word(word));
        unknown.each_root(|word| marker.word(word));
    };
    mark(central, marker, *crew, &mut report)
}
