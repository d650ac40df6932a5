//! Units of the heap, as types. Arithmetic on addresses is confined to this module and `side`.

/// The alignment of every object, in bytes.
pub const GRANULE: usize = 16;
/// Bytes of a superpage: four pages (paper 3.1).
pub const SUPERPAGE: usize = 16 << 10;
/// Granules of a superpage; also the most slots that it can have.
pub(crate) const GRANULES: usize = SUPERPAGE / GRANULE;

/// A superpage, by its number from the start of the heap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Superpage(pub(crate) u32);

impl Superpage {
    /// Its number as an index.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The place of one object. A large object is slot 0 of its first superpage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot {
    /// The superpage that it is in, or begins in.
    pub(crate) superpage: Superpage,
    /// Its number in that superpage.
    pub(crate) index: u16,
}
