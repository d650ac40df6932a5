//! What happens when an object dies.
//!
//! | module | content |
//! |---|---|
//! | `finalizers` | functions to call, and the orders of these calls |
//! | `links` | words that are cleared |
//! | `toggles` | references that the program decides about |
//! | `disclaim` | functions that see dead objects before their slots are reused |
//! | `registration` | adds finalizers and links, after a collection if there are many |
//! | `invoke` | calls the finalizers that are due |

pub(crate) mod disclaim;
pub(crate) mod finalizers;
pub(crate) mod invoke;
pub(crate) mod links;
pub(crate) mod registration;
pub(crate) mod toggles;

use disclaim::Disclaims;
use finalizers::Finalizers;
use links::Links;
use plimsoll_heap::mark::Marker;
use plimsoll_heap::{Central, Heap};
use toggles::Toggles;

/// All functions and links of objects that die. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Finalization {
    pub(crate) finalizers: Finalizers,
    pub(crate) links: Links,
    pub(crate) toggles: Toggles,
    pub(crate) disclaims: Disclaims,
}

impl Finalization {
    /// Whether finalizers are due.
    pub(crate) fn is_due(&self) -> bool {
        self.finalizers.is_due()
    }

    /// Before the world is stopped: asks the program about toggle references, and makes room.
    pub(crate) fn prepare(&mut self) {
        self.toggles.decide();
        self.finalizers.prepare();
    }

    /// Calls `root` with each word that is kept alive.
    pub(crate) fn each_root(&self, mut root: impl FnMut(usize)) {
        self.finalizers.each_root(&mut root);
        self.toggles.each_root(&mut root);
    }

    /// Handles dead objects after marking: clears links, makes finalizers due, and marks what these
    /// need. The order is libgc's (finalize.c): short links, finalizers, long links.
    pub(crate) fn after_marking(
        &mut self,
        heap: &Heap,
        central: &Central,
        marker: &mut Marker<'_>,
    ) {
        let dead = |object: usize| heap.slot(object).is_some_and(|slot| !heap.is_marked(slot));
        self.links.clear_short(&dead);
        self.finalizers.after_marking(heap, central, marker);
        self.disclaims.mark(heap, central, marker);
        self.toggles.forget_dead(&dead);
        self.links.clear_long(&dead);
        self.links.forget_dead(&dead, heap);
    }
}
