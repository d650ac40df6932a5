//! The collectors by themselves, against the literal ones: long lives of many small objects, which the
//! programs of a few threads do not have.

use crate::reference_heap::{Heap, Object, heap};
use plimsoll_sim::threads::heap::{Algorithm, Collection, Collector, Kind, NewRatio, Place};
use plimsoll_trace::ObjectId;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// The life of a heap.
#[derive(Clone, Debug)]
struct Life {
    /// Its size, bytes.
    heap: u64,
    /// Its mature space, in nurseries.
    new_ratio: NewRatio,
    /// How many objects live before each further one replaces one; a number.
    living: usize,
    /// Number of objects in ten that replace one of the ten youngest; the others replace any.
    die_young: u64,
    /// For each object a size, bytes, and a number that chooses whom it replaces.
    objects: Vec<(u64, u64)>,
}

/// The paper's as often as any other.
pub(crate) fn new_ratio() -> impl Strategy<Value = NewRatio> {
    let any = (100..=9000u32).prop_map(|it| NewRatio::new(f64::from(it) / 1000.0).unwrap());
    prop_oneof![Just(NewRatio::PAPER), any]
}

fn life() -> impl Strategy<Value = Life> {
    // 50 bytes on average.
    let size = prop_oneof![40 => 1..40u64, 4 => 0..200u64, 1 => 0..2000u64];
    let objects = prop::collection::vec((size, 0..u64::MAX / 16), 100..1500);
    (10..=60u64, new_ratio(), 5..200usize, 0..=10u64, objects).prop_map(
        |(tenths, new_ratio, living, die_young, objects)| Life {
            new_ratio,
            heap: living as u64 * 50 * tenths / 10,
            living,
            die_young,
            objects,
        },
    )
}

/// A collector, and a literal heap in which the same happens.
struct Both {
    fast: Box<dyn Collector>,
    literal: Box<dyn Heap>,
    /// Number, place and size of what lives.
    living: Vec<(u64, Place, u64)>,
    collections: Vec<Collection>,
}

impl Both {
    fn collect(&mut self, size: u64, all: bool) -> Kind {
        let collection = self.fast.collect(size, all);
        assert_eq!(collection, self.literal.collect(size, all));
        assert_eq!(self.fast.fragmented(), self.literal.fragmented());
        let used: u64 = self.literal.objects().iter().map(|it| it.size).sum();
        assert_eq!(self.fast.used(), used);
        self.collections.push(collection);
        collection.kind
    }

    /// Allocates an object. Whether there was room.
    fn allocate(&mut self, number: u64, size: u64) -> bool {
        let object = Object {
            id: ObjectId(number),
            size,
            live: true,
        };
        let mut last = None;
        loop {
            let place = self.fast.allocate(size);
            assert_eq!(place.is_some(), self.literal.place(object), "{size} bytes");
            if let Some(place) = place {
                self.living.push((number, place, size));
                return true;
            }
            if last == Some(Kind::Full) {
                return false;
            }
            last = Some(self.collect(size, last.is_some()));
        }
    }

    fn die(&mut self, which: usize) {
        let (number, place, size) = self.living.remove(which);
        self.fast.died(place, size);
        let objects = self.literal.objects();
        let object = objects.into_iter().find(|it| it.id.0 == number && it.live);
        object.unwrap().live = false;
    }
}

/// Lets both heaps live through all of it. Returns the collections. Where an object finds no room, the oldest
/// ones die.
fn live_through(life: &Life, collector: Algorithm) -> Vec<Collection> {
    let mut both = Both {
        fast: collector.build(life.heap, life.new_ratio),
        literal: heap(collector, life.heap, life.new_ratio),
        living: Vec::new(),
        collections: Vec::new(),
    };
    for (number, &(size, choice)) in (0..).zip(&life.objects) {
        let living = both.living.len();
        if living >= life.living {
            let youngest = if choice % 10 < life.die_young {
                living.min(10)
            } else {
                living
            };
            both.die(living - 1 - (choice / 10) as usize % youngest);
        }
        while !both.allocate(number, size) {
            match both.living.len() {
                0 => break,
                living => (0..living.div_ceil(4)).for_each(|_| both.die(0)),
            }
        }
    }
    both.collections
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn collectors_agree_with_the_literal_ones(life in life()) {
        for collector in Algorithm::ALL {
            live_through(&life, collector);
        }
    }
}

#[test]
fn random_lives_reach_all_that_the_collectors_can_do() {
    let mut runner = TestRunner::deterministic();
    let lives: Vec<Life> = (0..60)
        .map(|_| life().new_tree(&mut runner).unwrap().current())
        .collect();
    for collector in Algorithm::ALL {
        let collections = lives.iter().flat_map(|life| live_through(life, collector));
        let all: Vec<Collection> = collections.collect();
        let count = |which: fn(&Collection) -> bool| all.iter().filter(|it| which(it)).count();
        let reached = [
            count(|it| it.kind == Kind::Minor && it.work > 0 && it.freed > 0),
            count(|it| it.kind == Kind::Mixed && it.work > 0 && it.freed > 0),
            count(|it| it.kind == Kind::Full && it.work > 0 && it.freed > 0),
            count(|it| it.concurrent > 0),
            count(|it| it.swept > 0),
            count(|it| it.compacted > 0),
        ];
        let is_g1 = usize::from(collector == Algorithm::G1);
        let has = |it: bool| 50 * usize::from(it);
        let generations = !matches!(collector, Algorithm::MarkCompact | Algorithm::SemiSpace);
        let expected = [
            has(generations),
            is_g1 * 50,
            50,
            is_g1 * 50,
            has(collector == Algorithm::GenMs),
            has(collector != Algorithm::SemiSpace),
        ];
        for (index, (reached, expected)) in reached.iter().zip(expected).enumerate() {
            assert!(*reached >= expected, "{collector:?} {index}: {reached}");
            assert!(
                expected > 0 || *reached == 0,
                "{collector:?} {index}: {reached}"
            );
        }
    }
}
