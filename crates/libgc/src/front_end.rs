//! The half of the collector that is libgc's: how the world is stopped, where marking begins, and what
//! happens to dead objects.

use crate::abi::private;
use crate::abi::variables::{
    GC_dont_expand, GC_dont_gc, GC_free_space_divisor, GC_full_freq, GC_gc_no, GC_max_retries,
    GC_on_heap_resize, GC_parallel, GC_push_other_roots, finds_leaks, markers_count, min_bytes,
    no_automatic, on_collection_event, start_callback, stop_func, time_limit,
};
use crate::finalization::disclaim;
use crate::objects::kinds;
use crate::output;
use crate::spawn::spawn;
use crate::state::{self, Locked, Program, State};
use crate::thread::registered::running;
use crate::thread::registers::with_registers;
use crate::thread::{current, unregistered};
use crate::unwind::Whole;
use crate::{broker_thread, diagnostics, heap, quantum, stress};
use libc::c_uint;
use plimsoll_collector::{Conditions, Event, FrontEnd, Record, Scanned, Why};
use plimsoll_heap::mark::{MarkWorkers, Marker};
use plimsoll_heap::{Central, Heap};
use plimsoll_unit::Bytes;
use std::sync::Arc;
use std::time::Instant;

/// The program, during a collection by this thread.
pub(crate) struct Front<'a> {
    program: &'a mut Program,
    /// This thread's registers are on its stack here, and the program's frames lie above that.
    here: usize,
    /// Set while no callback may be left by an exception.
    whole: Option<Whole>,
}

impl Front<'_> {
    pub(crate) fn new(program: &mut Program, here: usize) -> Front<'_> {
        Front {
            program,
            here,
            whole: None,
        }
    }
}

/// Collects, or does one step of a collection. The caller holds the lock, and calls
/// [`notify_or_invoke`](crate::finalization::invoke::notify_or_invoke) after it has released it. This
/// thread's registers are on its stack at `here`, and the program's frames lie above that.
pub(crate) fn collect(gc: &mut Locked, why: Why, here: usize) {
    let State { collector, program } = &mut **gc;
    collector.collect(&mut Front::new(program, here), why);
}

/// Collects, with a limit of `bytes`. The program's own threads learn of due finalizers when they next
/// allocate. False if the program does not allow collections now.
fn collect_for_limit(bytes: Bytes) -> bool {
    let mut gc = state::lock();
    gc.collector.grant(bytes);
    let allowed = allowed();
    if allowed {
        with_registers(|here| collect(&mut gc, Why::Limit, here));
    }
    allowed
}

/// Whether the collector may begin a collection by itself.
pub(crate) fn allowed() -> bool {
    no_automatic.get() == 0 && may_go_on()
}

/// Whether an incremental collection may go on with another step, or be begun by hand.
pub(crate) fn may_go_on() -> bool {
    GC_dont_gc.get() == 0 && stop_func.get()() == 0 && !state::is_lent()
}

/// The number of an event in `GC_EventType`.
fn number(event: Event) -> c_uint {
    match event {
        Event::Start => 0,
        Event::MarkStart => 1,
        Event::MarkEnd => 2,
        Event::ReclaimStart => 3,
        Event::ReclaimEnd => 4,
        Event::End => 5,
        Event::BeforeStop => 6,
        Event::AfterStop => 7,
        Event::BeforeStart => 8,
        Event::AfterStart => 9,
    }
}

