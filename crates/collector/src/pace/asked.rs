//! The sizes that the user and the program ask for.

use plimsoll_heap::SUPERPAGE;

/// The initial size of a heap in bytes, as of libgc's.
pub(super) const BEGIN: usize = 64 << 10;

/// The sizes that were asked for a heap, and the addresses that it has. No size exceeds these.
#[derive(Default)]
pub(super) struct Asked {
    /// The superpages for which the heap has addresses.
    room: usize,
    /// Initial size in bytes.
    initial: usize,
    /// Maximum size in bytes; `None` for none.
    most: Option<usize>,
    /// Bytes that the program said it will need.
    expected: usize,
}

impl Asked {
    /// A heap that has addresses for `room` superpages, with sizes in bytes.
    pub(super) fn new(room: usize, initial: usize, most: Option<usize>) -> Asked {
        Asked {
            room,
            initial,
            most,
            expected: 0,
        }
    }

    /// The heap's maximum in superpages.
    pub(super) fn cap(&self) -> usize {
        self.most
            .map_or(self.room, |bytes| (bytes / SUPERPAGE).min(self.room))
    }

    /// Sets the maximum in bytes.
    pub(super) fn set_most(&mut self, most: Option<usize>) {
        self.most = most;
    }

    /// The program will need `superpages` superpages.
    pub(super) fn expect(&mut self, superpages: usize) {
        self.expected = superpages * SUPERPAGE;
    }

    /// Bytes of the heap until the first collection, where there is room for `most`.
    pub(super) fn first(&self, most: usize) -> usize {
        BEGIN.max(self.initial.min(most))
    }

    /// Superpages that the heap has in any case while memory is not short.
    pub(super) fn least(&self) -> usize {
        BEGIN.max(self.initial).max(self.expected) / SUPERPAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_maximum_exceeds_the_addresses() {
        let mut asked = Asked::new(8, 4 * BEGIN, None);
        assert_eq!(asked.cap(), 8);
        asked.set_most(Some(3 * SUPERPAGE));
        assert_eq!(asked.cap(), 3);
        asked.set_most(Some(9 * SUPERPAGE));
        assert_eq!(asked.cap(), 8);
        assert_eq!((asked.first(2 * BEGIN), asked.first(0)), (2 * BEGIN, BEGIN));
        asked.expect(100);
        assert_eq!(asked.least(), 100);
    }
}
