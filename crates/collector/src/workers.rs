//! Starts mark workers: threads that help to mark, one for each further processor, once the heap is large
//! enough. They end with the collector.

use plimsoll_heap::mark::MarkWorkers;
use plimsoll_heap::{Heap, SUPERPAGE};
use plimsoll_kernel::process::own;
use std::sync::Arc;

/// A heap of fewer superpages is marked before a worker wakes up.
const WORTH: usize = (8 << 20) / SUPERPAGE;
/// Where addresses are limited, there are no workers while fewer bytes of them are left: with a
/// thread, the C library may reserve 128 MiB for its `malloc`.
const FEW: u64 = 1 << 30;
/// The most markers, as in libgc.
const MOST: usize = 16;

/// The mark workers of a heap. Guarded by the lock of the front end.
#[derive(Default)]
pub struct Workers {
    /// `None` while the heap is too small to be worth it, and on a machine with one processor.
    shared: Option<Arc<MarkWorkers>>,
    /// Workers were called already.
    called: bool,
}

impl Workers {
    /// Starts workers, if there are none yet and the heap, which has `used` superpages, is large enough.
    /// Called before the world is stopped. `markers`: how many markers the user wants.
    pub(crate) fn call(
        &mut self,
        heap: &Heap,
        used: usize,
        markers: Option<usize>,
        start: impl FnOnce(&Arc<MarkWorkers>, usize) -> usize,
    ) {
        if self.called || used < WORTH {
            return;
        }
        if own::addresses().is_some_and(|addresses| addresses.left.0 < FEW) {
            return;
        }
        let markers =
            markers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        self.called = true;
        if markers < 2 {
            return;
        }
        let Ok(workers) = MarkWorkers::new(heap) else {
            return;
        };
        let workers = Arc::new(workers);
        let started = start(&workers, markers.min(MOST) - 1);
        self.shared = (started > 0).then_some(workers);
    }

    /// The state that the workers share, if there are any.
    pub(crate) fn shared(&self) -> Option<&MarkWorkers> {
        self.shared.as_deref()
    }

    /// Called in a child of fork, where there are no workers. The state that they share may be
    /// inconsistent, so it is not touched again.
    pub(crate) fn forked(&mut self) {
        std::mem::forget(self.shared.take());
        self.called = false;
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.end();
        }
    }
}
