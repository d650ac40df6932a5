//! The heap: its ranges, its kinds, and queries about addresses.

use crate::address::{SUPERPAGE, Slot, Superpage};
use crate::descriptor::flag;
use crate::kind::{KINDS, Kind, KindId, Kinds, Layout, PointerMap};
use crate::side::{self, Side, UsedBy};
use crate::stress::Stress;
use crate::summary::Summaries;
use crate::tracking::Tracking;
use plimsoll_unit::Bytes;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Why a heap, or a kind, could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refuses even the smallest heap.
    #[error(
        "no room for a heap of {bytes} bytes of addresses: {source}; is there a limit on them (`ulimit -v`)?"
    )]
    NoRoom {
        /// Bytes of addresses that were requested last.
        bytes: usize,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The heap has [`KINDS`] kinds already.
    #[error("a heap has at most {KINDS} kinds of objects")]
    TooManyKinds,
}

/// A range of superpages and their metadata. When it is dropped, its memory and its addresses are given
/// back: its objects, and what threads hold of it in [`Bins`](crate::Bins), are not to be used any more.
///
/// All threads read it. Unless a field says otherwise, only the holder of [`Central`](crate::Central)
/// changes it.
pub struct Heap {
    /// The metadata: a table for each kind of it.
    pub(crate) side: Side,
    /// Bytes of holes opened and of large objects allocated, since the start. Any thread adds to it.
    allocated: AtomicU64,
    /// The kinds of objects.
    kinds: Kinds,
    /// Summaries of superpages in swap: their references. They have a lock of their own.
    pub(crate) summaries: Summaries,
    /// Which writes the kernel tracks.
    pub(crate) tracking: Tracking,
    /// Injected faults.
    pub(crate) stress: Stress,
    /// A value that nobody writes by accident: it marks freed slots.
    pub(crate) secret: usize,
    /// Some superpage may be pending. Markers set it.
    pub(crate) pending: AtomicBool,
    /// The marking of a collection is under way in steps.
    pub(crate) stepping: AtomicBool,
    /// The next look is the second of its collection.
    pub(crate) looked: AtomicBool,
    /// Memory is short: what is given back is worth more than the faults that it costs.
    scarce: AtomicBool,
}

/// Where a heap and its metadata are, for tools that look at the process from outside. Addresses;
/// they hold as long as the heap exists.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The first byte of the metadata, which ends where the heap begins.
    pub metadata: usize,
    /// The heap's first byte.
    pub heap: usize,
    /// One past the last byte that may ever belong to the heap.
    pub end: usize,
    /// A table of bits in 64-bit words, one for each superpage, the lowest first: set if the superpage
    /// is committed and free.
    pub free: usize,
    /// The word that says how many bytes of the heap are committed.
    pub committed: usize,
}

impl Heap {
    /// A heap without objects and kinds.
    pub(crate) fn over(side: Side) -> Heap {
        Heap {
            side,
            allocated: AtomicU64::new(0),
            kinds: Kinds::new(),
            summaries: Summaries::default(),
            tracking: Tracking::default(),
            stress: Stress::default(),
            secret: RandomState::new().hash_one(0u8) as usize,
            pending: AtomicBool::new(false),
            stepping: AtomicBool::new(false),
            looked: AtomicBool::new(false),
            scarce: AtomicBool::new(false),
        }
    }

    /// Adds a kind of objects and returns its number.
    ///
    /// # Errors
    /// There are [`KINDS`] kinds already.
    pub fn add_kind(&self, kind: Kind) -> Result<KindId, Error> {
        self.kinds.add(kind).ok_or(Error::TooManyKinds)
    }

    /// The properties of a kind's objects.
    #[inline]
    pub(crate) fn kind(&self, id: KindId) -> Kind {
        *self.kinds.get(id)
    }

    /// The map of the objects of a superpage. `None` if they have none.
    pub(crate) fn map(&self, superpage: Superpage) -> Option<PointerMap> {
        let it = self.side.descriptor(self.side.head(superpage));
        if !it.has(flag::MAPPED) {
            return None;
        }
        match self.kind(KindId(it.kind.load(Relaxed))).layout {
            Layout::Mapped(map) => Some(map),
            Layout::Opaque | Layout::Words | Layout::Traced => None,
        }
    }

