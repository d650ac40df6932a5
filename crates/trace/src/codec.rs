//! Events as columns: a byte for the kind of each event, and for each property of events a column of numbers.
//! Columns compress better than records, and a reader without a compiler decodes each as one array.
//!
//! An event takes at most one number from a column. Objects, monitors and stamps are told as differences.

use crate::error::{BlockFault, EventFault};
use crate::event::{ClassId, Event, MAX_OBJECT, MonitorId, ObjectId, SiteId, ThreadId};
use crate::varint::{self, fold, unfold};
use std::num::NonZeroU32;

/// The columns, in the order in which a block has them. The numbers are part of the format.
#[derive(Clone, Copy)]
enum Column {
    Tag,
    Compute,
    Pause,
    Object,
    Size,
    Class,
    Site,
    Named,
    Monitor,
    Thread,
    Priority,
    Stamp,
    Slot,
    Holder,
    Target,
}

/// How many columns this version has.
const COLUMNS: usize = Column::Target as usize + 1;
/// The most columns of a block; a newer revision may add some.
const MOST_COLUMNS: usize = 64;

/// The kinds of events, the low five bits of a tag. The numbers are part of the format.
mod kind {
    pub(super) const COMPUTE: u8 = 0;
    pub(super) const SLEEP: u8 = 1;
    pub(super) const ALLOC: u8 = 2;
    pub(super) const DEATH: u8 = 3;
    pub(super) const START: u8 = 4;
    pub(super) const END: u8 = 5;
    pub(super) const JOIN: u8 = 6;
    pub(super) const ENTER: u8 = 7;
    pub(super) const EXIT: u8 = 8;
    pub(super) const WAIT: u8 = 9;
    pub(super) const NOTIFY: u8 = 10;
    pub(super) const PARK: u8 = 11;
    pub(super) const UNPARK: u8 = 12;
    pub(super) const STAMP: u8 = 13;
    pub(super) const STORE: u8 = 14;
    pub(super) const STORE_STATIC: u8 = 15;
    pub(super) const USE: u8 = 16;
    /// From here on, a reader that does not know a kind passes over the event.
    pub(super) const PASSED_OVER: u8 = 24;
    pub(super) const MASK: u8 = 31;
}

/// Three bits above the kind say how the event is told.
mod flag {
    /// Alloc: the object's number is told. Otherwise it is one more than that of the thread's last object.
    pub(super) const NUMBERED: u8 = 32;
    /// Alloc: the size is told in bytes, otherwise in units of 8 bytes.
    pub(super) const BYTES: u8 = 64;
    /// Alloc: class and site are told; 0 is none.
    pub(super) const CLASSED: u8 = 128;
    /// Start: the priority is told; otherwise it is 5.
    pub(super) const PRIORITY: u8 = 32;
    /// Enter, exit, wait, notify: the monitor is that of the thread's last such event.
    pub(super) const SAME: u8 = 32;
    /// Wait, park: a timeout is told.
    pub(super) const TIMEOUT: u8 = 64;
    /// Notify: all.
    pub(super) const ALL: u8 = 64;
    /// Store, store-static: the target is told; otherwise it is null.
    pub(super) const TARGET: u8 = 32;
}

/// The priority of a thread whose program sets none.
const USUAL_PRIORITY: u8 = 5;

/// Where a stream stands: its clocks, and what differences are told from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// How many events stand before.
    pub event: u64,
    /// The allocation clock, bytes.
    pub allocated: u64,
    /// The processor time so far, in the trace's unit.
    pub time: u64,
    /// The number of the object that the thread allocated last.
    pub object: u64,
    /// The last stamp.
    pub stamp: u64,
    /// How many objects the thread has allocated.
    pub objects: u64,
    /// The monitor of the last event that has one. Each block begins with 0.
    pub(crate) monitor: u64,
}

impl Position {
    /// Where the stream stands after an event, or what is wrong with the event here.
    #[inline]
    pub(crate) fn after(mut self, event: &Event) -> Result<Position, EventFault> {
        self.event += 1;
        match *event {
            Event::Compute { time } => {
                self.time = self.time.checked_add(time).ok_or(EventFault::Clock)?;
            }
            Event::Alloc { object, size, .. } => {
                match size {
                    0 => return Err(EventFault::EmptyObject),
                    1..=MAX_OBJECT => {}
                    _ => return Err(EventFault::HugeObject(size)),
                }
                named(object)?;
                self.allocated = self.allocated.checked_add(size).ok_or(EventFault::Clock)?;
                self.object = object.0;
                self.objects += 1;
            }
            Event::Death { object } | Event::Use { object } => named(object)?,
            Event::Store { holder, .. } => named(holder)?,
            Event::Start { priority, .. } if !(1..=10).contains(&priority) => {
                return Err(EventFault::Priority(priority.into()));
            }
            Event::Stamp { order } => {
                if order <= self.stamp {
                    return Err(EventFault::Stamp {
                        found: order,
                        before: self.stamp,
                    });
                }
                self.stamp = order;
            }
            Event::Enter { monitor }
            | Event::Exit { monitor }
            | Event::Wait { monitor, .. }
            | Event::Notify { monitor, .. } => self.monitor = monitor.0,
            _ => {}
        }
        Ok(self)
    }
}

