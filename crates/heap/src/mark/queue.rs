//! A short first-in, first-out queue. Entries wait in it while the processor loads their memory.

use std::mem::{replace, take};

/// At most `ROOM` values. The default value means none, and must never be put in.
pub(super) struct Queue<T, const ROOM: usize> {
    /// Values are numbered in the order they are put in; number n is at index n modulo `ROOM`.
    places: [T; ROOM],
    /// The number of the next value to put in.
    next: usize,
    /// All values with lower numbers were taken.
    first: usize,
}

impl<T: Copy + Default, const ROOM: usize> Queue<T, ROOM> {
    pub(super) fn new() -> Queue<T, ROOM> {
        Queue {
            places: [T::default(); ROOM],
            next: 0,
            first: 0,
        }
    }

    /// Puts a value in. Returns the first value if the queue was full, else the default.
    #[inline(always)]
    pub(super) fn exchange(&mut self, value: T) -> T {
        let place = &mut self.places[self.next % ROOM];
        self.next += 1;
        replace(place, value)
    }

    /// Takes the first value. Empty places are not searched, because marking a linked list has only
    /// one value in the queue at a time.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<T> {
        // A value that an exchange returned counts as taken, too.
        let first = self.first.max(self.next.saturating_sub(ROOM));
        if first == self.next {
            return None;
        }
        self.first = first + 1;
        Some(take(&mut self.places[first % ROOM]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn the_first_in_is_the_first_out(steps in proptest::collection::vec(any::<bool>(), 0..200)) {
            let (mut queue, mut model) = (Queue::<usize, 4>::new(), VecDeque::new());
            for (at, puts) in steps.into_iter().enumerate() {
                if puts {
                    let full = model.len() == 4;
                    let expected = if full { model.pop_front().unwrap() } else { 0 };
                    model.push_back(at + 1);
                    prop_assert_eq!(queue.exchange(at + 1), expected);
                } else {
                    prop_assert_eq!(queue.take(), model.pop_front());
                }
            }
        }
    }
}
