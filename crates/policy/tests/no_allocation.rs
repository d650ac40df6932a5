//! Checks with a counting allocator that a decision does not allocate.

use plimsoll_policy::ownership::{Ownership, Sample, Settings};
use plimsoll_policy::phases::{Larf, ReadyQueue, Ties, Used};
use plimsoll_policy::shares::{Collector, Principal, Shares};
use plimsoll_policy::sizing::{DropIn, DropInEnough, Ended, HotSpot, Sizing};
use plimsoll_unit::{Bytes, Nanos};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// Counts this thread only, because the thread of the test harness may allocate at any time.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: hands everything to the system's allocator unchanged; only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs a heap that is stalled now and then.
fn size(sizing: &mut impl Sizing, round: u64) {
    sizing.bounded(Bytes(1 << 30));
    sizing.ended(&Ended {
        now: Nanos(round << 30),
        cost: Nanos(1 << 20),
        live: Bytes(1 << 28),
        allocated: Bytes(round << 27),
        growth: Bytes(1 << 27),
        stalls: round % 2,
        ..Ended::default()
    });
    sizing.clone().bounded(Bytes(1 << 29));
    assert!(sizing.size() > Bytes::ZERO);
}

/// Dispatches threads that block, wake, end and come again.
fn dispatch(queue: &mut ReadyQueue, round: u64) {
    for turn in 0..100 {
        let thread = queue.dispatch().expect("threads are ready");
        let bytes = (turn * 37 + round) % 1000;
        if turn % 9 == 0 {
            queue.leave(thread);
            let again = queue.admit(0);
            queue.ready(again, Used::default());
        }
        queue.ready(
            thread,
            Used {
                time: Nanos(900),
                bytes: Bytes(bytes),
            },
        );
    }
}

#[test]
fn decisions_allocate_nothing() {
    let principals: Vec<Principal> = (0..2000u32)
        .map(|i| Principal {
            parent: (i % 7 > 0).then_some(i / 7),
            weight: i % 100 + 1,
            priority: (i % 3) as i32,
            own_weight: 1,
            own_priority: (i % 2) as i32,
            uses: u64::from(i) << 12,
            working_set: u64::from(i % 50) << 12,
            trend: i64::from(i % 9) - 4,
            demand: u64::from(i % 1000) << 16,
            max: if i % 5 == 0 { 1 << 22 } else { u64::MAX },
            last_limit: 0,
            last_target: 0,
            reach: u64::MAX,
            claims: 0,
            slight: 0,
            least: 0,
            waits: true,
            modest: u64::MAX,
            collector: Collector {
                live: u64::from(i),
                allocation_rate: 1 << 20,
                collection_speed: 1 << 28,
            },
            lasts_ms: 20_000,
            resizing_ms: 0,
            apart: false,
        })
        .collect();
    let mut shares = Shares::with_capacity(principals.len());
    let mut books = Ownership::new(Settings::default());
    let samples = [1, 2, 3].map(|principal| Sample {
        principal,
        referenced: Bytes(1 << 19),
        waited: Nanos(1 << 27),
    });
    let (mut enough, mut drop_in) = (DropInEnough::default(), DropIn::default());
    let mut hotspot = HotSpot::default();
    let mut queue = ReadyQueue::new(Box::new(Larf::new(Nanos(1000), Ties::Newest)), 2);
    for priority in 0..50 {
        let thread = queue.admit(priority % 3);
        queue.ready(thread, Used::default());
    }
    let before = ALLOCATIONS.get();
    for round in 0..5u64 {
        shares.decide(&principals, Bytes(1 << (20 + round * 4)));
        shares.victim(&principals);
        books.measured(round, Bytes::mib(1), &samples, round << 61);
        books.next_epoch(round << 50);
        dispatch(&mut queue, round);
        size(&mut enough, round);
        size(&mut drop_in, round);
        size(&mut hotspot, round);
    }
    assert_eq!(ALLOCATIONS.get(), before);
}
