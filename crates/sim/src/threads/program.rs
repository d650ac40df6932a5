//! The streams that are simulated.

use plimsoll_trace::{Event, ThreadId};
use std::collections::BTreeSet;

/// Why a stream could not be read: the reader's own words, which name the place.
pub type ReadError = Box<dyn std::error::Error + Send + Sync>;

/// One thread of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its number.
    pub thread: ThreadId,
    /// Whether another stream starts it. If not, it is ready from the beginning.
    pub is_started: bool,
}

/// A program, as its streams.
pub trait Program {
    /// Its threads, the main thread first. The others follow in the order in which they were created, if that
    /// is known.
    fn streams(&self) -> Vec<Stream>;

    /// Whether the end of the recording was lost, and with it what other threads may have needed: objects
    /// that were allocated and threads that did something there. Those who name them are not wrong then.
    fn is_cut(&self) -> bool {
        false
    }

    /// The next event of a stream, which is named by its index in [`Program::streams`]; `None` after the
    /// last. A stream may stop before its [`Event::End`], where the recording did. The thread ends there.
    ///
    /// # Errors
    /// The stream cannot be read any further.
    fn next(&mut self, stream: usize) -> Result<Option<Event>, ReadError>;

    /// Appends the next events of a stream to `into`: as many as come at once, and none after the last.
    ///
    /// # Errors
    /// As those of [`Program::next`], for the first of them.
    fn read(&mut self, stream: usize, into: &mut Vec<Event>) -> Result<(), ReadError> {
        into.extend(self.next(stream)?);
        Ok(())
    }
}

/// A program in memory: for tests and examples.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// The events of each thread, whose number is the index.
    pub events: Vec<Vec<Event>>,
    /// Whether the end was lost.
    pub is_cut: bool,
    /// How far each of them has been read.
    read: Vec<usize>,
}

impl Streams {
    /// A program of these streams; the first is that of the main thread.
    pub fn new(events: Vec<Vec<Event>>) -> Streams {
        let read = vec![0; events.len()];
        Streams {
            events,
            is_cut: false,
            read,
        }
    }
}

impl Program for Streams {
    fn streams(&self) -> Vec<Stream> {
        let all = self.events.iter().flatten();
        let started: BTreeSet<ThreadId> = all
            .filter_map(|event| match event {
                Event::Start { thread, .. } => Some(*thread),
                _ => None,
            })
            .collect();
        let stream = |index: usize| {
            let thread = ThreadId(index as u32);
            Stream {
                thread,
                is_started: started.contains(&thread),
            }
        };
        (0..self.events.len()).map(stream).collect()
    }

    fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn next(&mut self, stream: usize) -> Result<Option<Event>, ReadError> {
        let event = self.events[stream].get(self.read[stream]).copied();
        self.read[stream] += usize::from(event.is_some());
        Ok(event)
    }
}
