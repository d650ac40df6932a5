//! Kinds: what the objects of a superpage have in common.

/// The most kinds of one heap.
pub const KINDS: usize = 24;

/// A kind by its number, below [`KINDS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KindId(pub u8);

/// Where the references in an object are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// The object has no references.
    Opaque,
    /// Any aligned word may be a reference: one that resolves to a slot counts as one.
    Words,
    /// The front end's [`Tracer`](crate::mark::Tracer) finds them. It may read memory outside the
    /// object, so superpages of such objects are never summarised.
    Traced,
}

/// What the objects of a kind have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// Where the references are.
    pub layout: Layout,
    /// Whether objects are zeroed when they are handed out.
    pub zeroed: bool,
    /// Whether objects live until they are freed; they are roots until then.
    pub uncollectable: bool,
}

impl Kind {
    /// Zeroed objects in which any word may be a reference, and which die when nothing refers to
    /// them.
    pub const WORDS: Kind = Kind {
        layout: Layout::Words,
        zeroed: true,
        uncollectable: false,
    };
    /// Objects without references, handed out without zeroing.
    pub const OPAQUE: Kind = Kind {
        layout: Layout::Opaque,
        zeroed: false,
        uncollectable: false,
    };
}
