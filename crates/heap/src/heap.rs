//! The heap: its ranges, its kinds, and queries about addresses.

use crate::address::{SUPERPAGE, Slot, Superpage};
use crate::bits;
use crate::central::Central;
use crate::kind::{KINDS, Kind, KindId};
use crate::os::Os;
use crate::residency::Means;
use crate::side::{self, Side, Use, UsedBy, flag};
use crate::stress::Stress;
use crate::summary::Store;
use crate::verify::Verifier;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

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

/// The smallest useful heap, in bytes of addresses.
const SMALLEST: usize = 16 << 20;

/// The alignment of a heap's metadata, bytes.
const ALIGNMENT: usize = 2 << 20;

/// A range of superpages and their metadata. It lives as long as the process: its memory is never
/// unmapped.
///
/// All threads read it. Unless a field says otherwise, only the holder of [`Central`] changes it.
pub struct Heap {
    /// The metadata: a table for each kind of it.
    pub(crate) side: Side,
    /// Makes the system calls.
    pub(crate) os: Box<dyn Os>,
    /// Bytes of the heap that are committed: no object lies beyond.
    reach: AtomicUsize,
    /// Bytes of holes opened and of large objects allocated, since the start. Any thread adds to it.
    allocated: AtomicU64,
    /// The kinds of objects. A kind stays as it was added.
    kinds: [OnceLock<Kind>; KINDS],
    /// The blocks of the summaries, with a lock of their own.
    pub(crate) summaries: Store,
    /// Injected faults.
    pub(crate) stress: Stress,
    /// Checks summaries, if that is asked for.
    pub(crate) verifier: Verifier,
    /// A value that nobody writes by accident: it marks freed slots.
    pub(crate) secret: usize,
    /// Writes are tracked, so it is known whether a summary is still valid.
    tracked: AtomicBool,
    /// The means against paging that may be used; set once.
    pub(crate) means: OnceLock<Means>,
    /// Some superpage may be pending. Markers set it.
    pub(crate) pending: AtomicBool,
    /// Some superpage is armed.
    pub(crate) watched: AtomicBool,
    /// The marking of a collection is under way in steps.
    pub(crate) stepping: AtomicBool,
    /// The next look is the second of its collection.
    pub(crate) looked: AtomicBool,
    /// Memory is short: what is given back is worth more than the faults that it costs.
    scarce: AtomicBool,
}

