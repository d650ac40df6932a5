//! Kinds: what the objects of a superpage have in common. A front end may have one for each type of its
//! objects: tables by kind take memory only for what is used ([`sparse`](crate::sparse)).

use std::ops::Range;
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
    /// Those words that the map names. Nothing but the object is read, so its superpages are summarised.
    Mapped(PointerMap),
    /// The front end's [`Tracer`](crate::mark::Tracer) finds them. It may read memory outside the object, so
    /// superpages of traced objects are never summarised.
    Traced,
}

/// The places of references in an object: a bit for each of its first words, lowest first. Words without a
/// bit are not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointerMap {
    bits: u64,
    /// Words of an element, at most 64. An array has the same bits for each of its elements.
    words: u8,
    /// Whether the object is an array of as many elements as fit in it.
    array: bool,
}

impl PointerMap {
    /// The map of an object that has no references behind its 64th word.
    pub const fn new(bits: u64) -> PointerMap {
        PointerMap {
            bits,
            words: 64,
            array: false,
        }
    }

    /// The map of an array with elements of `words` words. `None` if these are not 1 to 64, or there is a bit
    /// behind the last of them.
    pub const fn array(bits: u64, words: u8) -> Option<PointerMap> {
        if words == 0 || words > 64 || words < 64 && bits >> words != 0 {
            return None;
        }
        Some(PointerMap {
            bits,
            words,
            array: true,
        })
    }

    /// Whether the word with this number may be a reference.
    pub(crate) fn has(&self, word: usize) -> bool {
        let words = usize::from(self.words);
        (self.array || word < words) && self.bits >> (word % words) & 1 != 0
    }

    /// Calls `each` with the address of each word that may be a reference, in a part of the object at
    /// `object`.
    #[inline]
    pub(crate) fn each(&self, object: usize, part: Range<usize>, mut each: impl FnMut(usize)) {
        let words = usize::from(self.words);
        let bytes = words * size_of::<usize>();
        let end = if self.array {
            part.end
        } else {
            part.end.min(object + bytes)
        };
        let mut element = object + (part.start - object) / bytes * bytes;
        while element < end {
            let mut rest = self.bits;
            while rest != 0 {
                let at = element + rest.trailing_zeros() as usize * size_of::<usize>();
                if at >= part.start && at < end {
                    each(at);
                }
                rest &= rest - 1;
            }
            element += bytes;
        }
    }
}

/// The properties of a kind's objects.
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
    #[allow(
        deprecated,
        reason = "Rust 1.90 does not know the new name, `try_update`"
    )]
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_map_of_an_array_has_no_bits_behind_its_elements() {
        assert!(PointerMap::array(0b11, 2).is_some() && PointerMap::array(u64::MAX, 64).is_some());
        assert_eq!(PointerMap::array(0b100, 2), None);
        assert_eq!(PointerMap::array(0, 0), None);
        assert_eq!(PointerMap::array(1, 65), None);
    }

    proptest! {
        #[test]
        fn each_word_with_a_bit_is_visited_once(
            bits: u64,
            words in 0u8..=64,
            from in 0usize..300,
            count in 0usize..300,
        ) {
            let map = match words {
                0 => PointerMap::new(bits),
                words => PointerMap::array(bits >> (64 - words), words).unwrap(),
            };
            let (object, word) = (1 << 20, size_of::<usize>());
            let mut found = Vec::new();
            let part = object + from * word..object + (from + count) * word;
            map.each(object, part, |at| found.push((at - object) / word));
            let expected: Vec<usize> = (from..from + count).filter(|&at| map.has(at)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
