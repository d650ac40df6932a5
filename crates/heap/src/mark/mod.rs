//! Marking what can be reached.
//!
//! A word that points into the heap is a *candidate*. Candidates and objects wait in a short queue
//! each before they are looked at, while the processor loads what looking at them will read: mark
//! bits for the one, contents for the other. That is most of marking's speed (Cher, Hosking and
//! Vitek 2004, for one queue).
//!
//! Marked objects that nobody looked into yet are on a stack of fixed size. Where it is full, the
//! object's superpage is *pending* instead, and all of its marked objects are looked into later. So
//! is a superpage that is absent, unless it has a summary that holds; pending superpages are read
//! in the order of their addresses, and summarised while they are there. What is likely to be
//! evicted next is summarised and paged out before that (`shed`).

mod crew;
mod dying;
mod marker;
mod pending;
mod queue;
mod replay;
mod shed;
mod young;

pub use crew::Crew;
pub use dying::Dying;
pub use marker::{Marker, Marking};

use crate::kind::KindId;

/// A front end that knows where references are in objects of [`Layout::Traced`](crate::Layout::Traced) kinds.
///
/// # Safety
/// `trace` reports every reference that is to keep its target alive, and does not allocate in this
/// heap or with `malloc`.
pub unsafe trait Tracer: Sync {
    /// Reports the references in the object at `start`, which has `bytes` bytes, by
    /// [`Marker::word`] and [`Marker::span`].
    ///
    /// # Safety
    /// There is such an object of this kind, and nobody writes to it.
    unsafe fn trace(&self, start: usize, bytes: usize, kind: KindId, marker: &mut Marker<'_>);
}

/// For heaps whose kinds are all opaque or words.
#[derive(Clone, Copy, Debug)]
pub struct NoTracer;

// SAFETY: there are no such objects.
unsafe impl Tracer for NoTracer {
    unsafe fn trace(&self, _: usize, _: usize, _: KindId, _: &mut Marker<'_>) {}
}
