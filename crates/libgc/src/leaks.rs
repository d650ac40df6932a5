//! Finding mistakes of the program: objects that it lost without freeing them (`GC_find_leak`), and
//! objects of the debugging functions that it wrote beside of. What a collection finds is reported
//! when the lock is free again.
//!
//! Whoever looks for leaks takes every object through the lock, where it is written down; so
//! threads that are registered in this mode have no quick way to their bins
//! ([`current`](crate::thread::current)). Where the program begins to look later, the next
//! collection finds what it has: that empties the bins, and so ends the quick way of all threads.

use crate::collector::{self, Locked};
use crate::release::GC_free;
use crate::settings::GC_find_leak;
use crate::thread::{Threads, current, unknown};
use crate::{debug, environ, report};
use plimsoll_heap::{Bins, Central, Heap, KindId};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Most leaks, and most damaged objects, of one report; libgc has the same bounds.
const LEAKS: usize = 40;
const DAMAGES: usize = 20;

/// There is something to report; asked without the lock.
static FOUND: AtomicBool = AtomicBool::new(false);

/// What is watched, and what was found.
#[derive(Default)]
pub(crate) struct Leaks {
    /// Objects that were handed out and not freed.
    live: HashSet<usize>,
    /// What was handed out before the program looked for leaks is in `live`, too.
    whole: bool,
    lost: Vec<usize>,
    /// Starts of objects with a debugging header, and the word that was written over.
    damaged: Vec<(usize, usize)>,
}

/// Whether the program looks for leaks.
pub(crate) fn wanted() -> bool {
    GC_find_leak.get() != 0
}

impl Leaks {
    /// Writes down an object that is handed out.
    pub(crate) fn add(&mut self, start: usize) {
        self.live.insert(start);
    }

    /// Makes room before the world is stopped.
    pub(crate) fn prepare(&mut self, heap: &Heap, central: &Central) {
        self.lost.reserve(LEAKS);
        self.damaged.reserve(DAMAGES);
        if wanted() && !self.whole {
            let mut count = 0;
            heap.each_handed_out(central, |_| count += 1);
            self.live.reserve(count);
        }
    }

    /// Has all objects in `live`, if the program looks for leaks since a short time only. The world
    /// is stopped, the bins are those that it allocated from, and marks are as the last collection
    /// left them.
    pub(crate) fn begin(
        &mut self,
        heap: &Heap,
        central: &Central,
        threads: &Threads,
        spare: Option<&Bins>,
    ) {
        if self.whole || !wanted() {
            return;
        }
        self.whole = true;
        let live = &mut self.live;
        heap.each_handed_out(central, |slot| {
            if !heap.is_freed(slot) {
                live.insert(heap.start(slot));
            }
        });
        let mut take_out = |bins: &Bins| {
            bins.each_free(heap, |slot| {
                live.remove(&heap.start(slot));
            });
        };
        threads.each_bins(&mut take_out);
        spare.into_iter().for_each(take_out);
    }

    /// Looks at what is not marked, and at what is written behind objects; all is marked, the world
    /// is stopped.
    pub(crate) fn look(&mut self, heap: &Heap, central: &Central) {
        let Leaks {
            live,
            lost,
            damaged,
            ..
        } = self;
        if debug::is_used() {
            heap.each_marked(central, |slot| {
                let start = heap.start(slot);
                if damaged.len() < DAMAGES
                    && let Some(word) = debug::damage(start, heap.size(slot))
                {
                    damaged.push((start, word));
                }
            });
        }
        live.retain(|&start| {
            let Some(slot) = heap.slot(start) else {
                return false;
            };
            if heap.is_marked(slot) {
                return true;
            }
            let reported = lost.len() < LEAKS;
            if reported {
                // It stays until it is reported.
                heap.set_mark(slot);
                lost.push(start);
            }
            reported
        });
        lost.sort_unstable();
        if !lost.is_empty() || !damaged.is_empty() {
            FOUND.store(true, Relaxed);
        }
    }
}

/// A collection at the end of the program, for what was lost since the last.
pub(crate) fn look_at_exit() {
    extern "C" fn at_exit() {
        if wanted() {
            unknown::let_anybody(|| crate::collect::GC_gcollect());
        }
    }
    // SAFETY: a function that lives as long as the library.
    unsafe { libc::atexit(at_exit) };
}

/// An object that is freed is no leak. Its place is not to be handed out again without being written down.
pub(crate) fn forget(start: usize) {
    current::no_quick();
    collector::lock().leaks.live.remove(&start);
}

/// Says what was found, without the lock, and frees what was lost.
#[inline]
pub(crate) fn report() {
    if FOUND.load(Relaxed) {
        report_all(collector::lock());
    }
}

#[cold]
fn report_all(mut gc: Locked) {
    if !FOUND.swap(false, Relaxed) {
        return;
    }
    let heap = gc.heap;
    let lost = std::mem::take(&mut gc.leaks.lost);
    let damaged = std::mem::take(&mut gc.leaks.damaged);
    drop(gc);
    if !damaged.is_empty() {
        report::complain(&format!(
            "GC_check_heap_block: found {} smashed heap objects:\n",
            damaged.len()
        ));
    }
    for (start, word) in &damaged {
        report::complain(&format!(
            "{word:#x} in or near object at {}\n",
            debug::describe(*start)
        ));
    }
    if !lost.is_empty() {
        report::complain(&format!("Found {} leaked objects:\n", lost.len()));
    }
    for &start in &lost {
        let text = if debug::has_header(start) {
            format!("{}\n", debug::describe(start))
        } else {
            let (size, kind) = heap
                .slot(start)
                .map_or((0, KindId(0)), |slot| (heap.size(slot), heap.kind_of(slot)));
            let what = if kind == crate::kinds::PTRFREE {
                "atomic"
            } else {
                "composite"
            };
            format!("object at {start:#x} of appr. {size} bytes ({what})\n")
        };
        report::complain(&text);
        // SAFETY: nothing refers to it, and it was not freed.
        unsafe { GC_free(start as *mut libc::c_void) };
    }
    if environ::is_set("GC_ABORT_ON_LEAK") {
        report::abort(c"Objects were lost or damaged");
    }
}
