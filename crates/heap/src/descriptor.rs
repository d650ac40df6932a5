//! The entry of one superpage: its use, its kind, its flags, and for how long nobody wrote to it.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};

/// The use of a superpage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Use {
    /// Free, or not committed.
    Free = 0,
    /// Slots of one class.
    Small = 1,
    /// The first superpage of a large object.
    Head = 2,
    /// A later superpage of a large object.
    Tail = 3,
}

/// Flags of a superpage.
pub(crate) mod flag {
    /// Its objects hold no references.
    pub(crate) const OPAQUE: u16 = 1;
    /// The front end traces its objects.
    pub(crate) const TRACED: u16 = 2;
    /// Its objects live until they are freed.
    pub(crate) const UNCOLLECTABLE: u16 = 4;
    /// Only references to its first superpage count (of a large object).
    pub(crate) const FIRST_ONLY: u16 = 8;
    /// It was not written to since the kernel supplied it: all zero.
    pub(crate) const CLEAN: u16 = 16;
    /// It has marked objects that were not scanned. Together with `SUMMARISED`: its summary is
    /// queued to be replayed, or was.
    pub(crate) const PENDING: u16 = 32;
    /// A part of it was in swap when the collection began.
    pub(crate) const ABSENT: u16 = 64;
    /// Its summary was made before this collection, and is valid: the superpage was not written to
    /// since.
    pub(crate) const SUMMARISED: u16 = 128;
    /// A map says where the references in its objects are.
    pub(crate) const MAPPED: u16 = 256;
    /// Some object in it refers to the front end's [`Space`](crate::mark::Space), as far as is known.
    pub(crate) const OUTWARD: u16 = 512;
}

/// Ages of a superpage: collections since it was written to, or one of the special values.
pub(crate) mod age {
    /// It is not armed, so writes to it are not seen.
    pub(crate) const UNKNOWN: u8 = 0;
    /// It was armed after the last collection.
    pub(crate) const ARMED: u8 = 1;
    /// It was not written to from one whole collection to the next.
    pub(crate) const COLD: u8 = 2;
    /// The age stays at this value.
    pub(crate) const OLDEST: u8 = 252;
    /// As `GONE`, but its summary was made by a step, and does not cover objects marked there later
    /// in that collection.
    pub(crate) const GONE_PARTLY: u8 = 253;
    /// A part of it was in swap at the last look, or was paged out since; and it was written to
    /// since it was armed, or was never armed.
    pub(crate) const GONE_WRITTEN: u8 = 254;
    /// As `GONE_WRITTEN`, but it was not written to since it was armed.
    pub(crate) const GONE: u8 = 255;
}

/// In `next`: a bin took this superpage, and hands out its unmarked slots, or has handed out all of
/// them.
pub(crate) const TAKEN: u32 = u32::MAX;
/// In `next`: a bin took this superpage, and left before it handed out all unmarked slots.
pub(crate) const LEFT: u32 = u32::MAX - 1;

/// The state of one superpage. All-zero means free.
///
/// Everybody reads it. Only the holder of [`Central`](crate::Central) changes it, except that
/// markers set `PENDING`.
#[repr(C, align(32))]
#[derive(Default)]
pub(crate) struct Descriptor {
    /// Its use ([`Use`]).
    usage: AtomicU8,
    /// Small: the size class of its slots.
    pub(crate) class: AtomicU8,
    /// The kind of its objects.
    pub(crate) kind: AtomicU16,
    /// Bits of [`flag`].
    flags: AtomicU16,
    /// Small: number of slots.
    pub(crate) slots: AtomicU16,
    /// Small: granules per slot. Head: granules of the object's last superpage that do not belong
    /// to the object.
    pub(crate) granules: AtomicU16,
    /// Small: the factor that turns a granule's number into its slot ([`slot_at`](crate::class::slot_at)).
    pub(crate) reciprocal: AtomicU32,
    /// Head: superpages of the object. Tail: the distance to the head, in superpages.
    pub(crate) extent: AtomicU32,
    /// The next superpage in the list that this one is in, plus 1; 0 ends the list. [`TAKEN`] or
    /// [`LEFT`] if a bin took it.
    pub(crate) next: AtomicU32,
    /// The block of its summary ([`summary`](crate::summary)); 0 for none.
    pub(crate) summary: AtomicU32,
    /// For how many collections it was not written to; see [`age`].
    pub(crate) age: AtomicU8,
    /// For how many more whole collections it is not to be paged out, because it was paged out and
    /// came back.
    pub(crate) hold: AtomicU8,
    /// Free: not 0 if it was armed when it was freed, so that each first write to a page is a fault.
    pub(crate) armed: AtomicU8,
}

impl Descriptor {
    #[inline]
    pub(crate) fn usage(&self) -> Use {
        match self.usage.load(Relaxed) {
            1 => Use::Small,
            2 => Use::Head,
            3 => Use::Tail,
            _ => Use::Free,
        }
    }

    pub(crate) fn set_usage(&self, usage: Use) {
        self.usage.store(usage as u8, Relaxed);
    }

    #[inline]
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags.load(Relaxed) & flag != 0
    }

    #[inline]
    pub(crate) fn flags(&self) -> u16 {
        self.flags.load(Relaxed)
    }

    /// Replaces all flags. No marker may run meanwhile.
    pub(crate) fn set_flags(&self, flags: u16) {
        self.flags.store(flags, Relaxed);
    }

    /// Sets a flag. True if it was not set before.
    pub(crate) fn raise(&self, flag: u16) -> bool {
        self.flags.fetch_or(flag, Relaxed) & flag == 0
    }

    pub(crate) fn lower(&self, flag: u16) {
        self.flags.fetch_and(!flag, Relaxed);
    }

    /// Notes that the superpage was written to.
    pub(crate) fn forget_age(&self) {
        let gone = self.age.load(Relaxed) >= age::GONE_PARTLY;
        let age = if gone {
            age::GONE_WRITTEN
        } else {
            age::UNKNOWN
        };
        self.age.store(age, Relaxed);
    }

    /// Whether the superpage may have been written to since the last collection.
    pub(crate) fn is_young(&self) -> bool {
        matches!(self.age.load(Relaxed), age::UNKNOWN | age::GONE_WRITTEN)
    }
}
