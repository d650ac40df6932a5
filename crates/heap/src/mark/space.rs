//! A space of the front end beside the heap, whose objects may move while the heap is marked: the nursery of
//! a precise collector (Hertz, Feng and Berger, PLDI 2005), from which objects are copied. A conservative
//! front end has [`NoSpace`]: its markers compile to code that knows of no space.
//!
//! For each reference the marker asks the space first. If the space contains it, the slot gets the object's
//! present address; all other references are those into the heap. References are the words that a
//! [`PointerMap`](crate::PointerMap) names, and those that the front end reports as such
//! ([`Marker::reference`](super::Marker::reference)). Any other word is ambiguous: it is never replaced, and
//! its object stays.
//!
//! The space keeps the objects whose own references have to be found in turn. If copies lie one behind the
//! other, one pointer does that (Cheney, CACM 1970), and no stack can overflow with objects that belong to
//! no superpage.
//!
//! # Absent superpages
//! A slot in swap cannot be replaced before its superpage is read. So no summary may name what moves:
//!
//! - A superpage with a reference into the space is never summarised. Each whole collection reads it in
//!   address order, and replaces its references like any others. Writes are tracked, so a superpage whose
//!   summary is valid has no such reference.
//! - A summary names slots of the heap, and their objects stay. A front end may move objects out of some
//!   superpages of the heap (its space then contains these), but only in a collection that trusts no summary
//!   ([`Look::complete`](crate::Look::complete)).
//!
//! A collection of young objects scans a superpage with a reference into the space even if nobody wrote to
//! it, because the object may move again.

/// Implemented by a front end that has objects beside the heap. Several markers may call it at once.
///
/// An object may move into the heap, to a slot that the front end took from its bins before the pause. A slot
/// that it took and did not use dies in that collection, because it is not marked.
///
/// # Safety
/// - No object moves before all ambiguous words of roots were reported. One that [`pin`](Space::pin) was told
///   of does not move in this collection.
/// - Objects of [`Layout::Words`](crate::Layout::Words), and ambiguous words that a
///   [`Tracer`](super::Tracer) reports, do not refer to the space: they are read when objects have moved.
/// - `scan` reports all references of all objects that stay in the space and are reached: aligned words that
///   can be read and written, and that nobody but markers writes to. If the roots are reported twice in a
///   pause ([`Marked::verify`](crate::collection::Marked::verify)), it does so twice.
/// - An address that the space contains belongs to it, and not to the heap; or it lies in a superpage of the
///   heap whose objects move, in a collection that trusts no summary.
/// - Nothing is allocated in the heap or with `malloc`.
pub unsafe trait Space: Sync {
    /// Whether objects may move. Then a collection is never made in steps: between these, the program would
    /// meet references to where objects were.
    const MOVES: bool = true;

    /// Whether a word is an address in the space. It is asked for each word that is marked.
    fn contains(&self, word: usize) -> bool;

    /// Keeps the object in its place that an ambiguous word points into, if there is one (Bartlett 1988). The
    /// space contains the word.
    fn pin(&self, word: usize);

    /// The word by which a slot's reference into the space is to be replaced: where the object is now, in the
    /// space or in the heap. The first call for an object decides, and moves it; the others return the same.
    ///
    /// # Safety
    /// The word is a reference, and the space contains it.
    unsafe fn forward(&self, word: usize) -> usize;

    /// Calls `each`, which calls [`forward`](Space::forward), with the address of each reference in objects
    /// that were moved within the space, or pinned, unless that was done. False if there were none: other
    /// markers report those that they have taken.
    fn scan(&self, each: impl FnMut(usize)) -> bool;
}

/// The space of a front end that has none.
#[derive(Clone, Copy, Debug)]
pub struct NoSpace;

// SAFETY: there are no such objects.
unsafe impl Space for NoSpace {
    const MOVES: bool = false;

    #[inline(always)]
    fn contains(&self, _: usize) -> bool {
        false
    }

    #[inline(always)]
    fn pin(&self, _: usize) {}

    #[inline(always)]
    unsafe fn forward(&self, word: usize) -> usize {
        word
    }

    #[inline(always)]
    fn scan(&self, _: impl FnMut(usize)) -> bool {
        false
    }
}
