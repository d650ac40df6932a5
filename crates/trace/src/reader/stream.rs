//! The events of a thread.

use super::load::Loader;
use crate::block::{Head, Kind};
use crate::codec::{Position, Unpacked};
use crate::error::{At, BlockFault, EventFault, TraceError};
use crate::event::{Event, ThreadId};

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
    /// Events that are left of the block.
    left: u32,
    unpacked: Unpacked,
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
        self.unpacked = Unpacked::new(content).map_err(|why| fault(self, why))?;
        if self.unpacked.events() != head.count as usize {
            return Err(fault(self, BlockFault::Columns));
        }
        self.left = head.count;
        self.at.monitor = 0;
        self.at.object = head.object;
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

    #[inline]
    fn read(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            if self.left == 0 && !self.next_block()? {
                return Ok(None);
            }
            if self.left == 0 {
                continue;
            }
            let taken = self.unpacked.take(&self.at);
            let event = match taken {
                Ok(Some(event)) => event,
                Ok(None) => {
                    self.left -= 1;
                    self.at.event += 1;
                    continue;
                }
                Err(why) => return Err(self.event_fault(why)),
            };
            if self.ended || (event.is_raw() && !self.raw) {
                let why = if self.ended {
                    EventFault::AfterEnd
                } else {
                    EventFault::Raw
                };
                return Err(self.event_fault(why));
            }
            match self.at.after(&event) {
                Ok(after) => self.at = after,
                Err(why) => return Err(self.event_fault(why)),
            }
            self.left -= 1;
            self.ended = matches!(event, Event::End);
            return Ok(Some(event));
        }
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
        if self.failed {
            return None;
        }
        let read = self.read();
        self.failed = read.is_err();
        read.transpose()
    }
}
