//! One collection, step by step.

use crate::collector::{self, Locked, State};
use crate::footprint::{self, Ended};
use crate::pace::{Found, Pace};
use crate::settings::{
    GC_dont_gc, GC_gc_no, GC_push_other_roots, StopFunc, no_automatic, on_collection_event,
    start_callback, stop_func, unmap_on_gcollect,
};
use crate::stats::{Cycle, Work};
use crate::stress;
use crate::thread::blocking::with_registers;
use crate::{disclaim, finalize, follow, helpers, incremental, kinds, leaks};
use libc::{c_int, c_uint};
use plimsoll_heap::mark::Marker;

/// Why there is one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The heap is at its limit.
    Allocation,
    /// It is, and a collection before did not help.
    Lack,
    /// The program asked.
    Asked,
    /// A broker's limit fell.
    Limit,
}

/// `GC_EventType`.
#[derive(Clone, Copy)]
enum Event {
    Start = 0,
    MarkStart = 1,
    MarkEnd = 2,
    ReclaimStart = 3,
    ReclaimEnd = 4,
    End = 5,
    PreStop = 6,
    PostStop = 7,
    PreStart = 8,
    PostStart = 9,
}

fn tell(event: Event) {
    if let Some(callback) = on_collection_event.get() {
        callback(event as c_uint);
    }
}

/// Whether the collector may begin one by itself.
pub(crate) fn allowed() -> bool {
    GC_dont_gc.get() == 0 && no_automatic.get() == 0 && stop_func.get()() == 0
}

/// Collects. The caller holds the lock, and calls [`finalize::notify_or_invoke`] when it does no more. This thread's
/// registers are on its stack at `here`, and above that what the program has there.
pub(crate) fn collect(gc: &mut Locked, why: Why, here: usize) {
    tell(Event::Start);
    if let Some(callback) = start_callback.get() {
        callback();
    }
    let heap = gc.heap;
    let state: &mut State = &mut *gc;
    let mut cycle = Cycle::begin(why);
    state.toggles.decide();
    state.roots.look();
    state.finalization.prepare();
    state.leaks.prepare();
    helpers::call(heap, state);
    follow::start();
    if state.surroundings.is_short() || state.surroundings.absent() > 0 {
        heap.ask_for_tables(&state.central);
    }
    tell(Event::PreStop);
    state.threads.stop_world();
    heap.begin_collection();
    tell(Event::PostStop);
    cycle.stopped();
    tell(Event::MarkStart);
    state.threads.retire_bins(heap);
    if let Some(bins) = &mut state.spare {
        bins.retire(heap);
    }
    let complete = state.pace.wants_complete();
    let young = why == Why::Allocation && !complete && incremental::is_young(heap, state);
    if !young {
        heap.clear_marks(&mut state.central);
    }
    let residency = heap.look(&mut state.central, complete);
    mark(state, here, young);
    stress::verify(heap, state, |state| mark(state, here, false));
    state.leaks.look(heap, &state.central);
    finalize::after_marking(heap, state);
    incremental::watch(heap, state, young, &residency);
    heap.end_marking();
    tell(Event::MarkEnd);
    tell(Event::PreStart);
    cycle.started();
    state.threads.start_world();
    tell(Event::PostStart);
    tell(Event::ReclaimStart);
    state.finalization.announce();
    disclaim::ask(heap, state);
    // Others run, but have no bins to allocate from until they get the lock.
    let census = heap.census(&mut state.central);
    let found = Found {
        composite: (census.live - census.opaque) as usize,
        atomic: census.opaque as usize,
        roots: state.roots.bytes(),
        holes: census.holes as usize,
    };
    let marking = state.marker.take_marking();
    state.pace.after(&found, marking.replayed > 0);
    let ended = Ended {
        young,
        found: &found,
        residency: &residency,
        took: cycle.so_far(),
        allocated: heap.allocated(),
    };
    let settled = footprint::settle(heap, state, &ended);
    state.pace.tell(&state.central);
    heap.end_collection(&state.central);
    tell(Event::ReclaimEnd);
    GC_gc_no.set(GC_gc_no.get() + 1);
    let work = Work {
        census,
        residency,
        marking,
        young,
        settled,
        size: Pace::size(&state.central),
    };
    state.stats.record(cycle, &work, state.pace.verbose);
    tell(Event::End);
}

/// Marks from all roots. `young`: what is marked already is one where it was written to.
fn mark(state: &mut State, here: usize, young: bool) {
    let State {
        central,
        marker,
        crew,
        threads,
        roots,
        finalization,
        toggles,
        ..
    } = state;
    let crew = *crew;
    let from_roots = |marker: &mut Marker<'_>| {
        // First, because it may say where stacks end.
        if let Some(callback) = GC_push_other_roots.get() {
            kinds::with_marker(marker, || callback());
        }
        // SAFETY: stacks of stopped threads, and static data that is readable.
        threads.each_root(here, |start, end| unsafe { marker.span(start, end) });
        // SAFETY: as above, and what the program vouches for.
        roots.each(|start, end| unsafe { marker.span(start, end) });
        marker.uncollectable(central);
        if young {
            marker.written(central, crew);
        }
        finalization.each_root(|word| marker.word(word));
        toggles.each_root(|word| marker.word(word));
    };
    match crew {
        Some(crew) => crew.lead(marker, central, from_roots),
        None => marker.mark_from(central, from_roots),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_gcollect() {
    if ask(Some(stop_func.get())) && unmap_on_gcollect.get() != 0 {
        unmap();
    }
}

fn unmap() {
    let mut gc = collector::lock();
    let heap = gc.heap;
    gc.central.give_back(heap, 0);
}

/// What the heap has free goes back to the kernel, too; the default stop function is not asked.
#[unsafe(no_mangle)]
extern "C" fn GC_gcollect_and_unmap() {
    ask(None);
    unmap();
}

/// 1 if there was a collection, 0 if the function that is passed wanted none.
#[unsafe(no_mangle)]
extern "C" fn GC_try_to_collect(stop: Option<StopFunc>) -> c_int {
    c_int::from(ask(stop))
}

fn ask(stop: Option<StopFunc>) -> bool {
    let mut gc = collector::lock();
    if GC_dont_gc.get() != 0 || stop.is_some_and(|stop| stop() != 0) {
        return false;
    }
    with_registers(|here| collect(&mut gc, Why::Asked, here));
    let due = gc.finalization.is_due();
    drop(gc);
    leaks::report();
    if due {
        finalize::notify_or_invoke();
    }
    true
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_disable() {
    let _gc = collector::lock();
    GC_dont_gc.set(GC_dont_gc.get() + 1);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn GC_enable() {
    let _gc = collector::lock();
    GC_dont_gc.set(GC_dont_gc.get() - 1);
}

#[unsafe(no_mangle)]
extern "C" fn GC_is_disabled() -> c_int {
    c_int::from(GC_dont_gc.get() != 0)
}
