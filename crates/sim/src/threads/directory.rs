//! The threads of a trace by their numbers.

use super::error::{Position, SimError};
use plimsoll_trace::ThreadId;

/// Finds the index of a thread whose number an event names.
pub(super) struct Directory {
    /// Numbers of the threads in the trace, sorted, with their indices.
    numbers: Vec<(ThreadId, usize)>,
    /// Whether the trace was cut: what its streams name may be lost.
    is_cut: bool,
}

impl Directory {
    /// # Errors
    /// Two threads have the same number.
    pub(super) fn new(
        threads: impl Iterator<Item = ThreadId>,
        is_cut: bool,
    ) -> Result<Directory, SimError> {
        let mut numbers: Vec<_> = threads.zip(0..).collect();
        numbers.sort_unstable();
        if let Some(pair) = numbers.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(SimError::Twice(pair[0].0));
        }
        Ok(Directory { numbers, is_cut })
    }

    /// Whether what the streams name may be lost.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The index of a thread; nothing where its stream may have been lost.
    ///
    /// # Errors
    /// There is no such thread; the event is that `at` a position.
    pub(super) fn index(&self, thread: ThreadId, at: Position) -> Result<Option<usize>, SimError> {
        let found = self.numbers.binary_search_by_key(&thread, |&(id, _)| id);
        match found {
            Ok(place) => Ok(Some(self.numbers[place].1)),
            Err(_) if self.is_cut => Ok(None),
            Err(_) => Err(SimError::NoThread { at, thread }),
        }
    }
}
