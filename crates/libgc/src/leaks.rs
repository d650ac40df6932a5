//! Finding mistakes of the program: objects that it lost without freeing them (`GC_find_leak`), and
//! objects of the debugging functions whose bounds it overwrote. What a collection finds is
//! reported once the lock is free again.
//!
//! While the program looks for leaks, every object is allocated with the lock and recorded; so
//! threads that are registered in this mode have no fast path to their bins
//! (`crate::thread::current`). If the program begins to look later, the next collection
//! records all existing objects. It also empties the bins, which ends the fast path of all threads.

use crate::release::GC_free;
use crate::settings::GC_find_leak;
use crate::state::{self, Locked};
use crate::thread::{Threads, current, unknown};
use crate::{debug, environ, report};
use plimsoll_heap::{Bins, Central, Heap, KindId};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The most leaks, and the most damaged objects, of one report; libgc has the same bounds.
const LEAKS: usize = 40;
const DAMAGES: usize = 20;

/// Whether there is something to report; read without the lock.
static FOUND: AtomicBool = AtomicBool::new(false);

/// The recorded objects, and what was found. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Leaks {
    /// Objects that were allocated and not freed.
    live: HashSet<usize>,
    /// Whether `live` also contains the objects allocated before the program began to look for
    /// leaks.
    whole: bool,
    lost: Vec<usize>,
    /// For each damaged object with a debugging header: its start, and the address of the
    /// overwritten word.
    damaged: Vec<(usize, usize)>,
}

/// Whether the program looks for leaks.
pub(crate) fn wanted() -> bool {
    GC_find_leak.get() != 0
}

impl Leaks {
    /// Records a newly allocated object.
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

    /// Records all existing objects, if the program began to look for leaks since the last
    /// collection. The world is stopped, the bins are not emptied yet, and the marks are those of
    /// the last collection.
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

    /// Finds unmarked objects, and objects with overwritten bounds. Everything is marked, and the
    /// world is stopped.
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
                // The object is kept until it is reported.
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

/// Collects at the end of the program, to find what was lost since the last collection.
pub(crate) fn look_at_exit() {
    extern "C" fn at_exit() {
        if wanted() {
            unknown::let_anybody(|| crate::collect::GC_gcollect());
        }
    }
    // SAFETY: a function that lives as long as the library.
    unsafe { libc::atexit(at_exit) };
}

/// Forgets a freed object, which is no leak. Its slot must not be reused without being recorded.
pub(crate) fn forget(start: usize) {
    current::no_quick();
    state::lock().program.leaks.live.remove(&start);
}

/// Reports what was found, without the lock, and frees the lost objects.
#[inline]
pub(crate) fn report() {
    if FOUND.load(Relaxed) {
        report_all(state::lock());
    }
}

#[cold]
fn report_all(mut gc: Locked) {
    if !FOUND.swap(false, Relaxed) {
        return;
    }
    let heap = gc.heap;
    let lost = std::mem::take(&mut gc.program.leaks.lost);
    let damaged = std::mem::take(&mut gc.program.leaks.damaged);
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
