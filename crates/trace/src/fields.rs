//! Events as a name and named numbers: what text and CSV have in common.

use crate::event::{ClassId, Event, MonitorId, ObjectId, SiteId, ThreadId};
use std::num::NonZeroU32;

/// The names of all numbers, in the order of CSV's columns.
pub const FIELDS: [&str; 14] = [
    "time", "object", "size", "class", "site", "peer", "priority", "monitor", "timeout", "all",
    "order", "holder", "slot", "target",
];

/// The most numbers of an event.
const MOST: usize = 4;

/// The numbers of an event, with their names. Those that are absent or usual are left out.
pub(crate) fn fields(event: &Event) -> impl Iterator<Item = (&'static str, u64)> {
    type Field = Option<(&'static str, u64)>;
    let always = |name, value| Some((name, value));
    let unless = |usual: u64, name, value| (value != usual).then_some((name, value));
    let class_number = |it: Option<ClassId>| it.map_or(0, |it| it.0.get().into());
    let site_number = |it: Option<SiteId>| it.map_or(0, |it| it.0.get().into());
    let all: [Field; MOST] = match *event {
        Event::Compute { time } | Event::Sleep { time } => [always("time", time), None, None, None],
        Event::Alloc {
            object,
            size,
            class,
            site,
        } => [
            always("object", object.0),
            always("size", size),
            unless(0, "class", class_number(class)),
            unless(0, "site", site_number(site)),
        ],
        Event::Death { object } | Event::Use { object } => {
            [always("object", object.0), None, None, None]
        }
        Event::Start { thread, priority } => [
            always("peer", thread.0.into()),
            unless(5, "priority", priority.into()),
            None,
            None,
        ],
        Event::End => [None; MOST],
        Event::Join { thread } | Event::Unpark { thread } => {
            [always("peer", thread.0.into()), None, None, None]
        }
        Event::Enter { monitor } | Event::Exit { monitor } => {
            [always("monitor", monitor.0), None, None, None]
        }
        Event::Wait { monitor, timeout } => [
            always("monitor", monitor.0),
            unless(0, "timeout", timeout),
            None,
            None,
        ],
        Event::Notify { monitor, all } => [
            always("monitor", monitor.0),
            unless(0, "all", all.into()),
            None,
            None,
        ],
        Event::Park { timeout } => [unless(0, "timeout", timeout), None, None, None],
        Event::Stamp { order } => [always("order", order), None, None, None],
        Event::Store {
            holder,
            slot,
            target,
        } => [
            always("holder", holder.0),
            always("slot", slot.into()),
            unless(0, "target", target.0),
            None,
        ],
        Event::StoreStatic {
            class,
            slot,
            target,
        } => [
            always("class", class.0.get().into()),
            always("slot", slot.into()),
            unless(0, "target", target.0),
            None,
        ],
    };
    all.into_iter().flatten()
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
