//! All streams of a trace as one: in the order in which the recorded program ran, or in that of the file.

use crate::error::{At, TraceError};
use crate::event::{Event, ThreadId};
use crate::reader::{Stream, Trace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A stream whose turn it is, and its next event.
type Begun = (Box<Stream>, Option<Event>);

/// All events of a trace, in the recorded order. It holds one block of each thread that is under way.
///
/// A stream begins when its first stamp comes. One that has none at its beginning begins when a stream
/// starts its thread; one that nobody starts, when no other is left; and the first thread at once. Between
/// two stamps a stream goes on alone. After an error the stream that has it ends, and the others go on.
#[derive(Debug)]
pub struct Recorded<'a> {
    trace: &'a Trace,
    /// Threads that may run: the stamp from which on, the thread, and its stream once that has begun.
    ready: BinaryHeap<Reverse<(u64, ThreadId)>>,
    /// The streams that are under way, but for the current one, each with the stamp that was read before
    /// its turn.
    under_way: BTreeMap<ThreadId, (Box<Stream>, Event)>,
    /// The streams that wait until someone starts their threads.
    unstarted: BTreeSet<ThreadId>,
    current: Option<Box<Stream>>,
    /// The stamp of the current stream.
    stamp: u64,
    stamped: bool,
}

impl<'a> Recorded<'a> {
    /// Merges the streams of a trace.
    ///
    /// # Errors
    /// [`TraceError::Io`]. Other faults of a stream come in their turn.
    pub fn new(trace: &'a Trace) -> Result<Self, TraceError> {
        let mut recorded = Recorded {
            trace,
            ready: BinaryHeap::new(),
            under_way: BTreeMap::new(),
            unstarted: BTreeSet::new(),
            current: None,
            stamp: 0,
            stamped: true,
        };
        for (index, &thread) in trace.streams().keys().enumerate() {
            match trace.stream(thread)?.next() {
                Some(Ok(Event::Stamp { order })) => recorded.ready.push(Reverse((order, thread))),
                None => {}
                _ => {
                    recorded.stamped = false;
                    if index == 0 {
                        recorded.ready.push(Reverse((0, thread)));
                    } else {
                        recorded.unstarted.insert(thread);
                    }
                }
            }
        }
        Ok(recorded)
    }

    /// Whether each stream begins with a stamp, so that the order is known.
    pub fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Where the block begins in which the last event is, bytes.
    pub(crate) fn block(&self) -> Option<u64> {
        self.current.as_ref().map(|stream| stream.block())
    }

    /// Where the event is that came last.
    pub fn last(&self) -> Option<At> {
        self.current.as_ref().map(|stream| stream.last_at())
    }

    /// Begins the turn of another stream, and reads its next event. `None` when all are at their ends.
    fn next_stream(&mut self) -> Result<Option<Begun>, TraceError> {
        let (stamp, thread) = match self.ready.pop() {
            Some(Reverse(next)) => next,
            None => match self.unstarted.pop_first() {
                Some(thread) => (self.stamp, thread),
                None => return Ok(None),
            },
        };
        self.stamp = stamp;
        if let Some((stream, event)) = self.under_way.remove(&thread) {
            return Ok(Some((stream, Some(event))));
        }
        let mut stream = Box::new(self.trace.stream(thread)?);
        let event = stream.next().transpose()?;
        Ok(Some((stream, event)))
    }

    fn advance(&mut self) -> Result<Option<(ThreadId, Event)>, TraceError> {
        loop {
            let (stream, event) = match self.current.take() {
                Some(mut stream) => {
                    let event = stream.next().transpose()?;
                    (stream, event)
                }
                None => match self.next_stream()? {
                    Some(begun) => begun,
                    None => return Ok(None),
                },
            };
            let thread = stream.thread();
            match event {
                None => continue,
                Some(event @ Event::Stamp { order }) if order > self.stamp => {
                    if self
                        .ready
                        .peek()
                        .is_some_and(|Reverse((next, _))| *next < order)
                    {
                        self.ready.push(Reverse((order, thread)));
                        self.under_way.insert(thread, (stream, event));
                        continue;
                    }
                    self.stamp = order;
                }
                Some(Event::Start {
                    thread: started, ..
                }) if self.unstarted.remove(&started) => {
                    self.ready.push(Reverse((self.stamp, started)));
                }
                Some(_) => {}
            }
            self.current = Some(stream);
            return Ok(event.map(|event| (thread, event)));
        }
    }
}

impl Iterator for Recorded<'_> {
    type Item = Result<(ThreadId, Event), TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

/// All events of a trace, piece by piece in the order in which the file has their blocks: fast, and right
/// within each stream. It ends after an error.
#[derive(Debug)]
pub struct Filed<'a> {
    trace: &'a Trace,
    /// The threads of the blocks that follow.
    threads: std::vec::IntoIter<ThreadId>,
    /// The streams that are under way, but for the current one.
    under_way: BTreeMap<ThreadId, Stream>,
    current: Option<Stream>,
    failed: bool,
}

impl<'a> Filed<'a> {
    /// Begins at the first block.
    pub fn new(trace: &'a Trace) -> Self {
        Filed {
            trace,
            threads: trace.threads_by_block().into_iter(),
            under_way: BTreeMap::new(),
            current: None,
            failed: false,
        }
    }

    fn advance(&mut self) -> Result<Option<(ThreadId, Event)>, TraceError> {
        loop {
            if let Some(stream) = self.current.as_mut().filter(|it| it.left_of_block() > 0)
                && let Some(event) = stream.next()
            {
                return Ok(Some((stream.thread(), event?)));
            }
            if let Some(done) = self.current.take() {
                self.under_way.insert(done.thread(), done);
            }
            let Some(thread) = self.threads.next() else {
                return Ok(None);
            };
            let mut stream = match self.under_way.remove(&thread) {
                Some(stream) => stream,
                None => self.trace.stream(thread)?,
            };
            // The first event opens the block.
            let first = stream.next();
            self.current = Some(stream);
            if let Some(event) = first {
                return Ok(Some((thread, event?)));
            }
        }
    }
}

impl Iterator for Filed<'_> {
    type Item = Result<(ThreadId, Event), TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance();
        self.failed = next.is_err();
        next.transpose()
    }
}
