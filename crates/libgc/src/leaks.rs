//! Finding mistakes of the program: objects that it lost without freeing them (`GC_find_leak`), and
//! objects of the debugging functions whose bounds it overwrote. A collection's findings are
//! [reported](crate::leak_report) once the lock is free again.
//!
//! While the program looks for leaks, every object is allocated with the lock and recorded; so
//! threads that are registered in this mode have no fast path to their bins
//! (`crate::thread::current`). If the program begins to look later, the next collection
//! records all existing objects. It also empties the bins, which ends the fast path of all threads.

use crate::abi::variables::finds_leaks;
use crate::objects::header;
use crate::thread::registered::Threads;
use plimsoll_heap::{Bins, Central, Heap};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The most leaks, and the most damaged objects, of one report; libgc has the same bounds.
const LEAKS: usize = 40;
const DAMAGES: usize = 20;

/// Whether there is something to report; read without the lock.
pub(crate) static FOUND: AtomicBool = AtomicBool::new(false);

/// The recorded objects, and what was found. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Leaks {
    /// Objects that were allocated and not freed.
    live: HashSet<usize>,
    /// Whether `live` also contains the objects allocated before the program began to look for
    /// leaks.
    whole: bool,
    pub(crate) lost: Vec<usize>,
    /// For each damaged object with a debugging header: its start, and the address of the
    /// overwritten word.
    pub(crate) damaged: Vec<(usize, usize)>,
}

impl Leaks {
    /// Forgets a freed object.
    pub(crate) fn forget(&mut self, start: usize) {
        self.live.remove(&start);
    }

    /// Records a newly allocated object.
    pub(crate) fn add(&mut self, start: usize) {
        self.live.insert(start);
    }

    /// Makes room before the world is stopped.
    pub(crate) fn prepare(&mut self, heap: &Heap, central: &Central) {
        self.lost.reserve(LEAKS);
        self.damaged.reserve(DAMAGES);
        if finds_leaks() && !self.whole {
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
        if self.whole || !finds_leaks() {
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
        if header::is_used() {
            heap.each_marked(central, |slot| {
                let start = heap.start(slot);
                if damaged.len() < DAMAGES
                    && let Some(word) = header::damage(start, heap.size(slot))
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