impl FrontEnd for Front<'_> {
    fn conditions(&self) -> Conditions {
        Conditions {
            divisor: GC_free_space_divisor.get(),
            least: min_bytes.get(),
            threads: running(),
            young_in_a_row: GC_full_freq.get().max(0) as u32,
            whole: !self.program.finalization.disclaims.is_empty() || finds_leaks(),
            pause: time_limit(),
            markers: self.program.markers.or_else(markers_count),
            may_grow: GC_dont_expand.get() == 0,
            retries: GC_max_retries.get(),
            stress: stress::choices(),
        }
    }

    fn may_collect(&mut self, under_way: bool) -> bool {
        allowed() || under_way && may_go_on()
    }

    fn count_bins(&mut self, heap: &Heap) {
        current::count_bins(heap);
    }

    fn is_crowded(&self, since: usize) -> bool {
        self.program.finalization.finalizers.is_crowded(since)
    }

    fn enter(&mut self) {
        unregistered::check_collector();
        broker_thread::start(collect_for_limit);
        self.whole = Some(Whole::begin());
    }

    fn tell(&mut self, event: Event) {
        if let Some(callback) = on_collection_event.get() {
            callback(number(event));
        }
    }

    fn prepare(&mut self, heap: &Heap, central: &Central) {
        // Programs prepare in this callback for `GC_push_other_roots`, and clean up in that. A last
        // step calls both, too.
        if let Some(callback) = start_callback.get() {
            callback();
        }
        self.program.finalization.prepare();
        self.program.unknown.prepare();
        self.program.leaks.prepare(heap, central);
    }

    fn start_workers(&mut self, workers: &Arc<MarkWorkers>, count: usize) -> usize {
        let Some(heap) = heap::made() else { return 0 };
        let start = |_: &usize| {
            let workers = workers.clone();
            spawn(c"gc-marker", move || {
                if let Ok(mut marker) = Marker::new(heap, &kinds::Descriptors) {
                    while workers.help(&mut marker) {}
                }
            })
        };
        let started = (0..count).filter(start).count();
        if started > 0 {
            GC_parallel.set(started as i32);
        }
        started
    }

    /// With `roots`, reads static data while no thread loads or unloads a library.
    fn stop(&mut self, heap: &Heap, roots: bool) -> Instant {
        let Program {
            roots: all,
            threads,
            ..
        } = &mut *self.program;
        if roots {
            let mut reading = all.reading(heap.range());
            threads.stop_world_with(&mut reading);
            reading.began()
        } else {
            threads.stop_world();
            Instant::now()
        }
    }

    fn retire(&mut self, heap: &Heap, central: &Central, begins: bool) {
        private::clear_lists();
        let Program {
            threads,
            unknown,
            leaks,
            ..
        } = &mut *self.program;
        if begins {
            leaks.begin(heap, central, threads, unknown.bins());
        }
        threads.retire_bins(heap);
        unknown.retire_bins(heap);
    }

    fn roots(&mut self, marker: &mut Marker<'_>) {
        // Called first, because it may set where stacks end.
        if let Some(callback) = GC_push_other_roots.get() {
            kinds::with_marker(marker, || callback());
        }
        let Program {
            threads,
            unknown,
            roots,
            finalization,
            stacks,
            ..
        } = &mut *self.program;
        *stacks = 0;
        threads.each_root(self.here, |start, end| {
            *stacks += end.saturating_sub(start);
            // SAFETY: stacks of stopped threads.
            unsafe { marker.span(start, end) }
        });
        // SAFETY: static data that is readable, or what the program vouches for.
        roots.each(|start, end| unsafe { marker.span(start, end) });
        roots.each_word(|word| marker.word(word));
        finalization.each_root(|word| marker.word(word));
        unknown.each_root(|word| marker.word(word));
    }

    /// Ends the program.
    fn lost(&mut self, start: usize) {
        diagnostics::warn(c"The object at %p was lost\n", start);
        diagnostics::abort(c"plimsoll libgc: a collection lost an object");
    }

    fn after_marking(&mut self, heap: &Heap, central: &Central, marker: &mut Marker<'_>) {
        self.program.leaks.look(heap, central);
        self.program
            .finalization
            .after_marking(heap, central, marker);
    }

    fn start(&mut self) {
        self.program.threads.start_world();
    }

    fn before_reclaiming(&mut self, heap: &Heap, central: &Central) -> Scanned {
        let (roots, stacks) = (self.program.roots.bytes(), self.program.stacks);
        let finalization = &mut self.program.finalization;
        finalization.finalizers.announce();
        disclaim::ask(&finalization.disclaims, heap, central);
        Scanned {
            roots,
            stacks,
            finalized: finalization.finalizers.note(heap),
            finalizes: finalization.finalizers.is_busy(),
        }
    }

    fn resized(&mut self, bytes: usize) {
        if let Some(callback) = GC_on_heap_resize.get() {
            callback(bytes);
        }
    }

    fn ended(&mut self, record: &Record) {
        GC_gc_no.set(GC_gc_no.get() + 1);
        self.program.counted.collected();
        if self.program.logs {
            let turns = quantum::given().map_or(String::new(), |given| {
                format!("; threads gave way {given} times")
            });
            output::say(&format!("gc {}: {record}{turns}\n", GC_gc_no.get()));
        }
    }

    fn leave(&mut self) {
        if let Some(whole) = self.whole.take() {
            whole.end();
        }
    }
}
