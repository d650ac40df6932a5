//! Fields of the machine's objects, by the names of their types and of themselves.

use crate::memory::{Memory, Unread};
use crate::runtimes::process_words::{Ranges, Words};
use crate::snapshot::Snapshot;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::Addresses;
use plimsoll_programs::hotspot::tables::{Field, Place, Tables};
use thiserror::Error;

/// Why something about the machine is not known. Each completes the sentence "… is not told apart,
/// because …".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Unknown {
    /// This version does not export it.
    #[error("this JVM does not tell debuggers where its {0}::{1} is")]
    Field(&'static str, &'static str),
    /// It cannot be read without disturbing the process, or at all.
    #[error("the JVM's own data about it cannot be read: {0}")]
    Unread(#[from] Unread),
    /// It uses one that is not known here.
    #[error("its collector is none of Serial, Parallel, G1, Shenandoah, ZGC and Epsilon")]
    Collector,
    /// The library does not have it.
    #[error("this JVM has no flag {0}")]
    Flag(&'static str),
    /// The value that was read cannot be true.
    #[error("what was read of {0} makes no sense: the JVM may have changed it meanwhile")]
    Odd(&'static str),
}

/// Result of a look at the machine.
pub(super) type Known<T> = Result<T, Unknown>;

/// Names of a type and a field of it.
pub(super) type Name = (&'static str, &'static str);

/// The machine of a process: its tables, its memory, and where something is mapped.
pub(super) struct Machine<'a> {
    tables: &'a Tables,
    snapshot: &'a Snapshot,
    memory: &'a dyn Memory,
    words: Words<'a>,
    mapped: &'a Ranges,
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        tables: &'a Tables,
        snapshot: &'a Snapshot,
        memory: &'a dyn Memory,
        mapped: &'a Ranges,
    ) -> Machine<'a> {
        Machine {
            tables,
            snapshot,
            memory,
            words: Words::new(snapshot, memory),
            mapped,
        }
    }

    /// The same machine, with nothing read yet.
    pub(super) fn again(&self) -> Machine<'a> {
        Machine::new(self.tables, self.snapshot, self.memory, self.mapped)
    }

    /// Whether this version has such a field.
    pub(super) fn has(&self, name: Name) -> bool {
        self.field(name).is_ok()
    }

    /// Whether debuggers are told of such a type.
    pub(super) fn has_type(&self, name: &str) -> bool {
        self.tables.sizes.contains_key(name)
    }

    fn field(&self, (kind, name): Name) -> Known<&Field> {
        let key = (kind.to_owned(), name.to_owned());
        let field = self.tables.fields.get(&key);
        field.ok_or(Unknown::Field(kind, name))
    }

    /// The value of a constant.
    pub(super) fn constant(&self, name: &str) -> Option<i64> {
        self.tables.constants.get(name).copied()
    }

    /// Whether this version has such a flag.
    pub(super) fn has_flag(&self, name: &str) -> bool {
        self.tables.flags.contains_key(name)
    }

    /// The address of a flag's value.
    pub(super) fn flag_at(&self, name: &'static str) -> Known<u64> {
        let at = self.tables.flags.get(name).copied();
        at.ok_or(Unknown::Flag(name))
    }

    /// Whether a flag that is on or off is on.
    pub(super) fn is_set(&self, name: &'static str) -> Known<bool> {
        Ok(self.byte(self.flag_at(name)?)? != 0)
    }

    /// Whether the text at an address begins so.
    pub(super) fn starts_with(&self, at: u64, text: &[u8]) -> Known<bool> {
        for (at, &byte) in (at..).zip(text) {
            if self.byte(at)? != byte {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The address of a field of the object at `object`.
    pub(super) fn at(&self, object: u64, name: Name) -> Known<u64> {
        match self.field(name)?.place {
            Place::Offset(offset) if offset < MAX_OFFSET => {
                let at = object.checked_add(offset);
                at.filter(|_| object > 0).ok_or(Unknown::Odd(name.0))
            }
            _ => Err(Unknown::Odd(name.0)),
        }
    }

    /// The address of the first of these fields that this version has.
    pub(super) fn at_any(&self, object: u64, names: &[Name]) -> Known<u64> {
        let name = self.known_of(names)?;
        self.at(object, name)
    }

    fn known_of(&self, names: &[Name]) -> Known<Name> {
        let known = names.iter().copied().find(|&name| self.has(name));
        let missing = names.first().copied().unwrap_or_default();
        known.ok_or(Unknown::Field(missing.0, missing.1))
    }

    /// The address of a static field.
    pub(super) fn of_static(&self, name: Name) -> Known<u64> {
        match self.field(name)?.place {
            Place::Static(at) => Ok(at),
            Place::Offset(_) => Err(Unknown::Odd(name.0)),
        }
    }

    /// The 64-bit word at an address.
    pub(super) fn word(&self, at: u64) -> Known<u64> {
        match self.words.word(at) {
            Some(word) => Ok(word),
            // Asked again for the reason.
            None => Ok(self.memory.word(at)?),
        }
    }

    /// The 32-bit word at an address.
    pub(super) fn half(&self, at: u64) -> Known<u32> {
        match self.words.bytes(at) {
            Some(bytes) => Ok(u32::from_le_bytes(bytes)),
            None => Ok(self.memory.half_word(at)?),
        }
    }

    /// The byte at an address.
    pub(super) fn byte(&self, at: u64) -> Known<u8> {
        let mut byte = [0];
        if !self.words.fill(at, &mut byte) {
            self.memory.read(at, &mut byte)?;
        }
        Ok(byte[0])
    }

    /// A 64-bit field of an object.
    pub(super) fn get(&self, object: u64, name: Name) -> Known<u64> {
        self.word(self.at(object, name)?)
    }

    /// A 64-bit field that has had several names.
    pub(super) fn get_any(&self, object: u64, names: &[Name]) -> Known<u64> {
        self.word(self.at_any(object, names)?)
    }

    /// A 64-bit static field.
    pub(super) fn get_static(&self, name: Name) -> Known<u64> {
        self.word(self.of_static(name)?)
    }

    /// A 64-bit field that points to an object.
    pub(super) fn pointer(&self, object: u64, name: Name) -> Known<u64> {
        self.get(object, name)
            .and_then(|to| self.checked(to, name.1))
    }

    /// A static field that points to an object.
    pub(super) fn static_pointer(&self, name: Name) -> Known<u64> {
        self.get_static(name)
            .and_then(|to| self.checked(to, name.1))
    }

    fn checked(&self, to: u64, what: &'static str) -> Known<u64> {
        let is_pointer = to.is_multiple_of(8) && self.mapped.has(to);
        is_pointer.then_some(to).ok_or(Unknown::Odd(what))
    }

    /// All of a reserved space of the machine's, used or not.
    pub(super) fn virtual_space(&self, space: u64, what: &'static str) -> Known<Addresses> {
        let start = self.get(space, ("VirtualSpace", "_low_boundary"))?;
        let end = self.get(space, ("VirtualSpace", "_high_boundary"))?;
        self.range(start, end, what)
    }

    /// A range that is mapped as a whole.
    pub(super) fn range(&self, start: u64, end: u64, what: &'static str) -> Known<Addresses> {
        let range = start..end;
        let is_range = start == end || self.mapped.have(&range);
        is_range.then_some(range).ok_or(Unknown::Odd(what))
    }
}

/// The largest offset of a field that is believed, bytes. The largest object, the heap of ZGC in JDK
/// 21, has 16 KiB.
const MAX_OFFSET: u64 = 1 << 20;

/// All mapped ranges.
pub(super) fn mapped(snapshot: &Snapshot) -> Ranges {
    Ranges::of(snapshot, |_| true)
}

/// The start of the first page in which nothing before `address` is.
pub(super) fn page_after(address: u64) -> u64 {
    let page = page_size();
    address.checked_next_multiple_of(page).unwrap_or(address)
}
