//! Follows a broker: a thread turns the program's limit into a limit of the heap, gives memory back
//! when the limit falls, and reports to the broker.
//!
//! The thread starts at the first collection, if the environment names a broker. The collector does
//! not stop it, because it touches no object.

use crate::spawn::spawn;
use crate::{heap, state};
use plimsoll_client::messages::{Report, Statistics};
use plimsoll_client::{Follower, Granted};
use plimsoll_collector::Collector;
use plimsoll_heap::Heap;
use plimsoll_kernel::clock;
use plimsoll_kernel::environment::variable;
use plimsoll_kernel::process::own;
use plimsoll_policy::footprint::{low_water, threshold};
use plimsoll_unit::SECOND;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Time between two looks: `NAP` while the program allocates, `LONG_NAP` while it does not, unless
/// news arrive.
const NAP: Duration = Duration::from_millis(50);
const LONG_NAP: Duration = Duration::from_millis(500);
/// Looks over which the memory outside the heap is taken as the maximum.
const WINDOW: usize = 8;
/// A release that did not help is not repeated before this many times its duration has passed.
const RESTS: u64 = 4;
static STARTED: AtomicBool = AtomicBool::new(false);
/// Whether this is a forked child: then the parent reports.
static CHILD: AtomicBool = AtomicBool::new(false);

/// Starts the thread if there is a broker to follow and the thread was not started yet. Called
/// before the world is stopped. `collect` collects, with a limit of the heap in bytes.
pub(crate) fn start(collect: fn(u64)) {
    let named = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let any = ["PLIMSOLL_PAGE", "PLIMSOLL_ID", "PLIMSOLL_SOCKET"];
    if !STARTED.swap(true, Relaxed) && any.into_iter().any(named) {
        let report = !CHILD.load(Relaxed);
        spawn(c"gc-plimsoll", move || {
            if let Some(follower) = Follower::of_environment("libgc", report) {
                Governor::new(follower, collect).run();
            }
        });
    }
}

/// Called in a child of fork, where the thread is missing. The child's next collection starts one
/// that reads the limit but does not report.
pub(crate) fn forked() {
    CHILD.store(true, Relaxed);
    STARTED.store(false, Relaxed);
}

/// The process's memory, in bytes.
#[derive(Clone, Copy, Default)]
struct Uses {
    /// Anonymous memory that is resident.
    resident: u64,
    /// The heap's part of it.
    heap: u64,
}

/// The last release, remembered so that one that did not help is not repeated. Times in
/// nanoseconds, the limit in bytes.
#[derive(Default)]
struct Released {
    /// When it ended.
    at: u64,
    /// How long it took.
    took: u64,
    /// The limit then.
    limit: u64,
}

/// The state of the thread that follows the broker, which alone uses it. Times in nanoseconds.
struct Governor {
    /// The broker.
    follower: Follower,
    /// Collects, with a limit of the heap in bytes.
    collect: fn(u64),
    /// Resident bytes beside the heap at the last looks.
    other: [u64; WINDOW],
    /// Number of looks so far.
    looks: usize,
    /// Bytes ever allocated, as of the last look.
    allocated: u64,
    /// When the last look was.
    looked: u64,
    /// Bytes allocated per second, smoothed.
    rate: u64,
    /// When the broker was last told about the heap.
    reported: u64,
    /// The last release.
    released: Released,
}

