//! The events of a thread.

use super::load::Loader;
use crate::block::{Head, Kind};
use crate::codec::{Position, Unpacked};
use crate::error::{At, BlockFault, EventFault, TraceError};
use crate::event::{Event, ThreadId};

/// The number of events that are unpacked at once: few enough to stay in a processor's cache with the columns
/// that they are read from.
const BATCH: usize = 64;

/// The events of one thread, in order. It holds one block at a time.
///
/// After an error it ends.
pub struct Stream {
    loader: Loader,
    thread: ThreadId,
    raw: bool,
    /// The blocks that follow.
    blocks: std::vec::IntoIter<u64>,
    /// Where the block begins that is read, bytes.
    block: u64,
    /// Events that are left of the block, those of the batch among them.
    left: u32,
    unpacked: Unpacked,
    /// Events that are unpacked, and how many of them have been given out.
    batch: Vec<Event>,
    given: usize,
    /// Events behind the batch that are passed over.
    passed_over: u32,
    /// The fault behind these.
    fault: Option<EventFault>,
    /// Before the event that comes next.
    at: Position,
    ended: bool,
    failed: bool,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Stream");
        shown
            .field("thread", &self.thread)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn new(
        loader: Loader,
        thread: ThreadId,
        raw: bool,
        blocks: std::vec::IntoIter<u64>,
    ) -> Stream {
        Stream {
            loader,
            thread,
            raw,
            blocks,
            block: 0,
            left: 0,
            unpacked: Unpacked::default(),
            batch: Vec::new(),
            given: 0,
            passed_over: 0,
            fault: None,
            at: Position::default(),
            ended: false,
            failed: false,
        }
    }

    /// The thread.
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// Where the stream stands: before the event that comes next.
    pub fn position(&self) -> &Position {
        &self.at
    }

    /// Appends the next events to `into`: at least one, unless the stream is at its end.
    ///
    /// # Errors
    /// The first of them cannot be read. A fault behind it is reported when it is the first.
    pub fn read(&mut self, into: &mut Vec<Event>) -> Result<(), TraceError> {
        let Some(first) = self.next() else {
            return Ok(());
        };
        into.push(first?);
        while let Some(&event) = self.batch.get(self.given) {
            if self.pass(&event).is_err() {
                break;
            }
            into.push(event);
        }
        Ok(())
    }

    /// How many events are left of the block that is read.
    pub fn left_of_block(&self) -> u32 {
        self.left
    }

    /// Where the block begins that is read, bytes.
    pub(crate) fn block(&self) -> u64 {
        self.block
    }

    /// Where the event is that was read last, for messages.
    pub fn last_at(&self) -> At {
        self.place(self.at.event.saturating_sub(1))
    }

    fn place(&self, event: u64) -> At {
        At {
            trace: self.loader.name.clone(),
            block: Some(self.block),
            thread: self.thread,
            event,
        }
    }

    /// Goes to the next block; false when there is none.
    fn next_block(&mut self) -> Result<bool, TraceError> {
        let fault = |it: &Stream, why| TraceError::Block {
            trace: it.loader.name.clone(),
            offset: it.block,
            why,
        };
        if !self.unpacked.is_empty() {
            return Err(fault(self, BlockFault::Rest));
        }
        let content = std::mem::take(&mut self.unpacked).into_bytes();
        let Some(offset) = self.blocks.next() else {
            return Ok(false);
        };
        self.block = offset;
        self.loader.spare = content;
        let (head, content) = self.loader.load(offset, Kind::Events)?;
        self.check(&head).map_err(|why| fault(self, why))?;
        self.at.monitor = 0;
        self.at.object = head.object;
        self.unpacked = Unpacked::new(content, &self.at).map_err(|why| fault(self, why))?;
        if self.unpacked.events() != head.count as usize {
            return Err(fault(self, BlockFault::Columns));
        }
        self.left = head.count;
        Ok(true)
    }

    /// Whether a block follows what was read.
    fn check(&self, head: &Head) -> Result<(), BlockFault> {
        if head.thread != self.thread {
            return Err(BlockFault::Thread {
                found: head.thread,
                expected: self.thread,
            });
        }
        if head.event != self.at.event {
            return Err(BlockFault::Order {
                thread: self.thread,
                found: head.event,
                expected: self.at.event,
            });
        }
        let here = (self.at.allocated, self.at.time, self.at.stamp);
        if (head.allocated, head.time, head.stamp) != here {
            return Err(BlockFault::Clocks);
        }
        Ok(())
    }

    /// Unpacks the next events; none are left at the end of the stream.
    fn next_batch(&mut self) -> Result<(), TraceError> {
        self.batch.clear();
        self.given = 0;
        while self.batch.is_empty() {
            let passed_over = std::mem::take(&mut self.passed_over);
            self.left -= passed_over;
            self.at.event += u64::from(passed_over);
            if let Some(why) = self.fault.take() {
                return Err(self.event_fault(why));
            }
            if self.left > 0 {
                self.unpack();
            } else if !self.next_block()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Unpacks events of the block, up to one that is passed over or wrong.
    fn unpack(&mut self) {
        self.batch.reserve_exact(BATCH);
        for _ in 0..BATCH.min(self.left as usize) {
            match self.unpacked.take(&mut self.batch) {
                Ok(true) => {}
                Ok(false) => {
                    self.passed_over = 1;
                    return;
                }
                Err(why) => {
                    self.fault = Some(why);
                    return;
                }
            }
        }
    }

    #[cold]
    fn read_on(&mut self) -> Option<Result<Event, TraceError>> {
        if self.failed {
            return None;
        }
        match self.next_batch() {
            Ok(()) => {
                let event = *self.batch.first()?;
                Some(self.give(event))
            }
            Err(error) => {
                self.fail();
                Some(Err(error))
            }
        }
    }

    /// Gives out the next event of the batch.
    #[inline]
    fn give(&mut self, event: Event) -> Result<Event, TraceError> {
        if let Err(why) = self.pass(&event) {
            self.fail();
            return Err(self.event_fault(why));
        }
        Ok(event)
    }

    /// Goes behind the next event of the batch, if it may stand here.
    #[inline]
    fn pass(&mut self, event: &Event) -> Result<(), EventFault> {
        if self.ended {
            return Err(EventFault::AfterEnd);
        }
        if event.is_raw() && !self.raw {
            return Err(EventFault::Raw);
        }
        self.at.pass(event)?;
        self.given += 1;
        self.left -= 1;
        self.ended = matches!(event, Event::End);
        Ok(())
    }

    #[cold]
    fn fail(&mut self) {
        self.failed = true;
        self.batch.clear();
    }

    #[cold]
    fn event_fault(&self, why: EventFault) -> TraceError {
        TraceError::Event {
            at: Box::new(self.place(self.at.event)),
            why,
        }
    }
}

impl Iterator for Stream {
    type Item = Result<Event, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.batch.get(self.given) {
            Some(&event) => Some(self.give(event)),
            None => self.read_on(),
        }
    }
}
