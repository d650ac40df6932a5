//! Follows a broker: a thread that turns the program's limit into the heap's, gives memory back
//! when that falls, and reports.
//!
//! It is there from the first collection on where the environment names a broker. The collector
//! does not stop it: it touches no object.

use crate::collect::{self, Why, collect};
use crate::collector;
use crate::footprint::{GRANTED, NOT_GRANTED};
use crate::helpers::spawn;
use crate::thread::blocking::with_registers;
use plimsoll_client::messages::Report;
use plimsoll_client::{Follower, Granted};
use plimsoll_heap::SUPERPAGE;
use plimsoll_kernel::clock;
use plimsoll_kernel::environment::variable;
use plimsoll_kernel::process::Process;
use plimsoll_policy::footprint::{low_water, threshold};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Between two looks: while the program allocates, and while it does not but for news.
const NAP: Duration = Duration::from_millis(50);
const LONG_NAP: Duration = Duration::from_millis(500);
/// How many looks back what is not heap is taken from: the most of them.
const WINDOW: usize = 8;
/// A release that did not help is not repeated before so many times its length has passed.
const RESTS: u64 = 4;

static STARTED: AtomicBool = AtomicBool::new(false);
/// This is a forked child, whose parent reports.
static CHILD: AtomicBool = AtomicBool::new(false);

/// Starts the thread, where there is a broker to follow and none was started. Before the world is stopped.
pub(crate) fn start() {
    let named = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let any = ["PLIMSOLL_PAGE", "PLIMSOLL_ID", "PLIMSOLL_SOCKET"];
    if !STARTED.swap(true, Relaxed) && any.into_iter().any(named) {
        let report = !CHILD.load(Relaxed);
        spawn("gc-plimsoll", move || {
            if let Some(follower) = Follower::of_environment("libgc", report) {
                Governor::new(follower).run();
            }
        });
    }
}

/// In a child of fork the thread is missing: its next collection starts one that only reads.
pub(crate) fn forked() {
    CHILD.store(true, Relaxed);
    STARTED.store(false, Relaxed);
    GRANTED.store(NOT_GRANTED, Relaxed);
}

/// What of the process is where, in bytes.
#[derive(Clone, Copy, Default)]
struct Uses {
    /// In memory, without files.
    resident: u64,
    /// Of this, heap.
    heap: u64,
}

/// A release, so that a hopeless one is not repeated.
#[derive(Default)]
struct Released {
    at: u64,
    took: u64,
    limit: u64,
}

struct Governor {
    follower: Follower,
    own: Option<Process>,
    other: [u64; WINDOW],
    looks: usize,
    allocated: u64,
    looked: u64,
    /// Bytes allocated in a second, smoothed.
    rate: u64,
    reported: u64,
    released: Released,
}

impl Governor {
    fn new(follower: Follower) -> Governor {
        Governor {
            follower,
            own: Process::own().ok(),
            other: [0; WINDOW],
            looks: 0,
            allocated: 0,
            looked: clock::now_ns(),
            rate: 0,
            reported: 0,
            released: Released::default(),
        }
    }

    fn run(&mut self) {
        loop {
            self.step();
            let nap = if self.rate > 0 { NAP } else { LONG_NAP };
            self.follower.wait(nap);
        }
    }

    /// One look, and what follows from it.
    fn step(&mut self) {
        self.measure_rate();
        let Some(granted) = self.follower.read() else {
            GRANTED.store(NOT_GRANTED, Relaxed);
            return bound(None);
        };
        let uses = self.look();
        let other = self.other(granted, uses);
        let heap = threshold(granted.limit).saturating_sub(other);
        GRANTED.store(heap, Relaxed);
        bound(Some(heap));
        if uses.resident > threshold(granted.limit) && self.is_worth_a_release(granted.limit) {
            self.release(granted, other, uses);
        }
        self.report(granted, other);
    }