    /// Addresses at which objects may lie now: from the heap's start to the end of the committed
    /// part.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.side.range()
    }

    /// Addresses at which objects may ever lie.
    pub fn reserved(&self) -> Range<usize> {
        let start = self.side.heap();
        start..start + self.side.superpages() * SUPERPAGE
    }

    /// Where the heap and its metadata are.
    pub fn places(&self) -> Places {
        let reserved = self.reserved();
        Places {
            metadata: self.side.metadata(),
            heap: reserved.start,
            end: reserved.end,
            free: self.side.free(0).as_ptr() as usize,
            committed: self.side.reach().as_ptr() as usize,
        }
    }

    /// The memory handed out since the start, except for that in bins ([`Bins::count`](crate::Bins::count)).
    pub fn allocated(&self) -> Bytes {
        Bytes(self.allocated.load(Relaxed))
    }

    pub(crate) fn add_allocated(&self, bytes: usize) {
        self.allocated.fetch_add(bytes as u64, Relaxed);
    }

    /// Whether writes to the heap are tracked.
    pub fn is_tracked(&self) -> bool {
        self.tracking.is_on()
    }

    /// Whether the kernel tracks writes to the heap; tries to turn that on first.
    pub fn can_watch(&self) -> bool {
        self.tracking.is_possible(&self.side)
    }

    /// Bytes that all summaries take.
    pub fn summary_bytes(&self) -> usize {
        self.summaries.bytes()
    }

    /// From now on every collection treats about a third of the heap as absent, chosen by this
    /// seed, and evicts some of it. A seed of 0 turns that off.
    pub fn stress(&self, seed: u64) {
        self.stress.begin(seed);
    }

    /// Whether marking in steps is under way.
    #[inline]
    pub fn is_stepping(&self) -> bool {
        self.stepping.load(Relaxed)
    }

    /// Notes whether memory is short.
    pub fn set_scarce(&self, scarce: bool) {
        self.scarce.store(scarce, Relaxed);
    }

    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce.load(Relaxed)
    }

    /// The slot that an address points into, at its start or inside. `None` outside the heap, and
    /// where no object can be. The slot may be one that was never handed out, or was freed.
    #[inline]
    pub fn slot(&self, address: usize) -> Option<Slot> {
        self.side.slot(address)
    }

    /// The first byte of a slot.
    #[inline]
    pub fn start(&self, slot: Slot) -> usize {
        self.side.start(slot)
    }

    /// Bytes of a slot: at least as many as were requested.
    #[inline]
    pub fn size(&self, slot: Slot) -> usize {
        self.side.size(slot)
    }

    /// The kind of a slot's object.
    #[inline]
    pub fn kind_of(&self, slot: Slot) -> KindId {
        KindId(self.side.descriptor(slot.superpage).kind.load(Relaxed))
    }

    /// Whether the last collection, or the one under way, found the slot's object reachable.
    #[inline]
    pub fn is_marked(&self, slot: Slot) -> bool {
        self.side.is_marked(slot)
    }

    /// Marks a slot on behalf of the front end.
    pub fn set_mark(&self, slot: Slot) {
        self.side.mark::<true>(slot);
        if self.is_stepping() {
            // The object has not been scanned yet: the last step does that.
            let parts = self.size(slot).div_ceil(SUPERPAGE) as u32;
            for at in slot.superpage.0..slot.superpage.0 + parts {
                self.side.descriptor(Superpage(at)).forget_age();
            }
        }
    }

    /// Clears a slot's mark on behalf of the front end.
    pub fn clear_mark(&self, slot: Slot) {
        self.side.unmark(slot);
    }

    /// Whether a slot's object is uncollectable: it lives until it is freed.
    #[inline]
    pub fn is_uncollectable(&self, slot: Slot) -> bool {
        self.side
            .descriptor(slot.superpage)
            .has(flag::UNCOLLECTABLE)
    }

    /// The tables of metadata: their names, their bits per superpage, and for which superpages they
    /// take memory.
    pub fn metadata() -> impl Iterator<Item = (&'static str, usize, UsedBy)> {
        side::specs()
    }
}
