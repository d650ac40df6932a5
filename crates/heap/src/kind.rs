//! Kinds: what the objects of a superpage have in common.

/// Most kinds of one heap.
pub const KINDS: usize = 24;

/// A kind by its number, below [`KINDS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KindId(pub u8);

/// Where the references in an object are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// There are none.
    Opaque,
    /// Any aligned word may be one: if it resolves to a slot it is taken for one.
    Words,
    /// The front end's [`Tracer`](crate::mark::Tracer) knows. It may read memory outside of the
    /// object, so pages with such objects are never summarised.
    Traced,
}

/// What the objects of a kind have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// Where references are.
    pub layout: Layout,
    /// Objects are handed out zeroed.
    pub zeroed: bool,
    /// Objects live until they are freed, and are roots until then.
    pub uncollectable: bool,
}

impl Kind {
    /// Zeroed objects of any words, which die when nothing refers to them.
    pub const WORDS: Kind = Kind {
        layout: Layout::Words,
        zeroed: true,
        uncollectable: false,
    };
    /// Objects without references, as they come.
    pub const OPAQUE: Kind = Kind {
        layout: Layout::Opaque,
        zeroed: false,
        uncollectable: false,
    };
}
