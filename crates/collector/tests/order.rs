//! The order in which a front end is called, and collections of a heap at its limit.

use plimsoll_collector::{Collector, Conditions, Event, FrontEnd, Record, Scanned, Settings, Why};
use plimsoll_heap::mark::{MarkWorkers, Marker, NoTracer};
use plimsoll_heap::os::Linux;
use plimsoll_heap::{Bins, Central, Class, Heap, Kind, KindId};
use plimsoll_unit::index::MIB;
use std::sync::{Arc, Weak};
use std::thread::Scope;
use std::time::Instant;

/// A program with one thread, which notes each call.
#[derive(Default)]
struct Program {
    bins: Box<Bins>,
    roots: Vec<usize>,
    calls: Vec<String>,
}

impl Program {
    fn note(&mut self, call: &str) {
        self.calls.push(call.to_owned());
    }
}

impl FrontEnd for Program {
    fn enter(&mut self) {
        self.note("enter");
    }

    fn tell(&mut self, event: Event) {
        self.note(&format!("{event:?}"));
    }

    fn prepare(&mut self, _: &Heap, _: &Central) {
        self.note("prepare");
    }

    fn stop(&mut self, _: &Heap, roots: bool) -> Instant {
        assert!(roots, "this is no later step");
        self.note("stop");
        Instant::now()
    }

    fn retire(&mut self, heap: &Heap, _: &Central, begins: bool) {
        assert!(begins, "no steps were given up");
        self.note("retire");
        self.bins.retire(heap);
    }

    fn roots(&mut self, marker: &mut Marker<'_>) {
        self.note("roots");
        self.roots.iter().for_each(|&root| marker.word(root));
    }

    fn after_marking(&mut self, heap: &Heap, _: &Central, _: &mut Marker<'_>) {
        self.note("after_marking");
        let marked = |&root: &usize| heap.slot(root).is_some_and(|slot| heap.is_marked(slot));
        assert!(self.roots.iter().all(marked));
    }

    fn start(&mut self) {
        self.note("start");
    }

    fn before_reclaiming(&mut self, _: &Heap, _: &Central) -> Scanned {
        self.note("before_reclaiming");
        Scanned::default()
    }

    fn ended(&mut self, record: &Record) {
        assert_eq!(record.work.swept.objects, self.roots.len() as u64);
        self.note("ended");
    }

    fn leave(&mut self) {
        self.note("leave");
    }
}

/// Calls `body` with a collector of a new heap.
fn with_collector(body: impl FnOnce(&mut Collector<'_>)) {
    let (heap, central) = Heap::new(Box::new(Linux::new()), 64 * MIB).unwrap();
    let marker = Marker::new(&heap, &NoTracer).unwrap();
    let settings = Settings {
        untracked: true,
        ..Settings::default()
    };
    body(&mut Collector::new(&heap, central, marker, &settings));
}

/// Allocates an object of 64 bytes, for which there is room or room is made.
fn allocate(collector: &mut Collector<'_>, program: &mut Program, kind: KindId) -> usize {
    let class = Class::of(64).unwrap();
    let mut tried = 0;
    loop {
        let bin = program.bins.bin_to_refill(kind, class);
        if let Some(start) = bin.take(class.bytes()) {
            return start;
        }
        let heap = collector.heap();
        if let Err(why) = heap.refill(&mut collector.central, bin, kind, class) {
            assert!(collector.make_room(program, 64, why, &mut tried));
        }
    }
}

#[test]
fn a_front_end_is_called_in_one_order() {
    with_collector(|collector| {
        let kind = collector.heap().add_kind(Kind::WORDS).unwrap();
        let mut program = Program::default();
        for _ in 0..3 {
            let root = allocate(collector, &mut program, kind);
            program.roots.push(root);
        }
        allocate(collector, &mut program, kind);
        collector.collect(&mut program, Why::Asked);
        let order = "enter Start prepare BeforeStop stop AfterStop MarkStart retire roots \
                     after_marking MarkEnd BeforeStart start AfterStart ReclaimStart before_reclaiming \
                     ReclaimEnd ended End leave";
        assert_eq!(program.calls.join(" "), order);
        assert_eq!(collector.statistics.collections, 1);
    });
}

#[test]
fn a_heap_at_its_limit_is_collected_and_stays_small() {
    with_collector(|collector| {
        let kind = collector.heap().add_kind(Kind::WORDS).unwrap();
        let mut program = Program::default();
        let root = allocate(collector, &mut program, kind);
        program.roots.push(root);
        for _ in 0..200_000 {
            allocate(collector, &mut program, kind);
        }
        assert!(collector.statistics.collections > 5);
        assert!(collector.size() < 2 * MIB, "{}", collector.size());
        assert_eq!(collector.statistics.live().0, 64);
    });
}

/// A program whose collector starts mark workers.
struct Parallel<'s, 'e> {
    bins: Box<Bins>,
    scope: &'s Scope<'s, 'e>,
    heap: &'e Heap,
    workers: Weak<MarkWorkers>,
}

impl FrontEnd for Parallel<'_, '_> {
    fn conditions(&self) -> Conditions {
        Conditions {
            markers: Some(3),
            ..Conditions::default()
        }
    }

    fn start_workers(&mut self, workers: &Arc<MarkWorkers>, count: usize) -> usize {
        self.workers = Arc::downgrade(workers);
        for _ in 0..count {
            let (workers, heap) = (workers.clone(), self.heap);
            self.scope.spawn(move || {
                let mut marker = Marker::new(heap, &NoTracer).unwrap();
                while workers.help(&mut marker) {}
            });
        }
        count
    }

    fn retire(&mut self, heap: &Heap, _: &Central, _: bool) {
        self.bins.retire(heap);
    }

    fn roots(&mut self, _: &mut Marker<'_>) {}
}

#[test]
fn mark_workers_end_with_their_collector() {
    let (heap, central) = Heap::new(Box::new(Linux::new()), 64 * MIB).unwrap();
    let marker = Marker::new(&heap, &NoTracer).unwrap();
    let settings = Settings {
        initial: 32 * MIB,
        untracked: true,
        ..Settings::default()
    };
    let mut collector = Collector::new(&heap, central, marker, &settings);
    let kind = heap.add_kind(Kind::WORDS).unwrap();
    let workers = std::thread::scope(|scope| {
        let mut program = Parallel {
            bins: Box::default(),
            scope,
            heap: &heap,
            workers: Weak::new(),
        };
        heap.allocate_large(&mut collector.central, kind, 16 * MIB, false)
            .unwrap();
        for _ in 0..2 {
            collector.collect(&mut program, Why::Asked);
        }
        assert_eq!(program.workers.strong_count(), 3, "two threads have them");
        drop(collector);
        program.workers
    });
    assert_eq!(workers.strong_count(), 0);
}
