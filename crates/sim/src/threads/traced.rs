//! A trace as a program: what has to be known of it beforehand, and its streams.

use super::error::Position;
use super::heap::{Algorithm, NewRatio};
use super::objects::Heap;
use super::program::{Program, ReadError, Stream};
use plimsoll_trace::order::{Filed, Recorded};
use plimsoll_trace::{Ending, Event, ThreadId, TimeUnit, Trace, TraceError};
use std::collections::BTreeSet;

/// Facts of a trace that are found by reading it once.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The threads that others start.
    started: BTreeSet<ThreadId>,
    /// The most bytes of objects that lived at one time in the recorded order.
    pub largest_live: u64,
}

impl Survey {
    /// Reads all of a trace. If the trace does not say how much of it lived at once, this needs memory for
    /// its live objects.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn of(trace: &Trace) -> Result<Survey, TraceError> {
        let mut survey = Survey::default();
        if let Some(largest_live) = trace.largest_live() {
            survey.largest_live = largest_live;
            for next in Filed::new(trace) {
                survey.look(&next?.1);
            }
            return Ok(survey);
        }
        // Nothing is ever collected in it.
        let mut heap = Heap::new(Algorithm::MarkCompact, u64::MAX, NewRatio::PAPER);
        for next in Recorded::new(trace)? {
            let (thread, event) = next?;
            survey.look(&event);
            match event {
                Event::Alloc { object, size, .. } => {
                    // A fault of it is told, with its place, when the trace is simulated.
                    let place = heap.room(size);
                    let _ = place.map(|place| heap.born(thread, object, size, place));
                }
                Event::Death { object } => {
                    heap.died(object, || Position { thread, event: 0 });
                }
                _ => {}
            }
        }
        survey.largest_live = heap.count.largest_live;
        Ok(survey)
    }

    fn look(&mut self, event: &Event) {
        if let Event::Start { thread, .. } = event {
            self.started.insert(*thread);
        }
    }
}

/// How far a stream of a trace was read.
enum Reading {
    /// Not at all.
    Closed,
    /// To some event. A block of it is in memory.
    Open(Box<plimsoll_trace::Stream>),
    /// To its end.
    Over,
}

/// A trace as a program. It holds a block of each thread that has started and not ended.
pub struct Traced<'a> {
    trace: &'a Trace,
    survey: &'a Survey,
    threads: Vec<ThreadId>,
    streams: Vec<Reading>,
    /// Nanoseconds for each unit of time of the trace.
    unit: f64,
}

impl<'a> Traced<'a> {
    /// The program of a trace that was surveyed. `rate` is how many instructions a thread executes in a
    /// nanosecond; only traces that count instructions need it.
    pub fn new(trace: &'a Trace, survey: &'a Survey, rate: f64) -> Traced<'a> {
        let threads: Vec<ThreadId> = trace.streams().keys().copied().collect();
        Traced {
            trace,
            survey,
            streams: threads.iter().map(|_| Reading::Closed).collect(),
            threads,
            unit: match trace.header().unit {
                TimeUnit::Nanoseconds => 1.0,
                TimeUnit::Instructions => 1.0 / rate,
            },
        }
    }
}

impl Traced<'_> {
    /// A stream; nothing behind its end.
    fn open(&mut self, stream: usize) -> Result<Option<&mut plimsoll_trace::Stream>, ReadError> {
        let reading = &mut self.streams[stream];
        if matches!(reading, Reading::Closed) {
            let opened = self.trace.stream(self.threads[stream])?;
            *reading = Reading::Open(Box::new(opened));
        }
        Ok(match reading {
            Reading::Open(open) => Some(&mut **open),
            Reading::Closed | Reading::Over => None,
        })
    }

    /// These events of a stream come next: their times become nanoseconds. Behind its last one, the stream is
    /// closed.
    fn told(&mut self, stream: usize, events: &mut [Event]) {
        if self.unit != 1.0 {
            for event in events.iter_mut() {
                if let Event::Compute { time } = event {
                    *time = (*time as f64 * self.unit).round() as u64;
                }
            }
        }
        if matches!(events.last(), None | Some(Event::End)) {
            // It has the memory of a block.
            self.streams[stream] = Reading::Over;
        }
    }
}

impl Program for Traced<'_> {
    fn streams(&self) -> Vec<Stream> {
        let stream = |&thread: &ThreadId| Stream {
            thread,
            is_started: self.survey.started.contains(&thread),
        };
        self.threads.iter().map(stream).collect()
    }

    fn is_cut(&self) -> bool {
        matches!(self.trace.ending(), Ending::Cut { .. })
    }

    fn next(&mut self, stream: usize) -> Result<Option<Event>, ReadError> {
        let Some(open) = self.open(stream)? else {
            return Ok(None);
        };
        let mut next = open.next().transpose()?;
        self.told(stream, next.as_mut_slice());
        Ok(next)
    }

    fn read(&mut self, stream: usize, into: &mut Vec<Event>) -> Result<(), ReadError> {
        let before = into.len();
        let Some(open) = self.open(stream)? else {
            return Ok(());
        };
        open.read(into)?;
        self.told(stream, &mut into[before..]);
        Ok(())
    }
}
