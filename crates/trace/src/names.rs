//! Names of classes, places in the program, threads and monitors.

use crate::error::BlockFault;
use crate::varint;
use std::collections::BTreeMap;

/// The most bytes of a name; a longer one is cut.
pub const MAX_NAME: usize = 4096;

/// The kind of a named thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// A class, by the number of its `ClassId`.
    Class,
    /// A place in the program that allocates, by the number of its `SiteId`.
    Site,
    /// A thread, by the number of its `ThreadId`.
    Thread,
    /// A monitor, by the number of its `MonitorId`.
    Monitor,
}

impl Named {
    /// All of them, in the order of their numbers in the format.
    pub const ALL: [Named; 4] = [Named::Class, Named::Site, Named::Thread, Named::Monitor];

    /// The word for it in text.
    pub fn word(self) -> &'static str {
        match self {
            Named::Class => "class",
            Named::Site => "site",
            Named::Thread => "thread",
            Named::Monitor => "monitor",
        }
    }
}

/// The names of a trace.
pub type Names = BTreeMap<(Named, u64), String>;

/// Appends a name to the content of a block.
pub(crate) fn put(into: &mut Vec<u8>, what: Named, number: u64, name: &str) {
    let mut end = name.len().min(MAX_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    varint::put(into, what as u64);
    varint::put(into, number);
    varint::put(into, end as u64);
    into.extend_from_slice(&name.as_bytes()[..end]);
}

/// Reads the names of a block's content.
pub(crate) fn take(content: &[u8], names: &mut Names) -> Result<(), BlockFault> {
    let mut at = 0;
    while at < content.len() {
        let mut number = || varint::take(content, &mut at).map_err(|_| BlockFault::Number);
        let (what, which, length) = (number()?, number()?, number()?);
        let what = usize::try_from(what)
            .ok()
            .and_then(|what| Named::ALL.get(what));
        let length = usize::try_from(length).ok().filter(|it| *it <= MAX_NAME);
        let (Some(what), Some(length)) = (what, length) else {
            return Err(BlockFault::Name);
        };
        let bytes = content.get(at..at + length).ok_or(BlockFault::Name)?;
        at += length;
        let name = std::str::from_utf8(bytes).map_err(|_| BlockFault::Name)?;
        names.insert((*what, which), name.to_owned());
    }
    Ok(())
}
