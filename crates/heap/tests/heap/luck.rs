//! Every kernel call is refused in turn: objects stay alive, or an allocation reports that there is
//! no room.

use crate::kernel::{Fake, Pages};
use crate::world::World;
use plimsoll_heap::mark::{Marker, NoTracer};
use plimsoll_heap::os::{Call, FaultInjection};
use plimsoll_heap::{Exhausted, SUPERPAGE};
use plimsoll_unit::index::MIB;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const MOST: usize = 16 * MIB;

/// The calls that are refused, and how often each call was made.
struct Luck {
    refused: Box<dyn Fn(Call, usize) -> bool + Send + Sync>,
    asked: Mutex<BTreeMap<Call, usize>>,
    /// Refuses nothing before the heap is made.
    begun: AtomicBool,
}

impl Luck {
    fn new(refused: impl Fn(Call, usize) -> bool + Send + Sync + 'static) -> Arc<Luck> {
        Arc::new(Luck {
            refused: Box::new(refused),
            asked: Mutex::default(),
            begun: AtomicBool::new(false),
        })
    }

    fn refuses(&self, call: Call) -> bool {
        let begun = self.begun.load(SeqCst);
        let mut asked = self.asked.lock().unwrap();
        let count = asked.entry(call).or_default();
        *count += usize::from(begun);
        begun && (self.refused)(call, *count)
    }

    fn asked(&self, call: Call) -> usize {
        self.asked.lock().unwrap().get(&call).copied().unwrap_or(0)
    }
}

/// Allocates an object. `None` if there is no room even after a collection.
fn allocate(world: &mut World, marker: &mut Marker<'_>, bytes: usize) -> Option<usize> {
    for _ in 0..3 {
        match world.allocate(world.words, bytes) {
            Ok(start) => return Some(start),
            Err(Exhausted::Limit | Exhausted::Memory) => world.collect(marker),
        };
    }
    None
}

/// Lists grow, are cut and dropped, large objects come and go, the kernel evicts before every
/// collection, and dead memory is given back. Returns for how many objects there was no room.
fn scenario(luck: &Arc<Luck>) -> usize {
    let (fake, pages) = Fake::new(MOST);
    let ours = luck.clone();
    let os = FaultInjection::new(fake, move |call| ours.refuses(call));
    let mut world = World::over(Box::new(os), MOST);
    let mut marker = Marker::with_room(world.heap, &NoTracer, 10).unwrap();
    luck.begun.store(true, SeqCst);
    world.central.set_limit(150);
    let mut refused = 0;
    // Large enough that it is worth a call to disarm it.
    let large = allocate(&mut world, &mut marker, 40 * SUPERPAGE);
    refused += usize::from(large.is_none());
    world.roots.extend(large);
    for round in 0..4 {
        refused += grow(&mut world, &mut marker, round);
        evict(&world, &pages, round);
        world.collect(&mut marker);
        // Evicts and collects once more: this time summaries stand for absent superpages.
        evict(&world, &pages, round);
        world.complete = round == 2;
        world.collect(&mut marker);
        world.central.give_back(world.heap, round % 3);
        world.heap.cool(&world.central);
        // Some objects are written to, and refer to others from now on.
        let starts: Vec<usize> = world.objects.keys().copied().collect();
        for at in (round..starts.len()).step_by(11) {
            world.write(starts[at], 3, starts[(at * 7) % starts.len()]);
        }
        world.roots.drain(..world.roots.len() / 2);
        // A collection is begun in steps, and ended at once, or after the kernel has evicted.
        world.young = round % 2 == 1;
        world.step(&mut marker);
        world.step(&mut marker);
        if !world.young {
            world.collect(&mut marker);
        }
    }
    world.collect(&mut marker);
    // The kernel may change its mind: what exists can be used.
    luck.begun.store(false, SeqCst);
    world.list(20, 48);
    world.collect(&mut marker);
    drop(marker);
    // SAFETY: the world goes with this.
    unsafe { pages.unmap() };
    refused
}

