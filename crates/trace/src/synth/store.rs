//! Live objects of a made-up program.

use super::Sink;
use crate::error::TraceError;
use crate::event::{Event, ObjectId, ThreadId};
use std::collections::VecDeque;

/// Objects that outlive the working sets that they are from, the oldest first, and the sum of all that lives.
#[derive(Debug)]
pub(super) struct Store {
    /// Objects and their sizes, bytes.
    kept: VecDeque<(ObjectId, u64)>,
    /// Bytes of all objects that live.
    live: u64,
    /// The most that ever lived.
    largest: u64,
    /// The most that may live.
    most: u64,
}

impl Store {
    pub(super) fn new(most: u64) -> Store {
        Store {
            kept: VecDeque::new(),
            live: 0,
            largest: 0,
            most,
        }
    }

    /// The most bytes that ever lived.
    pub(super) fn largest(&self) -> u64 {
        self.largest
    }

    /// An object is born.
    pub(super) fn born(&mut self, size: u64) {
        self.live += size;
        self.largest = self.largest.max(self.live);
    }

    /// An object of a working set dies.
    pub(super) fn died(&mut self, size: u64) {
        self.live -= size;
    }

    /// An object is kept.
    pub(super) fn keep(&mut self, object: ObjectId, size: u64) {
        self.kept.push_back((object, size));
    }

    /// A thread lets the oldest objects go, until another one fits.
    pub(super) fn make_room(
        &mut self,
        size: u64,
        thread: ThreadId,
        out: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        while self.live + size > self.most {
            let Some((object, size)) = self.kept.pop_front() else {
                return Ok(());
            };
            self.live -= size;
            out.put(thread, Event::Death { object })?;
        }
        Ok(())
    }
}
