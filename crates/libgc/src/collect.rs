//! One collection: the decisions made for it, and the calls to the program's callbacks on the way.
//! The types of [`collection`](plimsoll_heap::collection) enforce the order of the heap's part.

use crate::collector::{self, Locked, State};
use crate::footprint;
use crate::mark::from_roots;
use crate::pace::Found;
use crate::settings::{
    GC_dont_gc, GC_gc_no, StopFunc, no_automatic, on_collection_event, start_callback, stop_func,
    unmap_on_gcollect,
};
use crate::stats::{Cycle, Work};
use crate::steps::{self, Begun, Steps};
use crate::stress;
use crate::thread::blocking::with_registers;
use crate::thread::unknown;
use crate::unwind::Whole;
use crate::{disclaim, finalize, follow, helpers, incremental, leaks, private};
use libc::{c_int, c_uint};
use plimsoll_heap::collection::{Emptied, Ended, Pause, Step};
use plimsoll_heap::{Heap, Look, Residency};

/// The reason for a collection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The heap is at its limit.
    Allocation,
    /// The heap is at its limit although there was a collection: of young objects only (`Young`),
    /// or of any kind (`Lack`).
    Young,
    Lack,
    /// Many finalizers or links are new, and the heap or their table would grow.
    Crowd,
    /// The program asked for a collection (`Asked`), or for the beginning of one (`Begun`).
    Asked,
    Begun,
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

/// Whether the collector may begin a collection by itself.
pub(crate) fn allowed() -> bool {
    no_automatic.get() == 0 && may_go_on()
}

/// Whether a collection in steps may go on with another step, or be begun by hand.
pub(crate) fn may_go_on() -> bool {
    GC_dont_gc.get() == 0 && stop_func.get()() == 0 && !collector::is_lent()
}

/// Collects, or does one step of a collection. The caller holds the lock, and calls
/// [`finalize::notify_or_invoke`] after it has released it. This thread's registers are on its
/// stack at `here`, and the program's frames lie above that.
pub(crate) fn collect(gc: &mut Locked, why: Why, here: usize) {
    unknown::check_collector();
    let whole = Whole::begin();
    let heap = gc.heap;
    let state: &mut State = &mut *gc;
    let goes_on = why == Why::Allocation && heap.is_tracked();
    match state.steps.next(goes_on) {
        Steps::Marking(mut begun) => {
            begun.cycle.resume();
            if may_page(state) {
                heap.ask_for_tables(&state.central);
            }
            stop(state, &mut begun.cycle);
            let look = may_page(state) || begun.cycle.pages();
            let step = Pause::begin(heap).go_on(&state.central, look);
            mark_some(state, begun, step, here);
        }
        Steps::Marked(mut begun) => {
            begun.cycle.resume();
            let earlier = Earlier {
                young: begun.young,
                residency: begun.residency,
            };
            collect_all(heap, state, begun.cycle, Some(earlier), here);
        }
        Steps::None | Steps::Lost => {
            let why = match state.steps.are_under_way() {
                true if why == Why::Allocation => Why::Lack,
                _ => why,
            };
            tell(Event::Start);
            collect_all(heap, state, Cycle::begin(why), None, here);
        }
    }
    whole.end();
}

/// Stops the world for a step that needs no roots.
fn stop(state: &mut State, cycle: &mut Cycle) {
    tell(Event::PreStop);
    state.threads.stop_world();
    tell(Event::PostStop);
    cycle.stopped();
    tell(Event::MarkStart);
}

/// Stops the world, and reads static data while no thread loads or unloads a library.
fn stop_at_roots(heap: &Heap, state: &mut State, cycle: &mut Cycle) {
    tell(Event::PreStop);
    let State { roots, threads, .. } = state;
    let mut reading = roots.reading(heap.range());
    threads.stop_world_with(&mut reading);
    cycle.stopped_at(reading.began());
    tell(Event::PostStop);
    tell(Event::MarkStart);
}