/// Lists of small objects, whose first objects are roots, and a large object that refers to one of
/// them.
fn grow(world: &mut World, marker: &mut Marker<'_>, round: usize) -> usize {
    let (mut last, mut refused) = (0, 0);
    for at in 0..60 {
        let Some(start) = allocate(world, marker, 40 + 300 * (at % 5)) else {
            refused += 1;
            continue;
        };
        if at % 12 > 0 {
            world.write(start, 0, last);
        }
        last = start;
        // The next allocation may collect.
        world.roots.push(start);
        if at % 12 > 0 && world.roots.len() > 1 {
            world.roots.swap_remove(world.roots.len() - 2);
        }
    }
    match allocate(world, marker, (6 + round * 2) * SUPERPAGE) {
        Some(large) => {
            world.write(large, 5 * SUPERPAGE / 8, last);
            if round.is_multiple_of(2) {
                world.roots.push(large);
            }
        }
        None => refused += 1,
    }
    refused
}

fn evict(world: &World, pages: &Pages, round: usize) {
    let range = world.heap.range();
    for at in (0..range.len() / SUPERPAGE).filter(|at| (at / 6 * 7 + round) % 5 < 3) {
        let start = range.start + at * SUPERPAGE;
        pages.evict(start..start + SUPERPAGE);
    }
}

/// A stack begins small and grows. One that may not grow has the rest read later.
#[test]
fn a_stack_that_may_not_grow_loses_no_object() {
    const SONS: usize = 20_000;
    for refused in [false, true] {
        let luck = Luck::new(move |call, _| refused && call == Call::Map);
        let (fake, pages) = Fake::new(MOST);
        let ours = luck.clone();
        let os = FaultInjection::new(fake, move |call| ours.refuses(call));
        let mut world = World::over(Box::new(os), MOST);
        let mut marker = Marker::new(world.heap, &NoTracer).unwrap();
        luck.begun.store(true, SeqCst);
        let father = world.allocate(world.words, SONS * 8).unwrap();
        for at in 0..SONS {
            let son = world.allocate(world.words, 32).unwrap();
            world.write(father, at, son);
        }
        world.roots.push(father);
        let swept = world.collect(&mut marker);
        assert_eq!(swept.objects, SONS as u64 + 1);
        let overflows = marker.take_marking().overflows;
        assert_eq!(overflows > 0, refused, "{overflows}");
        assert!(luck.asked(Call::Map) > 0);
        drop(marker);
        // SAFETY: the world goes with this.
        unsafe { pages.unmap() };
    }
}

#[test]
fn each_call_of_each_kind_may_be_refused() {
    let lucky = Luck::new(|_, _| false);
    assert_eq!(scenario(&lucky), 0);
    for call in Call::ALL {
        let asked = lucky.asked(call);
        assert!(
            asked > 0 || matches!(call, Call::Reserve | Call::Map),
            "{call:?} is never asked for"
        );
        for which in 1..=asked {
            let once = Luck::new(move |other, count| (other, count) == (call, which));
            assert_eq!(scenario(&once), 0, "{call:?} {which}");
        }
    }
}

/// From some call on, every call of one kind is refused, and then of all kinds at once.
#[test]
fn calls_may_be_refused_for_good() {
    let lucky = Luck::new(|_, _| false);
    scenario(&lucky);
    for call in Call::ALL {
        for from in [1, 2, 3, lucky.asked(call) / 2] {
            let refused = scenario(&Luck::new(move |other, count| {
                other == call && count >= from
            }));
            assert!(refused == 0 || call == Call::Commit, "{call:?} from {from}");
        }
    }
    assert!(scenario(&Luck::new(|_, _| true)) > 0, "no room at all");
    for (every, from) in [(2, 0), (2, 1), (3, 0), (3, 1), (5, 2)] {
        scenario(&Luck::new(move |call, count| {
            (count + call as usize) % every == from
        }));
    }
}