impl Governor {
    fn new(follower: Follower, collect: fn(u64)) -> Governor {
        Governor {
            follower,
            collect,
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

    /// Does one look, and what follows from it.
    fn step(&mut self) {
        self.measure_rate();
        let Some(granted) = self.follower.read() else {
            return bound(None);
        };
        let uses = self.look();
        let other = self.other(granted, uses);
        let heap = threshold(granted.limit).saturating_sub(other);
        bound(Some(heap));
        if uses.resident > threshold(granted.limit) && self.is_worth_a_release(granted.limit) {
            self.release(granted, other, uses);
        }
        self.report(granted, other);
    }

    fn measure_rate(&mut self) {
        let now = clock::now_ns();
        let allocated = heap::made().map_or(0, Heap::allocated);
        let passed = now.saturating_sub(self.looked).max(1);
        let bytes = allocated.saturating_sub(self.allocated);
        let fresh = (bytes as f64 * SECOND as f64 / passed as f64) as u64;
        let weight = passed.min(SECOND) as f64 / SECOND as f64;
        self.rate = (self.rate as f64 * (1.0 - weight) + fresh as f64 * weight) as u64;
        (self.looked, self.allocated) = (now, allocated);
    }

    /// Keeps no file open: programs close descriptors that they do not know.
    fn look(&self) -> Uses {
        let resident = own::anonymous().map_or(0, |anonymous| anonymous.resident);
        let gc = state::lock();
        let heap = gc.collector.resident().min(resident);
        Uses { resident, heap }
    }

    /// Bytes of the limit that this heap cannot have: the rest of the process, and the rest of its
    /// family.
    fn other(&mut self, granted: Granted, uses: Uses) -> u64 {
        let all = granted.uses.max(uses.resident);
        self.other[self.looks % WINDOW] = uses.resident - uses.heap;
        self.looks += 1;
        let own = self.other.iter().copied().max().unwrap_or(0);
        // The broker's count is older than ours, so only a count far above ours shows that there is
        // a family.
        let family = all.saturating_sub(uses.resident + uses.resident / 8);
        own + family
    }

    fn is_worth_a_release(&self, limit: u64) -> bool {
        let last = &self.released;
        let rested = clock::now_ns().saturating_sub(last.at) >= last.took.saturating_mul(RESTS);
        last.at == 0 || rested || limit < last.limit - last.limit / 32
    }

    /// Gives memory back down to the low water: free memory first; if that is not enough, collects,
    /// and pages out.
    fn release(&mut self, granted: Granted, other: u64, before: Uses) {
        let began = clock::now_ns();
        let goal = low_water(granted.limit);
        give_back();
        if self.look().resident > goal {
            (self.collect)(goal.saturating_sub(other));
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

    /// Reports the heap's state to the broker, about once a second.
    fn report(&mut self, granted: Granted, other: u64) {
        let now = clock::now_ns();
        if !self.follower.is_principal() || now.saturating_sub(self.reported) < SECOND {
            return;
        }
        self.reported = now;
        let report = {
            let gc = state::lock();
            let statistics = &gc.collector.statistics;
            let live = statistics.live();
            Report {
                live: Some(live),
                allocation_rate: Some(self.rate),
                collection_speed: statistics.speed(),
                floor: Some(other + live + live / 16 + (granted.limit - threshold(granted.limit))),
                reaction_ms: Some(self.released.took / 1_000_000),
                collections: Some(statistics.collections),
                collection_ms: Some(statistics.total.as_millis() as u64),
                collector: Some(told(&gc.collector)),
                ..Report::default()
            }
        };
        self.follower.report(&report);
    }
}

/// The statistics that `plimsoll top` shows.
fn told(collector: &Collector<'_>) -> Statistics {
    let microseconds = |time: Duration| u64::try_from(time.as_micros()).ok();
    let statistics = &collector.statistics;
    Statistics {
        heap: Some(collector.size() as u64),
        last_pause_us: microseconds(statistics.last_pause),
        longest_pause_us: microseconds(statistics.longest),
        faults: u64::try_from(statistics.faults).ok(),
        absent: Some(statistics.absent as u64),
        summaries: Some(statistics.summaries),
        retained: Some(collector.retained()),
        order: None,
    }
}

/// Limits the heap to `heap` bytes in memory from now on; `None` lifts that limit.
fn bound(heap: Option<u64>) {
    state::lock().collector.follow(heap);
}

fn give_back() {
    state::lock().collector.give_back();
}
