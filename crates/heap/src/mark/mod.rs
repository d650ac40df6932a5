//! Marking what is reachable.
//!
//! A word that points into the heap is a *candidate*. There is one short queue for candidates and
//! one for objects. While an entry waits there, the processor loads what will be read next: mark
//! bits for a candidate, contents for an object. This prefetching gives most of marking's speed
//! (Cher, Hosking and Vitek 2004, who use one queue).
//!
//! Marked objects that have not been scanned yet are on a stack of limited size. When the stack is
//! full, the object's superpage becomes *pending* instead, and all of its marked objects are
//! scanned later. An absent superpage becomes pending too, unless it has a valid summary. Pending
//! superpages are read in address order, and summarised while they are in memory. Before that, the
//! superpages that are likely to be evicted next are summarised and paged out (`page_out`).
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `space` | a front end's objects beside the heap, which may move |
//! | `marker` | one marker: a stack, two queues, and the loop that drains them |
//! | `scan` | objects that are not plain words; all objects of a superpage |
//! | `workers`, `sharing` | several markers at once; how workers of any kind share work |
//! | `queue`, `spans` | the short queues; what waits for marking |
//! | `leftover` | when a step ends, and the work that it leaves |
//! | `pending` | superpages that are read later, in address order |
//! | `replay` | a superpage's summary in the place of its objects |
//! | `page_out` | pages out before the kernel has to evict |
//! | `young` | collections of young objects, by sticky mark bits |
//! | `finalizable` | unreachable objects that a front end wants kept |

mod finalizable;
mod leftover;
mod marker;
mod page_out;
mod pending;
mod queue;
mod replay;
mod scan;
mod sharing;
mod space;
mod spans;
mod workers;
mod young;

pub use finalizable::Finalizable;
pub use marker::Marker;
pub use space::{NoSpace, Space};
pub use spans::Marking;
pub use workers::MarkWorkers;

use crate::kind::KindId;

/// Implemented by a front end: finds the references in objects of
/// [`Layout::Traced`](crate::Layout::Traced) kinds.
///
/// # Safety
/// `trace` reports every reference that must keep its target alive, and allocates neither in this
/// heap nor with `malloc`.
pub unsafe trait Tracer<S: Space = NoSpace>: Sync {
    /// Reports the references in the object at `start`, which is `bytes` bytes long, by
    /// [`Marker::word`] and [`Marker::span`]; those that may refer to a [`Space`], by
    /// [`Marker::reference`].
    ///
    /// # Safety
    /// There is such an object of this kind at `start`, and nobody writes to it during the call.
    unsafe fn trace(&self, start: usize, bytes: usize, kind: KindId, marker: &mut Marker<'_, S>);
}

/// The tracer of a heap whose kinds are all opaque or words.
#[derive(Clone, Copy, Debug)]
pub struct NoTracer;

// SAFETY: there are no such objects.
unsafe impl<S: Space> Tracer<S> for NoTracer {
    unsafe fn trace(&self, _: usize, _: usize, _: KindId, _: &mut Marker<'_, S>) {}
}
