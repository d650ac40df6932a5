//! Columns become events.

use super::{COLUMNS, Column, MOST_COLUMNS, Position, USUAL_PRIORITY, flag, kind};
use crate::error::{BlockFault, EventFault};
use crate::event::{ClassId, Event, MonitorId, ObjectId, SiteId, ThreadId};
use crate::varint::{self, unfold};
use std::num::NonZeroU32;

/// The columns of a block that is being read.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    bytes: Vec<u8>,
    /// Of each column, the next byte and the end.
    columns: [(usize, usize); COLUMNS],
}

impl Unpacked {
    /// Takes the content of a block.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Unpacked, BlockFault> {
        let mut at = 0;
        let mut next = || {
            let value = varint::take(&bytes, &mut at).map_err(|_| BlockFault::Columns)?;
            Ok((usize::try_from(value).map_err(|_| BlockFault::Columns)?, at))
        };
        let (count, _) = next()?;
        if !(1..=MOST_COLUMNS).contains(&count) {
            return Err(BlockFault::Columns);
        }
        let mut lengths = [0; MOST_COLUMNS];
        let mut begin = 0;
        for length in &mut lengths[..count] {
            (*length, begin) = next()?;
        }
        let mut columns = [(0, 0); COLUMNS];
        for (index, length) in lengths[..count].iter().enumerate() {
            let end = begin.checked_add(*length).filter(|end| *end <= bytes.len());
            let end = end.ok_or(BlockFault::Columns)?;
            if let Some(column) = columns.get_mut(index) {
                *column = (begin, end);
            }
            begin = end;
        }
        if begin != bytes.len() {
            return Err(BlockFault::Columns);
        }
        Ok(Unpacked { bytes, columns })
    }

    /// Gives the memory back, to be used for the next block.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// How many events there are.
    pub(crate) fn events(&self) -> usize {
        let (next, end) = self.columns[Column::Tag as usize];
        end - next
    }

    /// Whether all columns are read to their ends.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.iter().all(|(next, end)| next == end)
    }

    /// The next event at a position; `None` for one that a reader passes over when it does not know its kind.
    /// There has to be one more.
    #[inline]
    pub(crate) fn take(&mut self, from: &Position) -> Result<Option<Event>, EventFault> {
        let tag = self.tag()?;
        let event = match tag & kind::MASK {
            kind::COMPUTE => Event::Compute {
                time: self.number(Column::Compute)?,
            },
            kind::ALLOC => self.alloc(tag, from)?,
            kind::DEATH => Event::Death {
                object: self.named(from)?,
            },
            _ => return self.take_other(tag, from),
        };
        Ok(Some(event))
    }

    fn take_other(&mut self, tag: u8, from: &Position) -> Result<Option<Event>, EventFault> {
        Ok(Some(match tag & kind::MASK {
            kind::SLEEP => Event::Sleep {
                time: self.number(Column::Pause)?,
            },
            kind::START => Event::Start {
                thread: self.thread()?,
                priority: self.priority(tag)?,
            },
            kind::END => Event::End,
            kind::JOIN => Event::Join {
                thread: self.thread()?,
            },
            kind::UNPARK => Event::Unpark {
                thread: self.thread()?,
            },
            kind::ENTER => Event::Enter {
                monitor: self.monitor(tag, from)?,
            },
            kind::EXIT => Event::Exit {
                monitor: self.monitor(tag, from)?,
            },
            kind::WAIT => Event::Wait {
                monitor: self.monitor(tag, from)?,
                timeout: self.timeout(tag)?,
            },
            kind::NOTIFY => Event::Notify {
                monitor: self.monitor(tag, from)?,
                all: tag & flag::ALL != 0,
            },
            kind::PARK => Event::Park {
                timeout: self.timeout(tag)?,
            },
            kind::STAMP => {
                let rise = self.number(Column::Stamp)?;
                let order = from.stamp.checked_add(rise).ok_or(EventFault::Range)?;
                Event::Stamp { order }
            }
            kind::STORE => Event::Store {
                holder: self.named(from)?,
                slot: self.narrow(Column::Slot)?,
                target: self.target(tag, from)?,
            },
            kind::STORE_STATIC => Event::StoreStatic {
                class: ClassId(self.optional(Column::Holder)?.ok_or(EventFault::Range)?),
                slot: self.narrow(Column::Slot)?,
                target: self.target(tag, from)?,
            },
            kind::USE => Event::Use {
                object: self.named(from)?,
            },
            kind::PASSED_OVER.. => return Ok(None),
            unknown => return Err(EventFault::Kind(unknown)),
        }))
    }

    #[inline]
    fn tag(&mut self) -> Result<u8, EventFault> {
        let (next, end) = &mut self.columns[Column::Tag as usize];
        if next == end {
            return Err(EventFault::Missing);
        }
        *next += 1;
        Ok(self.bytes[*next - 1])
    }

    #[inline]
    fn number(&mut self, column: Column) -> Result<u64, EventFault> {
        let (next, end) = &mut self.columns[column as usize];
        varint::take(&self.bytes[..*end], next).map_err(|why| match why {
            varint::Unreadable::Cut => EventFault::Missing,
            varint::Unreadable::TooLong => EventFault::Range,
        })
    }

    fn narrow(&mut self, column: Column) -> Result<u32, EventFault> {
        u32::try_from(self.number(column)?).map_err(|_| EventFault::Range)
    }

    fn optional(&mut self, column: Column) -> Result<Option<NonZeroU32>, EventFault> {
        Ok(NonZeroU32::new(self.narrow(column)?))
    }

    #[inline]
    fn alloc(&mut self, tag: u8, from: &Position) -> Result<Event, EventFault> {
        let usual = from.object.wrapping_add(1);
        let object = if tag & flag::NUMBERED == 0 {
            usual
        } else {
            unfold(self.number(Column::Object)?, usual)
        };
        let told = self.number(Column::Size)?;
        let size = if tag & flag::BYTES == 0 {
            told.checked_mul(8).ok_or(EventFault::Range)?
        } else {
            told
        };
        let (mut class, mut site) = (None, None);
        if tag & flag::CLASSED != 0 {
            class = self.optional(Column::Class)?.map(ClassId);
            site = self.optional(Column::Site)?.map(SiteId);
        }
        Ok(Event::Alloc {
            object: ObjectId(object),
            size,
            class,
            site,
        })
    }

    #[inline]
    fn named(&mut self, from: &Position) -> Result<ObjectId, EventFault> {
        Ok(ObjectId(back(self.number(Column::Named)?, from.object)))
    }

    fn target(&mut self, tag: u8, from: &Position) -> Result<ObjectId, EventFault> {
        if tag & flag::TARGET == 0 {
            return Ok(ObjectId(0));
        }
        Ok(ObjectId(back(self.number(Column::Target)?, from.object)))
    }

    fn monitor(&mut self, tag: u8, from: &Position) -> Result<MonitorId, EventFault> {
        if tag & flag::SAME != 0 {
            return Ok(MonitorId(from.monitor));
        }
        Ok(MonitorId(unfold(
            self.number(Column::Monitor)?,
            from.monitor,
        )))
    }

    fn thread(&mut self) -> Result<ThreadId, EventFault> {
        Ok(ThreadId(self.narrow(Column::Thread)?))
    }

    fn priority(&mut self, tag: u8) -> Result<u8, EventFault> {
        if tag & flag::PRIORITY == 0 {
            return Ok(USUAL_PRIORITY);
        }
        let told = self.number(Column::Priority)?;
        u8::try_from(told).map_err(|_| EventFault::Priority(told))
    }

    fn timeout(&mut self, tag: u8) -> Result<u64, EventFault> {
        if tag & flag::TIMEOUT == 0 {
            return Ok(0);
        }
        self.number(Column::Pause)
    }
}

/// The object that lies a folded difference before another one.
#[inline]
fn back(folded: u64, from: u64) -> u64 {
    from.wrapping_sub((folded >> 1) ^ (folded & 1).wrapping_neg())
}
