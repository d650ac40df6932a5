//! Events become columns.

use super::{COLUMNS, Column, Position, USUAL_PRIORITY, flag, kind};
use crate::event::{ClassId, Event, MonitorId, ObjectId, SiteId};
use crate::varint::{self, fold};

/// The columns of a block that is being written.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    bytes: [Vec<u8>; COLUMNS],
}

impl Columns {
    /// Appends an event that is right at a position.
    pub(crate) fn put(&mut self, event: &Event, from: &Position) {
        let tag = match *event {
            Event::Compute { time } => self.column(Column::Compute, time, kind::COMPUTE),
            Event::Sleep { time } => self.column(Column::Pause, time, kind::SLEEP),
            Event::Alloc {
                object,
                size,
                class,
                site,
            } => self.allocated(object, size, class, site, from),
            Event::Death { object } => self.object(object, kind::DEATH, from),
            Event::Use { object } => self.object(object, kind::USE, from),
            Event::Start { thread, priority } => {
                let tag = self.column(Column::Thread, thread.0.into(), kind::START);
                if priority == USUAL_PRIORITY {
                    tag
                } else {
                    self.column(Column::Priority, priority.into(), tag | flag::PRIORITY)
                }
            }
            Event::End => kind::END,
            Event::Join { thread } => self.column(Column::Thread, thread.0.into(), kind::JOIN),
            Event::Unpark { thread } => self.column(Column::Thread, thread.0.into(), kind::UNPARK),
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
            Event::Stamp { order } => self.column(Column::Stamp, order - from.stamp, kind::STAMP),
            Event::Store {
                holder,
                slot,
                target,
            } => {
                let tag = self.object(holder, kind::STORE, from);
                self.column(Column::Slot, slot.into(), tag);
                self.target(target, tag, from)
            }
            Event::StoreStatic {
                class,
                slot,
                target,
            } => {
                let tag = self.column(Column::Holder, class.0.get().into(), kind::STORE_STATIC);
                self.column(Column::Slot, slot.into(), tag);
                self.target(target, tag, from)
            }
        };
        self.bytes[Column::Tag as usize].push(tag);
    }

    fn column(&mut self, column: Column, value: u64, tag: u8) -> u8 {
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
            tag |= self.column(Column::Object, fold(object.0, usual), flag::NUMBERED);
        }
        tag |= if size.is_multiple_of(8) {
            self.column(Column::Size, size / 8, 0)
        } else {
            self.column(Column::Size, size, flag::BYTES)
        };
        if class.is_some() || site.is_some() {
            self.column(Column::Class, class.map_or(0, |it| it.0.get().into()), 0);
            self.column(Column::Site, site.map_or(0, |it| it.0.get().into()), 0);
            tag |= flag::CLASSED;
        }
        tag
    }

    fn object(&mut self, object: ObjectId, tag: u8, from: &Position) -> u8 {
        self.column(Column::Named, fold(from.object, object.0), tag)
    }

    fn target(&mut self, target: ObjectId, tag: u8, from: &Position) -> u8 {
        if target.0 == 0 {
            return tag;
        }
        self.column(
            Column::Target,
            fold(from.object, target.0),
            tag | flag::TARGET,
        )
    }

    fn monitor(&mut self, monitor: MonitorId, tag: u8, from: &Position) -> u8 {
        if monitor.0 == from.monitor {
            return tag | flag::SAME;
        }
        self.column(Column::Monitor, fold(monitor.0, from.monitor), tag)
    }

    fn timeout(&mut self, timeout: u64, tag: u8) -> u8 {
        if timeout == 0 {
            return tag;
        }
        self.column(Column::Pause, timeout, tag | flag::TIMEOUT)
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
