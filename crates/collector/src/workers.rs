//! Mark workers: threads that help to mark, one for each further processor, started once the heap is
//! large enough.

use plimsoll_heap::mark::Crew;
use plimsoll_heap::{Heap, SUPERPAGE};
use plimsoll_kernel::process::own;

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
    crew: Option<&'static Crew>,
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
        start: impl FnOnce(&'static Crew, usize) -> usize,
    ) {
        if self.called || used < WORTH {
            return;
        }
        if own::addresses().is_some_and(|addresses| addresses.left < FEW) {
            return;
        }
        let markers =
            markers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        self.called = true;
        if markers < 2 {
            return;
        }
        let Ok(crew) = Crew::new(heap) else { return };
        let crew: &'static Crew = Box::leak(Box::new(crew));
        let started = start(crew, markers.min(MOST) - 1);
        self.crew = (started > 0).then_some(crew);
    }

    /// The state that the workers share, if there are any.
    pub(crate) fn crew(&self) -> Option<&'static Crew> {
        self.crew
    }

    /// Called in a child of fork, where there are no workers. The state that they share may be
    /// inconsistent, so it is not touched again.
    pub(crate) fn forked(&mut self) {
        (self.crew, self.called) = (None, false);
    }
}
