//! A short queue, first in, first out: what waits in it while the processor loads memory.

use std::mem::{replace, take};

/// At most so many values. The default value is none, and is never put in.
pub(super) struct Queue<T, const ROOM: usize> {
    /// Places are numbered on and on; number n is place n modulo `ROOM`.
    places: [T; ROOM],
    /// The number of the next value that is put in.
    next: usize,
    /// All below were taken.
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

    /// Puts a value in, and takes out the first one if the queue is full; else it gives the default.
    #[inline(always)]
    pub(super) fn exchange(&mut self, value: T) -> T {
        let place = &mut self.places[self.next % ROOM];
        self.next += 1;
        replace(place, value)
    }

    /// Takes out the first value. Empty places are not looked at: a list has one value at a time.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<T> {
        // What an exchange took out was the first one, too.
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