    fn measure_rate(&mut self) {
        let now = clock::now_ns();
        let allocated = collector::heap().allocated();
        let passed = now.saturating_sub(self.looked).max(1);
        let bytes = allocated.saturating_sub(self.allocated);
        let fresh = (bytes as f64 * SECOND as f64 / passed as f64) as u64;
        let weight = passed.min(SECOND) as f64 / SECOND as f64;
        self.rate = (self.rate as f64 * (1.0 - weight) + fresh as f64 * weight) as u64;
        (self.looked, self.allocated) = (now, allocated);
    }

    fn look(&self) -> Uses {
        let own = self.own.as_ref().and_then(|own| own.memory_fast().ok());
        let resident = own.unwrap_or_default().anon();
        let gc = collector::lock();
        let heap = gc.surroundings.resident(&gc.central).min(resident);
        Uses { resident, heap }
    }

    /// What of the limit is not this heap's: what else the process has, and what its family has.
    fn other(&mut self, granted: Granted, uses: Uses) -> u64 {
        let all = granted.uses.max(uses.resident);
        self.other[self.looks % WINDOW] = uses.resident - uses.heap;
        self.looks += 1;
        let own = self.other.iter().copied().max().unwrap_or(0);
        // The broker's count is older than ours, so only what is far beyond is a family.
        let family = all.saturating_sub(uses.resident + uses.resident / 8);
        own + family
    }

    fn is_worth_a_release(&self, limit: u64) -> bool {
        let last = &self.released;
        let rested = clock::now_ns().saturating_sub(last.at) >= last.took.saturating_mul(RESTS);
        last.at == 0 || rested || limit < last.limit - last.limit / 32
    }

    /// Gives memory back down to the low water: what is free first, then what a collection finds
    /// and pages out.
    fn release(&mut self, granted: Granted, other: u64, before: Uses) {
        let began = clock::now_ns();
        let goal = low_water(granted.limit);
        give_back();
        if self.look().resident > goal {
            GRANTED.store(goal.saturating_sub(other), Relaxed);
            collect_now();
        }
        let now = clock::now_ns();
        self.released = Released {
            at: now,
            took: now - began,
            limit: granted.limit,
        };
        let after = self.look();
        self.follower
            .released(before.resident.saturating_sub(after.resident));
    }

    /// Tells the broker what the heap is like, about once a second.
    fn report(&mut self, granted: Granted, other: u64) {
        let now = clock::now_ns();
        if !self.follower.is_principal() || now.saturating_sub(self.reported) < SECOND {
            return;
        }
        self.reported = now;
        let report = {
            let gc = collector::lock();
            let live = gc.stats.live();
            Report {
                live: Some(live),
                allocation_rate: Some(self.rate),
                collection_speed: gc.stats.speed(),
                floor: Some(other + live + live / 16 + (granted.limit - threshold(granted.limit))),
                reaction_ms: Some(self.released.took / 1_000_000),
                collections: Some(gc.stats.collections()),
                collection_ms: Some(gc.stats.milliseconds()),
                collector: Some(
                    gc.stats
                        .told(gc.pace.size(&gc.central), gc.pace.retained(live)),
                ),
                ..Report::default()
            }
        };
        self.follower.report(&report);
    }
}

/// The heap may have so many bytes in memory, from now on.
fn bound(heap: Option<u64>) {
    let mut gc = collector::lock();
    let state = &mut *gc;
    let absent = state.surroundings.absent();
    let (heap, cliff) = match heap.map(|heap| state.surroundings.granted(&state.central, heap)) {
        Some((heap, cliff)) => (Some(heap), cliff),
        None => (None, false),
    };
    let superpages = heap.map(|heap| (heap as usize / SUPERPAGE).saturating_add(absent));
    state.pace.follow(&mut state.central, superpages, cliff);
}

fn give_back() {
    let mut gc = collector::lock();
    let heap = gc.heap;
    let state = &mut *gc;
    state.central.give_back(heap, 0);
    state.surroundings.gave_all();
}

/// What finalizers are due the program's own threads find out when they allocate.
fn collect_now() {
    let mut gc = collector::lock();
    if collect::allowed() {
        with_registers(|here| collect(&mut gc, Why::Limit, here));
    }
}
