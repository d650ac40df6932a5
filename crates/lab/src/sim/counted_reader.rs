//! A program whose events are counted as they are read, so that others see how far its simulation is.

use plimsoll_sim::threads::{Program, ReadError, Stream};
use plimsoll_trace::Event;
use std::sync::atomic::{AtomicU64, Ordering};

/// A program and the count of its events that were read.
pub(crate) struct Counted<'a, P> {
    program: P,
    read: &'a AtomicU64,
}

impl<P> Counted<'_, P> {
    /// Counts on from what is in `read`.
    pub(crate) fn new(program: P, read: &AtomicU64) -> Counted<'_, P> {
        Counted { program, read }
    }
}

impl<P: Program> Program for Counted<'_, P> {
    fn streams(&self) -> Vec<Stream> {
        self.program.streams()
    }

    fn is_cut(&self) -> bool {
        self.program.is_cut()
    }

    fn next(&mut self, stream: usize) -> Result<Option<Event>, ReadError> {
        let next = self.program.next(stream)?;
        self.read
            .fetch_add(u64::from(next.is_some()), Ordering::Relaxed);
        Ok(next)
    }

    fn read(&mut self, stream: usize, into: &mut Vec<Event>) -> Result<(), ReadError> {
        let before = into.len();
        self.program.read(stream, into)?;
        let read = into.len().saturating_sub(before);
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_policy::phases::Rule;
    use plimsoll_sim::threads::heap::Algorithm;
    use plimsoll_sim::threads::{Settings, Streams, simulate};
    use plimsoll_unit::Bytes;

    #[test]
    fn each_event_counts_once() {
        let stream = |time| vec![Event::Compute { time }, Event::End];
        let streams = Streams::new(vec![stream(5), stream(7), stream(9)]);
        let settings = Settings::new(Rule::RoundRobin, Algorithm::GenMc, Bytes(1000));
        let alone = simulate(&mut streams.clone(), &settings).unwrap();
        let read = AtomicU64::new(0);
        let outcome = simulate(&mut Counted::new(streams, &read), &settings).unwrap();
        assert_eq!(outcome, alone);
        assert_eq!(read.into_inner(), outcome.events);
    }
}
