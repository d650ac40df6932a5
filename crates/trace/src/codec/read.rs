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
    /// The next byte and the end of each column.
    columns: [(usize, usize); COLUMNS],
    /// The base of differences: the last object, stamp and monitor of the events that were taken.
    object: u64,
    stamp: u64,
    monitor: u64,
}

impl Unpacked {
    /// Takes the content of a block that begins at a position.
    pub(crate) fn new(bytes: Vec<u8>, from: &Position) -> Result<Unpacked, BlockFault> {
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
        Ok(Unpacked {
            bytes,
            columns,
            object: from.object,
            stamp: from.stamp,
            monitor: from.monitor,
        })
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

    /// Appends the next event to `into`; false, and nothing, for one that a reader passes over when it does
    /// not know its kind. There has to be one more.
    #[inline]
    pub(crate) fn take(&mut self, into: &mut Vec<Event>) -> Result<bool, EventFault> {
        let tag = self.tag()?;
        // The usual kinds go where they belong at once: each has other fields, and a copy of what was just
        // written in parts makes a processor wait.
        match tag & kind::MASK {
            kind::COMPUTE => {
                let time = self.number(Column::Compute)?;
                into.push(Event::Compute { time });
            }
            kind::ALLOC => {
                let (object, size) = self.alloc(tag)?;
                let (class, site) = self.origin(tag)?;
                into.push(Event::Alloc {
                    object,
                    size,
                    class,
                    site,
                });
            }
            kind::DEATH => {
                let object = self.named()?;
                into.push(Event::Death { object });
            }
            kind::PASSED_OVER.. => return Ok(false),
            _ => into.push(self.take_other(tag)?),
        }
        Ok(true)
    }

    fn take_other(&mut self, tag: u8) -> Result<Event, EventFault> {
        Ok(match tag & kind::MASK {
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
                monitor: self.monitor(tag)?,
            },
            kind::EXIT => Event::Exit {
                monitor: self.monitor(tag)?,
            },
            kind::WAIT => Event::Wait {
                monitor: self.monitor(tag)?,
                timeout: self.timeout(tag)?,
            },
            kind::NOTIFY => Event::Notify {
                monitor: self.monitor(tag)?,
                all: tag & flag::ALL != 0,
            },
            kind::PARK => Event::Park {
                timeout: self.timeout(tag)?,
            },
            kind::STAMP => {
                let rise = self.number(Column::Stamp)?;
                self.stamp = self.stamp.checked_add(rise).ok_or(EventFault::Range)?;
                Event::Stamp { order: self.stamp }
            }
            kind::STORE => Event::Store {
                holder: self.named()?,
                slot: self.narrow(Column::Slot)?,
                target: self.target(tag)?,
            },
            kind::STORE_STATIC => Event::StoreStatic {
                class: ClassId(self.optional(Column::Holder)?.ok_or(EventFault::Range)?),
                slot: self.narrow(Column::Slot)?,
                target: self.target(tag)?,
            },
            kind::USE => Event::Use {
                object: self.named()?,
            },
            unknown => return Err(EventFault::Kind(unknown)),
        })
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

    /// The number and the size of an object that is allocated.
    #[inline]
    fn alloc(&mut self, tag: u8) -> Result<(ObjectId, u64), EventFault> {
        let usual = self.object.wrapping_add(1);
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
        self.object = object;
        Ok((ObjectId(object), size))
    }

    /// Its class, and where it is allocated.
    #[inline]
    fn origin(&mut self, tag: u8) -> Result<(Option<ClassId>, Option<SiteId>), EventFault> {
        if tag & flag::CLASSED == 0 {
            return Ok((None, None));
        }
        let class = self.optional(Column::Class)?.map(ClassId);
        let site = self.optional(Column::Site)?.map(SiteId);
        Ok((class, site))
    }

    #[inline]
    fn named(&mut self) -> Result<ObjectId, EventFault> {
        Ok(ObjectId(back(self.number(Column::Named)?, self.object)))
    }

    fn target(&mut self, tag: u8) -> Result<ObjectId, EventFault> {
        if tag & flag::TARGET == 0 {
            return Ok(ObjectId(0));
        }
        Ok(ObjectId(back(self.number(Column::Target)?, self.object)))
    }

    fn monitor(&mut self, tag: u8) -> Result<MonitorId, EventFault> {
        if tag & flag::SAME == 0 {
            self.monitor = unfold(self.number(Column::Monitor)?, self.monitor);
        }
        Ok(MonitorId(self.monitor))
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
