//! Follows a broker: a thread turns the program's limit into a limit of the heap, gives memory back
//! when the limit falls, and reports to the broker.
//!
//! The thread starts at the first collection, if the environment names a broker. The collector does
//! not stop it, because it touches no object.

use crate::spawn::spawn;
use crate::{heap, state};
use plimsoll_client::govern::{Governor, Own};
use plimsoll_client::messages::{Report, Statistics};
use plimsoll_client::{Follower, Granted};
use plimsoll_collector::Collector;
use plimsoll_heap::Heap;
use plimsoll_kernel::clock;
use plimsoll_kernel::environment::variable;
use plimsoll_kernel::process::own;
use plimsoll_unit::{Bytes, MIB, Nanos};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// A collection makes room for at least this much of the live data to be allocated, one part in `GUARD_PART`.
const GUARD_PART: u64 = 16;

/// After a release in which the program did not allow a collection, the next waits for this long.
const REFUSED: Nanos = Nanos::millis(500);

static STARTED: AtomicBool = AtomicBool::new(false);
/// Whether this is a forked child: then the parent reports.
static CHILD: AtomicBool = AtomicBool::new(false);

/// Starts the thread if there is a broker to follow and the thread was not started yet. Called
/// before the world is stopped. `collect` collects, with a limit of the heap in bytes.
pub(crate) fn start(collect: fn(Bytes) -> bool) {
    let named = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let any = ["PLIMSOLL_PAGE", "PLIMSOLL_ID", "PLIMSOLL_SOCKET"];
    if !STARTED.swap(true, Relaxed) && any.into_iter().any(named) {
        let report = !CHILD.load(Relaxed);
        spawn(c"gc-plimsoll", move || {
            if let Some(follower) = Follower::of_environment("libgc", report) {
                Companion::new(follower, collect).run();
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

/// The process's memory.
#[derive(Clone, Copy)]
struct Uses {
    /// Anonymous memory that is resident.
    resident: Bytes,
    /// The heap's part of it.
    heap: Bytes,
    /// Bytes alive after the last collection.
    live: Bytes,
}

/// The thread that follows the broker, which alone uses this.
struct Companion {
    /// The broker.
    follower: Follower,
    /// Collects, with a limit of the heap in bytes. False if the program does not allow it now.
    collect: fn(Bytes) -> bool,
    /// The rule for its numbers.
    governor: Governor,
    /// No release before then: the program did not allow the last one to collect.
    not_before: Nanos,
}

impl Companion {
    fn new(follower: Follower, collect: fn(Bytes) -> bool) -> Companion {
        Companion {
            follower,
            collect,
            governor: Governor::new(now(), allocated()),
            not_before: Nanos::ZERO,
        }
    }

    fn run(&mut self) {
        loop {
            self.governor.measure(now(), allocated());
            let granted = self.follower.read();
            match granted {
                Some(granted) => self.step(granted),
                None => bound(None),
            }
            let is_heard = self.follower.is_principal();
            let pause = self.governor.pause(granted.is_some(), is_heard);
            self.follower.wait(pause.duration());
        }
    }

    /// Does one look, and what follows from it.
    fn step(&mut self, granted: Granted) {
        let uses = look();
        let guard = (uses.live / GUARD_PART).max(Bytes(MIB));
        let own = Own {
            resident: uses.resident,
            beside: uses.resident - uses.heap,
            needs: uses.live + guard,
            guard,
        };
        let govern = self.governor.step(now(), granted, own);
        bound(Some(govern.heap_limit));
        if let Some(goal) = govern.release_to.filter(|_| now() >= self.not_before) {
            self.release(goal, own.beside, uses.resident);
        }
        if let Some(report) = govern.report.filter(|_| self.follower.is_principal()) {
            self.follower.report(&with_collector(report));
        }
    }

    /// Gives memory back until the heap has `goal`: free memory first; if that is not enough, collects, and
    /// pages out.
    fn release(&mut self, goal: Bytes, beside: Bytes, before: Bytes) {
        let began = now();
        give_back();
        let tried = look().resident <= goal + beside || (self.collect)(goal);
        let ended = now();
        let after = look().resident;
        if tried {
            self.governor.released(began, ended, after);
        } else {
            // It says nothing about the bytes that a release would give.
            self.not_before = ended + REFUSED;
        }
        self.follower.released(before - after);
    }
}

fn now() -> Nanos {
    clock::now()
}

/// The memory ever allocated.
fn allocated() -> Bytes {
    heap::made().map_or(Bytes::ZERO, Heap::allocated)
}

/// Keeps no file open: programs close descriptors that they do not know.
fn look() -> Uses {
    let resident = own::anonymous().map_or(Bytes::ZERO, |anonymous| anonymous.resident);
    let gc = state::lock();
    let heap = gc.collector.resident().min(resident);
    Uses {
        resident,
        heap,
        live: gc.collector.statistics.live(),
    }
}

/// A report with what the collector knows.
fn with_collector(report: Report) -> Report {
    let gc = state::lock();
    let statistics = &gc.collector.statistics;
    Report {
        live: Some(statistics.live().0),
        collection_speed: statistics.speed(),
        collections: Some(statistics.collections),
        collection_ms: Some(statistics.total.as_millis() as u64),
        collector: Some(told(&gc.collector)),
        ..report
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
        retained: Some(collector.retained().0),
        order: None,
    }
}

/// Limits the heap to `heap` in memory from now on; `None` lifts that limit.
fn bound(heap: Option<Bytes>) {
    state::lock().collector.follow(heap);
}

fn give_back() {
    state::lock().collector.give_back();
}
