//! The events of one thread, as far as they were read, and the stamps among them.

use plimsoll_trace::Event;

/// A thread's stream: which event it came to, and the stamps before that.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// Events that were read together, and how many of these the thread came to.
    batch: Vec<Event>,
    given: usize,
    /// Events that the thread came to; a number.
    events: u64,
    /// Its last stamp, 0 before the first one; how many events it had come to with that; and the stamp of
    /// the event before, which is another one if no event followed a stamp yet.
    stamp: u64,
    stamped: u64,
    stamp_before: u64,
}

/// Its events.
impl Reading {
    /// The number of the event that the thread came to last.
    pub(super) fn last(&self) -> u64 {
        self.events.saturating_sub(1)
    }

    /// Whether an event was read that comes after `ahead` others.
    #[inline]
    pub(super) fn has(&self, ahead: usize) -> bool {
        self.batch.len() > self.given + ahead
    }

    /// The event that comes after `ahead` others, of those that were read.
    #[inline]
    pub(super) fn get(&self, ahead: usize) -> Option<Event> {
        self.batch.get(self.given + ahead).copied()
    }

    /// Forgets the events that the thread came to, and has `read` append further ones to the others.
    pub(super) fn read_on<R>(&mut self, read: impl FnOnce(&mut Vec<Event>) -> R) -> R {
        self.batch.drain(..self.given);
        self.given = 0;
        read(&mut self.batch)
    }

    /// The thread came to the next event.
    #[inline]
    pub(super) fn come(&mut self) {
        self.events += 1;
        self.given += 1;
    }

    /// The thread has ended: frees the memory of the events.
    pub(super) fn end(&mut self) {
        self.batch = Vec::new();
    }
}

/// Its stamps.
impl Reading {
    /// The thread came to a stamp.
    pub(super) fn turns(&mut self, order: u64) {
        if self.stamped + 1 != self.events {
            self.stamp_before = self.stamp;
        }
        self.stamp = order;
        self.stamped = self.events;
    }

    /// The last stamp.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The stamp of what the thread did before the event that it came to last.
    pub(super) fn since(&self) -> u64 {
        if self.stamped + 1 == self.events {
            self.stamp_before
        } else {
            self.stamp
        }
    }

    /// The stamp from which on others went on after the end of the wait that the thread came to last, as far
    /// as its stream tells. `next` is its next event that is no computing.
    ///
    /// If another thread ended the wait, that thread had its turn meanwhile, so this one drew a stamp when it
    /// went on. A recorder writes the wait before or after that stamp.
    pub(super) fn until(&self, next: Option<Event>) -> u64 {
        match next {
            Some(Event::Stamp { order }) => order,
            _ => self.stamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_on_behind_what_was_not_come_to() {
        let compute = |time| Event::Compute { time };
        let mut stream = Reading::default();
        stream.read_on(|batch| batch.extend([compute(1), compute(2)]));
        stream.come();
        assert!(stream.has(0) && !stream.has(1));
        stream.read_on(|batch| batch.push(compute(3)));
        assert_eq!(
            (stream.get(0), stream.get(1)),
            (Some(compute(2)), Some(compute(3)))
        );
        stream.come();
        assert_eq!(stream.last(), 1);
        stream.end();
        assert!(stream.get(0).is_none());
    }

    #[test]
    fn an_event_right_behind_a_stamp_began_before_it() {
        let mut stream = Reading::default();
        for order in [5, 8] {
            stream.come();
            stream.come();
            stream.turns(order);
        }
        stream.come();
        assert_eq!((stream.since(), stream.stamp()), (5, 8));
        stream.come();
        assert_eq!(stream.since(), 8);
        assert_eq!(stream.until(Some(Event::Stamp { order: 9 })), 9);
        assert_eq!(stream.until(None), 8);
    }
}