/// Starts the world again.
fn start(state: &mut State, cycle: &mut Cycle) {
    tell(Event::MarkEnd);
    tell(Event::PreStart);
    cycle.started();
    state.threads.start_world();
    tell(Event::PostStart);
}

/// Whether the kernel may have evicted some of the heap or its tables.
fn may_page(state: &State) -> bool {
    state.surroundings.is_short() || state.surroundings.absent() > 0
}

/// Does a step that only marks, inside a pause that has begun.
fn mark_some(state: &mut State, mut begun: Begun, step: Step<'_>, here: usize) {
    let until = begun.cycle.until(steps::time(state));
    let done = from_roots(state, here, |central, marker, crew, roots| {
        step.mark(central, marker, crew, until, roots)
    });
    start(state, &mut begun.cycle);
    begun.cycle.suspend();
    state.steps = steps::after(state, begun, done);
}

/// What is known of a collection in steps when its last step begins.
struct Earlier {
    young: bool,
    /// The pages' residency that its first look found.
    residency: Residency,
}

/// Does a collection in one pause, or only its first step if it is to be made in steps. With
/// `earlier`, does the last step of a collection.
fn collect_all(
    heap: &'static Heap,
    state: &mut State,
    mut cycle: Cycle,
    earlier: Option<Earlier>,
    here: usize,
) {
    prepare(heap, state);
    stop_at_roots(heap, state, &mut cycle);
    let emptied = empty_bins(heap, state, earlier.is_none());
    // Other steps may have been given up before; and a callback may have forked just now, so that
    // neither the rest of the steps nor the state of the marks is known.
    let given_up = steps::give_up(&emptied, state);
    let earlier = earlier.filter(|_| !given_up);
    let begins = earlier.is_none() && !given_up;
    let complete = state.pace.wants_complete();
    let young = match &earlier {
        Some(earlier) => earlier.young,
        None => {
            begins
                && cycle.why == Why::Allocation
                && !complete
                && !state.surroundings.is_tight()
                && incremental::is_young(heap, state)
        }
    };
    let stepping = begins
        && matches!(cycle.why, Why::Allocation | Why::Young | Why::Begun)
        && steps::are_wanted(heap, state, young);
    let mut looked = emptied.look(&mut state.central, Look { complete, young });
    let mut residency = looked.residency();
    if stepping {
        looked = match steps::begin(heap, state, looked, young) {
            Ok(step) => {
                let begun = Begun::new(state, cycle, young, residency);
                return mark_some(state, begun, step, here);
            }
            Err(looked) => looked,
        };
    }
    if let Some(earlier) = earlier {
        residency = residency.after(&earlier.residency);
    }
    let cleared = looked.at_once(&mut state.central);
    let marked = from_roots(state, here, |central, marker, crew, roots| {
        cleared.mark(central, marker, crew, roots)
    });
    stress::verify(&marked, state, here);
    state.leaks.look(heap, &state.central);
    finalize::after_marking(heap, state);
    let watch = incremental::watch(heap, state, young, &residency);
    let ended = marked.end(&state.central, watch);
    start(state, &mut cycle);
    reclaim(heap, state, ended, cycle, young, residency);
}

/// Before the world is stopped: calls the program's callback, and makes room for what marking may
/// produce.
fn prepare(heap: &'static Heap, state: &mut State) {
    // Programs prepare in this callback for `GC_push_other_roots`, and clean up in that. A last
    // step calls both, too.
    if let Some(callback) = start_callback.get() {
        callback();
    }
    state.toggles.decide();
    state.unknown.prepare();
    state.finalization.prepare();
    state.leaks.prepare(heap, &state.central);
    helpers::call(heap, state);
    follow::start();
    if may_page(state) {
        heap.ask_for_tables(&state.central);
    }
}

