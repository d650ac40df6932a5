//! Follows a broker: a thread turns the program's limit into a limit of the heap, gives memory back
//! when the limit falls, and reports to the broker.
//!
//! The thread starts at the first collection, if the environment names a broker. The collector does
//! not stop it, because it touches no object.

use crate::collect::{self, Why, collect};
use crate::collector;
use crate::footprint::{GRANTED, NOT_GRANTED};
use crate::helpers::spawn;
use crate::thread::blocking::with_registers;
use plimsoll_client::govern::{Governor, Own};
use plimsoll_client::messages::Report;
use plimsoll_client::{Follower, Granted};
use plimsoll_heap::SUPERPAGE;
use plimsoll_kernel::clock;
use plimsoll_kernel::environment::variable;
use plimsoll_kernel::process::own;
use plimsoll_unit::{Bytes, MIB, Nanos};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A collection makes room for at least this much of the live data to be allocated, one part in `GUARD_PART`.
const GUARD_PART: u64 = 16;

static STARTED: AtomicBool = AtomicBool::new(false);
/// Whether this is a forked child: then the parent reports.
static CHILD: AtomicBool = AtomicBool::new(false);

/// Starts the thread if there is a broker to follow and the thread was not started yet. Called
/// before the world is stopped.
pub(crate) fn start() {
    let named = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let any = ["PLIMSOLL_PAGE", "PLIMSOLL_ID", "PLIMSOLL_SOCKET"];
    if !STARTED.swap(true, Relaxed) && any.into_iter().any(named) {
        let report = !CHILD.load(Relaxed);
        spawn(c"gc-plimsoll", move || {
            if let Some(follower) = Follower::of_environment("libgc", report) {
                Companion::new(follower).run();
            }
        });
    }
}

/// Called in a child of fork, where the thread is missing. The child's next collection starts one
/// that reads the limit but does not report.
pub(crate) fn forked() {
    CHILD.store(true, Relaxed);
    STARTED.store(false, Relaxed);
    GRANTED.store(NOT_GRANTED, Relaxed);
}

/// The process's memory.
#[derive(Clone, Copy)]
struct Uses {
    /// Anonymous memory that is resident.
    resident: Bytes,
    /// The heap's part of it.
    heap: Bytes,
    /// What lived after the last collection.
    live: Bytes,
}

/// The thread that follows the broker, which alone uses this.
struct Companion {
    /// The broker.
    follower: Follower,
    /// What its numbers mean here.
    governor: Governor,
}

impl Companion {
    fn new(follower: Follower) -> Companion {
        Companion {
            follower,
            governor: Governor::new(now(), allocated()),
        }
    }

    fn run(&mut self) {
        loop {
            self.governor.measure(now(), allocated());
            let granted = self.follower.read();
            match granted {
                Some(granted) => self.step(granted),
                None => {
                    GRANTED.store(NOT_GRANTED, Relaxed);
                    bound(None);
                }
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
        GRANTED.store(govern.heap_limit.0, Relaxed);
        bound(Some(govern.heap_limit.0));
        if let Some(goal) = govern.release_to {
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
        if look().resident > goal + beside {
            GRANTED.store(goal.0, Relaxed);
            collect_now();
        }
        let ended = now();
        let after = look().resident;
        self.governor.released(began, ended, after);
        self.follower.released((before - after).0);
    }
}

fn now() -> Nanos {
    Nanos(clock::now_ns())
}

/// Bytes ever allocated.
fn allocated() -> Bytes {
    Bytes(collector::heap().allocated())
}

/// Keeps no file open: programs close descriptors that they do not know.
fn look() -> Uses {
    let resident = own::anonymous().map_or(0, |anonymous| anonymous.resident);
    let gc = collector::lock();
    let heap = gc.surroundings.resident(&gc.central).min(resident);
    Uses {
        resident: Bytes(resident),
        heap: Bytes(heap),
        live: Bytes(gc.stats.live()),
    }
}

/// A report with what the collector knows.
fn with_collector(report: Report) -> Report {
    let gc = collector::lock();
    let live = gc.stats.live();
    let told = gc
        .stats
        .told(gc.pace.size(&gc.central), gc.pace.retained(live));
    Report {
        live: Some(live),
        collection_speed: gc.stats.speed(),
        collections: Some(gc.stats.collections()),
        collection_ms: Some(gc.stats.milliseconds()),
        collector: Some(told),
        ..report
    }
}

/// Limits the heap to `heap` bytes in memory from now on; `None` lifts that limit.
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

/// The program's own threads learn of due finalizers when they next allocate.
fn collect_now() {
    let mut gc = collector::lock();
    if collect::allowed() {
        with_registers(|here| collect(&mut gc, Why::Limit, here));
    }
}
