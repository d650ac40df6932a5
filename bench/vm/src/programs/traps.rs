//! Programs for tests: each steps into one of the traps that a heap's limit can set.

use super::{CHURNED, Work, churn, keep_one, sleep, tree};
use crate::collection::out_of_memory;
use crate::heap::control;
use crate::object::Shape;
use crate::thread::Attached;
use crate::vm::mmtk;
use crate::world;
use plimsoll_mmtk::Bytes;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often collections are asked for in [`foreign`], at least.
const ASKED: u64 = 1000;
/// Bytes that each phase of [`moved`] allocates.
const PHASE: u64 = 150 << 20;

fn used() -> u64 {
    mmtk().get_plan().get_used_pages() as u64 * 4096
}

/// Another thread moves the bound while the program allocates. Tells the most that was in use under
/// each bound, some time after it was set, and what was resident at the end.
pub(crate) fn moved(bounds: &[u64]) -> Value {
    let done = AtomicBool::new(false);
    let phases = std::thread::scope(|scope| {
        let done = &done;
        let worker = scope.spawn(|| {
            let mut thread = Attached::new();
            churn(&mut thread, || done.load(Ordering::Relaxed)).is_some()
        });
        let phase = |bound: &u64| {
            let Some(control) = control() else { return 0 };
            control.bound(Bytes(*bound));
            // The heap that was larger before shrinks by the next collection.
            let begin = control.figures().collections;
            while control.figures().collections < begin + 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let from = CHURNED.load(Ordering::Relaxed);
            let mut most = 0;
            while CHURNED.load(Ordering::Relaxed) < from + PHASE {
                most = most.max(used());
                std::thread::sleep(Duration::from_micros(100));
            }
            most
        };
        let phases: Vec<u64> = bounds.iter().map(phase).collect();
        done.store(true, Ordering::Relaxed);
        (phases, worker.join().unwrap_or(false))
    });
    let resident = crate::status("VmRSS:");
    json!({ "most": phases.0, "ended": phases.1, "resident": resident })
}

/// Allocates objects that live until memory is out. Tells how much there was, and that the program
/// could go on.
pub(crate) fn fill() -> Value {
    let mut thread = Attached::new();
    let record = Shape {
        slots: 1,
        words: 1000,
    };
    let mut bytes = 0u64;
    let mut last: Option<usize> = None;
    keep_one(&mut thread);
    while let Some(object) = thread.allocate(record) {
        bytes += record.bytes() as u64;
        match last {
            None => last = Some(thread.push(object)),
            Some(place) => {
                let before = thread.root(place);
                thread.write(object, 0, Some(before));
                thread.forget(place);
                thread.push(object);
            }
        }
    }
    thread.forget(1);
    let goes_on = tree(&mut thread, 10).is_some();
    json!({ "bytes": bytes, "out_of_memory": out_of_memory(), "goes_on": goes_on })
}

/// One large object in a heap whose limit is small.
pub(crate) fn large(bytes: u64) -> Value {
    let mut thread = Attached::new();
    keep_one(&mut thread);
    let small = tree(&mut thread, 12).is_some();
    collect_here(&thread);
    let before = control().map_or(0, |control| control.limit().0);
    let words = u32::try_from(bytes / 8).unwrap_or(u32::MAX);
    let object = thread.allocate(Shape { slots: 0, words });
    json!({ "small": small, "let_in": object.is_some(), "limit_before": before })
}

/// Collects a heap in which nothing lives, or with `keeps` one object. Tells the pages in use, as
/// MMTk counts them.
pub(crate) fn emptied(keeps: bool) -> Value {
    let mut thread = Attached::new();
    let small = tree(&mut thread, 12).is_some();
    if keeps {
        keep_one(&mut thread);
    }
    collect_here(&thread);
    json!({ "small": small, "used": mmtk().get_plan().get_used_pages() as u64 })
}

fn collect_here(thread: &Attached) {
    mmtk().handle_user_collection_request(thread.name(), true, true);
}

/// Threads that are not of the program ask for collections without pause, while two of the program's
/// threads allocate `bytes`.
pub(crate) fn foreign(bytes: u64) -> Value {
    let (done, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let work = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if let Some(control) = control() {
                        control.collect();
                    }
                    asked.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
        }
        // The threads that ask may get a processor late.
        let stop =
            || CHURNED.load(Ordering::Relaxed) >= bytes && asked.load(Ordering::Relaxed) >= ASKED;
        let workers: Vec<_> = (0..2)
            .map(|_| scope.spawn(move || churn(&mut Attached::new(), stop).is_some()))
            .collect();
        let ended = workers.into_iter().all(|one| one.join().unwrap_or(false));
        done.store(true, Ordering::Relaxed);
        ended
    });
    json!({ "ended": work, "asked": asked.load(Ordering::Relaxed) })
}

/// The program's only thread is idle while a collection is wanted; then it allocates again.
pub(crate) fn idle() -> Value {
    let mut thread = Attached::new();
    let Some(control) = control() else {
        return json!(null);
    };
    control.collect();
    sleep(Duration::from_millis(200));
    let while_idle = control.figures().wanted;
    mmtk::memory_manager::gc_poll(mmtk(), thread.name());
    let by_poll = control.figures().wanted;
    control.collect();
    let before = control.figures().wanted;
    let mut rounds = 0;
    let alive = churn(&mut thread, || {
        rounds += 1;
        rounds > 100
    });
    json!({
        "while_idle": while_idle,
        "by_poll": by_poll,
        "by_allocation": control.figures().wanted - before,
        "alive": alive.is_some(),
    })
}

/// Whether MMTk's own question for the maximum panics, and the maximum by ours.
pub(crate) fn maximum() -> Value {
    let option = &mmtk().get_options().gc_trigger;
    std::panic::set_hook(Box::new(|_| {}));
    let asked = std::panic::catch_unwind(|| option.max_heap_size());
    let _ = std::panic::take_hook();
    json!({
        "panics": asked.is_err(),
        "max": control().map(|control| control.max().0),
    })
}

/// Allocates this much before MMTk can collect, while a broker has a small bound for it and wants
/// collections.
pub(crate) fn early(bytes: u64) {
    if let Some(control) = control() {
        control.bound(Bytes::mib(1));
        control.collect();
    }
    let mut thread = Attached::new();
    let _ = churn(&mut thread, || CHURNED.load(Ordering::Relaxed) >= bytes);
}

/// Allocates this much under a small bound, and keeps nothing: for a plan that never collects.
pub(crate) fn spend(bytes: u64) -> Work {
    if let Some(control) = control() {
        control.bound(Bytes::mib(1));
    }
    let mut thread = Attached::new();
    let spent = churn(&mut thread, || CHURNED.load(Ordering::Relaxed) >= bytes);
    world::safepoint();
    Work {
        checked: CHURNED.load(Ordering::Relaxed) / bytes.max(1),
        failed: u64::from(spent.is_none()),
    }
}