/// Empties the bins, while the world is stopped: afterwards no thread can allocate without the
/// lock.
fn empty_bins(heap: &'static Heap, state: &mut State, begins: bool) -> Emptied<'static> {
    let pause = Pause::begin(heap);
    private::clear_lists();
    if begins && !state.steps.are_under_way() {
        let spare = state.spare.as_deref();
        state
            .leaks
            .begin(heap, &state.central, &state.threads, spare);
    }
    pause.empty(|heap| {
        state.threads.retire_bins(heap);
        if let Some(bins) = &mut state.spare {
            bins.retire(heap);
        }
    })
}

/// Frees unmarked slots. Other threads run, but cannot allocate until they get the lock, because
/// their bins are empty.
fn reclaim(
    heap: &'static Heap,
    state: &mut State,
    ended: Ended<'_>,
    cycle: Cycle,
    young: bool,
    residency: Residency,
) {
    tell(Event::ReclaimStart);
    state.finalization.announce();
    disclaim::ask(heap, state);
    let unwatch = incremental::unwatches(state, &residency, young, cycle.was_in_steps());
    let counted = ended.count(&mut state.central, unwatch);
    let census = counted.census;
    let found = Found {
        composite: (census.live - census.opaque) as usize,
        atomic: census.opaque as usize,
        small: census.small_opaque as usize,
        small_objects: census.small_opaque_objects as usize,
        roots: state.roots.bytes(),
        stacks: state.pace.stacks,
        finalized: state.finalization.note(heap),
        holes: census.holes as usize,
        freed: census.freed_bytes() as usize,
    };
    let marking = state.marker.take_marking();
    state.pace.after(&found, marking.replayed > 0);
    let ended = footprint::Ended {
        young,
        found: &found,
        residency: &residency,
        took: cycle.so_far(),
        allocated: heap.allocated(),
    };
    let settled = footprint::settle(heap, state, &counted, &ended);
    state.pace.tell(&state.central);
    counted.end(&state.central);
    tell(Event::ReclaimEnd);
    GC_gc_no.set(GC_gc_no.get() + 1);
    let work = Work {
        census,
        residency,
        marking,
        young,
        settled,
        size: state.pace.size(&state.central),
    };
    state.stats.record(cycle, &work, state.pace.verbose);
    tell(Event::End);
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_gcollect() {
    if ask(Some(stop_func.get())) && unmap_on_gcollect.get() != 0 {
        unmap();
    }
}

fn unmap() {
    let mut gc = collector::lock();
    let heap = gc.heap;
    gc.central.give_back(heap, 0);
}

/// Also gives the heap's free memory back to the kernel. The default stop function is not called.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_gcollect_and_unmap() {
    ask(None);
    unmap();
}

/// Returns 1 if there was a collection, 0 if the stop function that is passed prevented it.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_try_to_collect(stop: Option<StopFunc>) -> c_int {
    c_int::from(ask(stop))
}

/// Collects before a table of finalizers or links grows, if that is allowed: many of its entries may
/// be dead. The caller's frames are scanned, and so what it is about to enter. As after [`collect`], the
/// caller calls [`finalize::notify_or_invoke`] after it has released the lock.
pub(crate) fn before_growth(gc: &mut Locked) {
    if allowed() && !gc.incremental.is_on() {
        with_registers(|here| collect(gc, Why::Crowd, here));
    }
}

fn ask(stop: Option<StopFunc>) -> bool {
    let mut gc = collector::lock();
    if gc.finalization.is_due() {
        // Due finalizers are called before the collection, too, as in libgc.
        drop(gc);
        finalize::notify_or_invoke();
        gc = collector::lock();
    }
    if GC_dont_gc.get() != 0 || stop.is_some_and(|stop| stop() != 0) {
        return false;
    }
    with_registers(|here| collect(&mut gc, Why::Asked, here));
    let due = gc.finalization.is_due();
    drop(gc);
    collector::give_way();
    leaks::report();
    if due {
        finalize::notify_or_invoke();
    }
    true
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_disable() {
    let _guard = collector::guard();
    GC_dont_gc.set(GC_dont_gc.get() + 1);
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn GC_enable() {
    let _guard = collector::guard();
    GC_dont_gc.set(GC_dont_gc.get() - 1);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_disabled() -> c_int {
    c_int::from(GC_dont_gc.get() != 0)
}