/// Where a heap and its metadata are, for tools that look at the process from outside. Addresses;
/// they hold as long as the process lives.
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
    /// Makes a heap that may grow to `most` bytes of addresses, or to as many as can be set aside
    /// for it. It takes no memory yet, and few addresses. The second value is the state that the heap's
    /// threads share: a program with several threads keeps it behind a lock, and takes that lock before it
    /// stops the world.
    ///
    /// # Errors
    /// There are not even addresses for the metadata of 16 MiB.
    pub fn new(os: Box<dyn Os>, most: usize) -> Result<(Heap, Central), Error> {
        let mut heap = most.max(SMALLEST).next_multiple_of(SUPERPAGE);
        loop {
            match Heap::reserve(os.as_ref(), heap) {
                Ok((side, known)) => {
                    let heap = Heap {
                        side,
                        os,
                        reach: AtomicUsize::new(0),
                        allocated: AtomicU64::new(0),
                        kinds: [const { OnceLock::new() }; KINDS],
                        summaries: Store::new(),
                        stress: Stress::new(),
                        verifier: Verifier::new(),
                        secret: RandomState::new().hash_one(0u8) as usize,
                        tracked: AtomicBool::new(false),
                        means: OnceLock::new(),
                        pending: AtomicBool::new(false),
                        watched: AtomicBool::new(false),
                        stepping: AtomicBool::new(false),
                        looked: AtomicBool::new(false),
                        scarce: AtomicBool::new(false),
                    };
                    return Ok((heap, Central::new(known)));
                }
                Err(source) if heap == SMALLEST => {
                    return Err(Error::NoRoom {
                        bytes: heap,
                        source,
                    });
                }
                Err(_) => heap = (heap / 2).max(SMALLEST).next_multiple_of(SUPERPAGE),
            }
        }
    }

    /// Reserves one range for the metadata and, after it, the heap; returns the tables and how many
    /// superpages they describe so far. Some tables are committed from the start: a process that
    /// has no mappings left can extend a committed range, but cannot begin another one.
    fn reserve(os: &dyn Os, heap: usize) -> std::io::Result<(Side, usize)> {
        let superpages = heap / SUPERPAGE;
        let metadata = side::bytes(superpages);
        let start = os.reserve(metadata + heap, ALIGNMENT)?;
        // SAFETY: reserved just now and never unmapped; nobody else knows of it. The holder of
        // `Central` commits the tables before it uses superpages.
        let side = unsafe { Side::new(start as *const u8, start + metadata, superpages) };
        let known = SMALLEST / SUPERPAGE;
        side.commit(os, 0, known)?;
        Ok((side, known))
    }

    /// Adds a kind of objects and returns its number.
    ///
    /// # Errors
    /// There are [`KINDS`] kinds already.
    pub fn add_kind(&self, kind: Kind) -> Result<KindId, Error> {
        let mut kind = Some(kind);
        for (id, place) in self.kinds.iter().enumerate() {
            place.get_or_init(|| kind.take().expect("taken once, then the loop ends"));
            if kind.is_none() {
                return Ok(KindId(id as u8));
            }
        }
        Err(Error::TooManyKinds)
    }

    /// What the objects of a kind have in common.
    #[inline]
    pub(crate) fn kind(&self, id: KindId) -> Kind {
        *self.kinds[usize::from(id.0)]
            .get()
            .expect("objects are of kinds that were added")
    }

    /// Addresses at which objects may lie now: from the heap's start to the end of the committed
    /// part.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        let start = self.side.heap();
        start..start + self.reach.load(Relaxed)
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
            committed: self.reach.as_ptr() as usize,
        }
    }

    /// Bytes handed out since the start, except of what bins hold ([`Bins::count`](crate::Bins::count)).
    pub fn allocated(&self) -> u64 {
        self.allocated.load(Relaxed)
    }

    pub(crate) fn add_allocated(&self, bytes: usize) {
        self.allocated.fetch_add(bytes as u64, Relaxed);
    }

    /// Whether writes to the heap are tracked.
    pub fn is_tracked(&self) -> bool {
        self.tracked.load(Relaxed)
    }

    pub(crate) fn set_tracked(&self, tracked: bool) {
        self.tracked.store(tracked, Relaxed);
    }

    /// Notes whether memory is short.
    pub fn set_scarce(&self, scarce: bool) {
        self.scarce.store(scarce, Relaxed);
    }

    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce.load(Relaxed)
    }

    pub(crate) fn set_reach(&self, bytes: usize) {
        self.reach.store(bytes, Relaxed);
    }

    /// The slot that an address points into, at its start or inside. `None` outside the heap, and
    /// where no object can be. The slot may be one that was never handed out, or was freed.
    #[inline]
    pub fn slot(&self, address: usize) -> Option<Slot> {
        if !self.range().contains(&address) {
            return None;
        }
        self.side.resolve(address).map(|(slot, _)| slot)
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

    /// Calls `each` with every marked slot, in address order: the objects that the last collection
    /// found, and uncollectable ones.
    pub fn each_marked(&self, central: &Central, mut each: impl FnMut(Slot)) {
        for at in 0..central.committed() as u32 {
            let superpage = Superpage(at);
            let it = self.side.descriptor(superpage);
            let slots = match it.usage() {
                Use::Free | Use::Tail => continue,
                Use::Small => usize::from(it.slots.load(Relaxed)),
                Use::Head => 1,
            };
            for (from, to) in bits::runs(self.side.marks(superpage), 0, slots, true) {
                for index in from..to {
                    let index = index as u16;
                    each(Slot { superpage, index });
                }
            }
        }
    }

    /// Calls `each` with every unmarked slot of a kind, whether it holds a dead object or none, and
    /// marks the slot if `each` returns true.
    pub fn each_unmarked(
        &self,
        central: &Central,
        kind: KindId,
        mut each: impl FnMut(Slot) -> bool,
    ) {
        for slot in self.unmarked(central, kind) {
            if each(slot) {
                self.set_mark(slot);
            }
        }
    }

    /// Iterates over the same slots in address order. A slot is skipped if it has been marked when
    /// its turn comes.
    pub fn unmarked(
        &self,
        central: &Central,
        kind: KindId,
    ) -> impl Iterator<Item = Slot> + Clone + use<'_> {
        let slots_of = move |superpage: Superpage| {
            let it = self.side.descriptor(superpage);
            match it.usage() {
                Use::Small if it.kind.load(Relaxed) == kind.0 => it.slots.load(Relaxed),
                Use::Head if it.kind.load(Relaxed) == kind.0 => 1,
                _ => 0,
            }
        };
        (0..central.committed() as u32)
            .map(Superpage)
            .flat_map(move |superpage| {
                (0..slots_of(superpage)).map(move |index| Slot { superpage, index })
            })
            .filter(|&slot| !self.is_marked(slot))
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