#[inline]
fn named(object: ObjectId) -> Result<(), EventFault> {
    if object.0 == 0 {
        Err(EventFault::Null)
    } else {
        Ok(())
    }
}

/// The columns of a block that is being written.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    bytes: [Vec<u8>; COLUMNS],
}

impl Columns {
    /// Appends an event that is right at a position.
    pub(crate) fn put(&mut self, event: &Event, from: &Position) {
        let tag = match *event {
            Event::Compute { time } => self.told(Column::Compute, time, kind::COMPUTE),
            Event::Sleep { time } => self.told(Column::Pause, time, kind::SLEEP),
            Event::Alloc {
                object,
                size,
                class,
                site,
            } => self.allocated(object, size, class, site, from),
            Event::Death { object } => self.object(object, kind::DEATH, from),
            Event::Use { object } => self.object(object, kind::USE, from),
            Event::Start { thread, priority } => {
                let tag = self.told(Column::Thread, thread.0.into(), kind::START);
                if priority == USUAL_PRIORITY {
                    tag
                } else {
                    self.told(Column::Priority, priority.into(), tag | flag::PRIORITY)
                }
            }
            Event::End => kind::END,
            Event::Join { thread } => self.told(Column::Thread, thread.0.into(), kind::JOIN),
            Event::Unpark { thread } => self.told(Column::Thread, thread.0.into(), kind::UNPARK),
            Event::Enter { monitor } => self.monitor(monitor, kind::ENTER, from),
            Event::Exit { monitor } => self.monitor(monitor, kind::EXIT, from),
            Event::Wait { monitor, timeout } => {
                let tag = self.monitor(monitor, kind::WAIT, from);
                self.timeout(timeout, tag)
            }
            Event::Notify { monitor, all } => {
                self.monitor(monitor, kind::NOTIFY, from) | if all { flag::ALL } else { 0 }
            }
            Event::Park { timeout } => self.timeout(timeout, kind::PARK),
            Event::Stamp { order } => self.told(Column::Stamp, order - from.stamp, kind::STAMP),
            Event::Store {
                holder,
                slot,
                target,
            } => {
                let tag = self.object(holder, kind::STORE, from);
                self.told(Column::Slot, slot.into(), tag);
                self.target(target, tag, from)
            }
            Event::StoreStatic {
                class,
                slot,
                target,
            } => {
                let tag = self.told(Column::Holder, class.0.get().into(), kind::STORE_STATIC);
                self.told(Column::Slot, slot.into(), tag);
                self.target(target, tag, from)
            }
        };
        self.bytes[Column::Tag as usize].push(tag);
    }

    fn told(&mut self, column: Column, value: u64, tag: u8) -> u8 {
        varint::put(&mut self.bytes[column as usize], value);
        tag
    }

    fn allocated(
        &mut self,
        object: ObjectId,
        size: u64,
        class: Option<ClassId>,
        site: Option<SiteId>,
        from: &Position,
    ) -> u8 {
        let mut tag = kind::ALLOC;
        let usual = from.object.wrapping_add(1);
        if object.0 != usual {
            tag |= self.told(Column::Object, fold(object.0, usual), flag::NUMBERED);
        }
        tag |= if size.is_multiple_of(8) {
            self.told(Column::Size, size / 8, 0)
        } else {
            self.told(Column::Size, size, flag::BYTES)
        };
        if class.is_some() || site.is_some() {
            self.told(Column::Class, class.map_or(0, |it| it.0.get().into()), 0);
            self.told(Column::Site, site.map_or(0, |it| it.0.get().into()), 0);
            tag |= flag::CLASSED;
        }
        tag
    }

    fn object(&mut self, object: ObjectId, tag: u8, from: &Position) -> u8 {
        self.told(Column::Named, fold(from.object, object.0), tag)
    }

    fn target(&mut self, target: ObjectId, tag: u8, from: &Position) -> u8 {
        if target.0 == 0 {
            return tag;
        }
        self.told(
            Column::Target,
            fold(from.object, target.0),
            tag | flag::TARGET,
        )
    }

    fn monitor(&mut self, monitor: MonitorId, tag: u8, from: &Position) -> u8 {
        if monitor.0 == from.monitor {
            return tag | flag::SAME;
        }
        self.told(Column::Monitor, fold(monitor.0, from.monitor), tag)
    }

    fn timeout(&mut self, timeout: u64, tag: u8) -> u8 {
        if timeout == 0 {
            return tag;
        }
        self.told(Column::Pause, timeout, tag | flag::TIMEOUT)
    }

    /// Bytes so far.
    pub(crate) fn length(&self) -> usize {
        self.bytes.iter().map(Vec::len).sum()
    }

    /// Appends the table and the columns to `into`, and empties the columns.
    pub(crate) fn pack(&mut self, into: &mut Vec<u8>) {
        varint::put(into, COLUMNS as u64);
        for column in &self.bytes {
            varint::put(into, column.len() as u64);
        }
        for column in &mut self.bytes {
            into.append(column);
        }
    }
}

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
