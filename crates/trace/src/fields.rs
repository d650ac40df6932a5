//! Events as a name and named numbers, for text and CSV.

use crate::event::{ClassId, Event, MonitorId, ObjectId, SiteId, ThreadId};
use std::num::NonZeroU32;

/// The names of all numbers, in the order of CSV's columns.
pub const FIELDS: [&str; 14] = [
    "time", "object", "size", "class", "site", "peer", "priority", "monitor", "timeout", "all",
    "order", "holder", "slot", "target",
];

/// A number of an event with its name, if it is written.
type Field = Option<(&'static str, u64)>;

/// The numbers of an event, with their names. Those that are absent or usual are left out.
pub(crate) fn fields(event: &Event) -> impl Iterator<Item = (&'static str, u64)> {
    let one = |first| [first, None, None, None];
    let two = |first, second| [first, second, None, None];
    let all: [Field; 4] = match *event {
        Event::Compute { time } | Event::Sleep { time } => one(field("time", time)),
        Event::Alloc {
            object,
            size,
            class,
            site,
        } => [
            field("object", object.0),
            field("size", size),
            class.and_then(|it| field("class", it.0.get().into())),
            site.and_then(|it| field("site", it.0.get().into())),
        ],
        Event::Death { object } | Event::Use { object } => one(field("object", object.0)),
        Event::Start { thread, priority } => two(
            field("peer", thread.0.into()),
            unless(5, "priority", priority.into()),
        ),
        Event::End => [None; 4],
        Event::Join { thread } | Event::Unpark { thread } => one(field("peer", thread.0.into())),
        Event::Enter { monitor } | Event::Exit { monitor } => one(field("monitor", monitor.0)),
        Event::Wait { monitor, timeout } => {
            two(field("monitor", monitor.0), unless(0, "timeout", timeout))
        }
        Event::Notify { monitor, all } => {
            two(field("monitor", monitor.0), unless(0, "all", all.into()))
        }
        Event::Park { timeout } => one(unless(0, "timeout", timeout)),
        Event::Stamp { order } => one(field("order", order)),
        Event::Store {
            holder,
            slot,
            target,
        } => stored(field("holder", holder.0), slot, target),
        Event::StoreStatic {
            class,
            slot,
            target,
        } => stored(field("class", class.0.get().into()), slot, target),
    };
    all.into_iter().flatten()
}

fn field(name: &'static str, value: u64) -> Field {
    Some((name, value))
}

fn unless(usual: u64, name: &'static str, value: u64) -> Field {
    (value != usual).then_some((name, value))
}

fn stored(holder: Field, slot: u32, target: ObjectId) -> [Field; 4] {
    let slot = field("slot", slot.into());
    [holder, slot, unless(0, "target", target.0), None]
}

/// The numbers of an event that is being read: those that its line has.
pub(crate) struct Given([Option<u64>; FIELDS.len()]);

impl Given {
    pub(crate) fn new() -> Given {
        Given([None; FIELDS.len()])
    }

    /// Takes a number by its name.
    pub(crate) fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let index = FIELDS.iter().position(|field| *field == name);
        let index = index.ok_or_else(|| format!("there is no `{name}` in events"))?;
        let number = value.parse();
        let number = number
            .map_err(|_| format!("{name}={value}: give a whole number from 0 to 2^64 - 1"))?;
        match self.0[index].replace(number) {
            Some(_) => Err(format!("`{name}` is given twice")),
            None => Ok(()),
        }
    }

    fn number(&mut self, name: &str) -> Result<u64, String> {
        self.usual(name)
            .ok_or_else(|| format!("`{name}` is missing"))
    }

    fn usual(&mut self, name: &str) -> Option<u64> {
        let index = FIELDS.iter().position(|field| *field == name)?;
        self.0[index].take()
    }

    fn narrow(&mut self, name: &str) -> Result<u32, String> {
        let number = self.number(name)?;
        u32::try_from(number).map_err(|_| format!("{name}={number} is more than 2^32 - 1"))
    }

    fn optional(&mut self, name: &str) -> Result<Option<NonZeroU32>, String> {
        match self.usual(name) {
            None => Ok(None),
            Some(number) => match u32::try_from(number) {
                Ok(number) => Ok(NonZeroU32::new(number)),
                Err(_) => Err(format!("{name}={number} is more than 2^32 - 1")),
            },
        }
    }

    fn object(&mut self) -> Result<ObjectId, String> {
        Ok(ObjectId(self.number("object")?))
    }

    fn monitor(&mut self) -> Result<MonitorId, String> {
        Ok(MonitorId(self.number("monitor")?))
    }

    fn peer(&mut self) -> Result<ThreadId, String> {
        Ok(ThreadId(self.narrow("peer")?))
    }

    fn timeout(&mut self) -> u64 {
        self.usual("timeout").unwrap_or(0)
    }

    fn target(&mut self) -> ObjectId {
        ObjectId(self.usual("target").unwrap_or(0))
    }

    /// The event with a name and these numbers. Whether it can be where it is, the writer of traces says.
    pub(crate) fn event(mut self, name: &str) -> Result<Event, String> {
        let event = match name {
            "compute" => Event::Compute {
                time: self.number("time")?,
            },
            "sleep" => Event::Sleep {
                time: self.number("time")?,
            },
            "alloc" => Event::Alloc {
                object: self.object()?,
                size: self.number("size")?,
                class: self.optional("class")?.map(ClassId),
                site: self.optional("site")?.map(SiteId),
            },
            "death" => Event::Death {
                object: self.object()?,
            },
            "use" => Event::Use {
                object: self.object()?,
            },
            "start" => Event::Start {
                thread: self.peer()?,
                // The writer of traces refuses what is no priority.
                priority: self.usual("priority").map_or(5, |it| it.min(255) as u8),
            },
            "end" => Event::End,
            "join" => Event::Join {
                thread: self.peer()?,
            },
            "unpark" => Event::Unpark {
                thread: self.peer()?,
            },
            "enter" => Event::Enter {
                monitor: self.monitor()?,
            },
            "exit" => Event::Exit {
                monitor: self.monitor()?,
            },
            "park" => Event::Park {
                timeout: self.timeout(),
            },
            "stamp" => Event::Stamp {
                order: self.number("order")?,
            },
            _ => self.other(name)?,
        };
        match FIELDS.iter().zip(self.0).find(|(_, left)| left.is_some()) {
            Some((field, _)) => Err(format!("`{name}` has no `{field}`")),
            None => Ok(event),
        }
    }

    fn other(&mut self, name: &str) -> Result<Event, String> {
        Ok(match name {
            "wait" => Event::Wait {
                monitor: self.monitor()?,
                timeout: self.timeout(),
            },
            "notify" => Event::Notify {
                monitor: self.monitor()?,
                all: match self.usual("all") {
                    None | Some(0) => false,
                    Some(1) => true,
                    Some(other) => return Err(format!("all={other}: give 0 or 1")),
                },
            },
            "store" => Event::Store {
                holder: ObjectId(self.number("holder")?),
                slot: self.narrow("slot")?,
                target: self.target(),
            },
            "store-static" => Event::StoreStatic {
                class: ClassId(self.optional("class")?.ok_or("`class` is missing or 0")?),
                slot: self.narrow("slot")?,
                target: self.target(),
            },
            _ => return Err(format!("there is no event `{name}`")),
        })
    }
}
