//! Kinds: what the objects of a superpage have in common. A front end may have one for each type of its
//! objects: tables by kind take memory only for what is used ([`sparse`](crate::sparse)).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most kinds of one heap.
pub const KINDS: usize = 4096;

/// A kind by its number, below [`KINDS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KindId(pub u16);

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

/// Kinds that are stored together.
const BLOCK: usize = 64;

/// The kinds of one heap. Any thread adds and reads them, without a lock. A kind stays as it was added.
pub(crate) struct Kinds {
    blocks: [OnceLock<Box<[OnceLock<Kind>; BLOCK]>>; KINDS / BLOCK],
    /// How many there are.
    count: AtomicUsize,
}

impl Kinds {
    pub(crate) fn new() -> Kinds {
        Kinds {
            blocks: [const { OnceLock::new() }; KINDS / BLOCK],
            count: AtomicUsize::new(0),
        }
    }

    /// Adds a kind and returns its number; `None` if there are [`KINDS`] already.
    pub(crate) fn add(&self, kind: Kind) -> Option<KindId> {
        let next = |count: usize| (count < KINDS).then_some(count + 1);
        let id = self.count.fetch_update(Relaxed, Relaxed, next).ok()?;
        let block =
            self.blocks[id / BLOCK].get_or_init(|| Box::new([const { OnceLock::new() }; BLOCK]));
        let stays = block[id % BLOCK].set(kind);
        assert!(stays.is_ok(), "each number is given once");
        Some(KindId(id as u16))
    }

    #[inline]
    pub(crate) fn get(&self, id: KindId) -> &Kind {
        let at = usize::from(id.0);
        let block = self.blocks.get(at / BLOCK).and_then(OnceLock::get);
        let kind = block.and_then(|block| block[at % BLOCK].get());
        kind.expect("objects are of kinds that were added")
    }
}
