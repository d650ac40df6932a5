//! Events as columns: a byte for the kind of each event, and for each property of events a column of numbers.
//! Columns compress better than records, and a reader without a compiler decodes each as one array.
//!
//! An event takes at most one number from a column. Objects, monitors and stamps are written as differences.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `write` | events become columns |
//! | `read` | columns become events |

mod read;
mod write;

pub(crate) use read::Unpacked;
pub(crate) use write::Columns;

use crate::error::EventFault;
use crate::event::{Event, MAX_OBJECT, ObjectId};

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

/// Three bits above the kind give the form of the event.
mod flag {
    /// Alloc: the object's number is written. Otherwise it is one more than that of the thread's last object.
    pub(super) const NUMBERED: u8 = 32;
    /// Alloc: the size is written in bytes, otherwise in units of 8 bytes.
    pub(super) const BYTES: u8 = 64;
    /// Alloc: class and site are written; 0 is none.
    pub(super) const CLASSED: u8 = 128;
    /// Start: the priority is written; otherwise it is 5.
    pub(super) const PRIORITY: u8 = 32;
    /// Enter, exit, wait, notify: the monitor is that of the thread's last such event.
    pub(super) const SAME: u8 = 32;
    /// Wait, park: a timeout is written.
    pub(super) const TIMEOUT: u8 = 64;
    /// Notify: all.
    pub(super) const ALL: u8 = 64;
    /// Store, store-static: the target is written; otherwise it is null.
    pub(super) const TARGET: u8 = 32;
}

/// The priority of a thread whose program sets none.
const USUAL_PRIORITY: u8 = 5;

/// The position in a stream: its clocks, and the values that differences are relative to.
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
        self.pass(event)?;
        Ok(self)
    }

    /// Goes behind an event; stays before it if it is wrong here.
    #[inline]
    pub(crate) fn pass(&mut self, event: &Event) -> Result<(), EventFault> {
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
        self.event += 1;
        Ok(())
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
