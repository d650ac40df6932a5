//! Tables of metadata: they are committed for the committed part of the heap, and not much further.

use crate::kernel::Fake;
use crate::world::World;
use plimsoll_heap::mark::{Marker, NoTracer};
use plimsoll_heap::os::{Call, FaultInjection, Linux};
use plimsoll_heap::{Exhausted, Heap, Kind, SUPERPAGE};
use plimsoll_unit::index::MIB;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const MOST: usize = 4096 * MIB;

/// Bytes of the tables for a heap of `bytes` bytes.
fn tables(bytes: usize) -> usize {
    let bits: usize = Heap::metadata().map(|(_, bits, _)| bits).sum();
    bytes / SUPERPAGE * bits / 8
}

#[test]
fn tables_grow_with_the_heap_in_few_calls() {
    let (fake, pages) = Fake::new(MOST);
    let mut world = World::over(Box::new(fake), MOST);
    let most = |heap: usize| tables(heap + heap / 8 + 64 * MIB) + MIB;
    let begun = pages.tables.load(SeqCst);
    assert!(begun > 0 && begun <= 2 * MIB, "{begun} to begin with");
    let calls = pages.lengthened.load(SeqCst);
    for size in [1, 60, 1, 200, 1, 700] {
        world
            .heap
            .allocate_large(&mut world.central, world.opaque, size * MIB, false)
            .unwrap();
        let (heap, tables) = (world.heap.range().len(), pages.tables.load(SeqCst));
        assert!(tables <= most(heap), "{tables} for {heap}");
    }
    assert!(pages.lengthened.load(SeqCst) - calls <= 3 * 4);
    // In small steps.
    let calls = pages.lengthened.load(SeqCst);
    for _ in 0..20_000 {
        world.allocate(world.opaque, SUPERPAGE).unwrap();
    }
    assert!(pages.lengthened.load(SeqCst) - calls <= 5 * 3);
}

/// If a table cannot be made longer, there is no room; a later attempt may succeed.
#[test]
fn tables_may_be_refused() {
    for which in 0..30 {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let (fake, pages) = Fake::new(512 * MIB);
        let os = FaultInjection::new(fake, move |call| {
            // These calls come after the heap's start, which makes five calls for tables. Two in a
            // row fail, so that a smaller request is refused as well, where there is one.
            call == Call::Commit && (6 + which..8 + which).contains(&counted.fetch_add(1, SeqCst))
        });
        let mut world = World::over(Box::new(os), 512 * MIB);
        let mut marker = Marker::with_room(world.heap, &NoTracer, 10).unwrap();
        let mut refused = 0;
        for at in 0..300 {
            match world.allocate(world.words, MIB) {
                Ok(start) => {
                    world.write(start, MIB / 8 - 1, start);
                    world.roots.extend((at % 3 == 0).then_some(start));
                }
                Err(why) => {
                    assert_eq!(why, Exhausted::Memory);
                    refused += 1;
                }
            }
        }
        assert!(refused <= 2, "{refused} when {which} is refused");
        assert!(asked.load(SeqCst) > 20);
        world.collect(&mut marker);
        drop(marker);
        // SAFETY: the world goes with this.
        unsafe { pages.unmap() };
    }
}

/// With the superpages of a larger heap, a smaller one would read what it did not map.
#[test]
#[should_panic(expected = "a `Central` of its own")]
fn a_heap_takes_no_superpages_of_another() {
    let new = |bytes| Heap::new(Box::new(Linux::new()), bytes).unwrap();
    let ((large, mut superpages), (small, _)) = (new(64 * MIB), new(16 * MIB));
    let kind = large.add_kind(Kind::WORDS).unwrap();
    large
        .allocate_large(&mut superpages, kind, 32 * MIB, false)
        .unwrap();
    small.each_marked(&superpages, |_| ());
}
