//! Verification: whether a collection lost an object. Everything is marked a second time, from all
//! roots and without summaries, and the results are compared. Always compiled, used only under
//! [`stress`](crate::stress).

use crate::address::{SUPERPAGE, Slot, Superpage};
use crate::descriptor::{Use, age, flag};
use crate::mapped_stack::MappedStack;
use crate::side::Side;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// State that is kept between verifications of one heap.
#[derive(Default)]
pub(crate) struct Verifier {
    /// A logical clock: counts events, to compare their times.
    clock: AtomicU64,
    /// When each superpage was last taken to allocate in.
    taken: Mutex<Option<MappedStack<u64>>>,
    /// The coverage of each superpage's summary.
    spoken: Mutex<Option<Spoken>>,
    /// The buffers of the last verification, to be reused so that addresses are not reserved each
    /// time.
    spare: Mutex<Option<Marks>>,
    /// The marks and the block sums that the last verification left.
    last: Mutex<Option<(Bits, Seen)>>,
    /// The block sums when the steps of a collection began.
    begun: Mutex<Option<Seen>>,
}

impl Verifier {
    /// The current time, later than all times before.
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Relaxed) + 1
    }
}

/// A copy of the mark bits of a heap.
struct Bits(MappedStack<u64>);

impl Bits {
    fn copy(side: &Side, committed: usize, before: Option<Bits>) -> io::Result<Bits> {
        let room = committed.max(1) * WORDS;
        let mut words = MappedStack::again(side.os(), before.map(|bits| bits.0), room)?;
        for at in 0..committed as u32 {
            for word in side.marks(Superpage(at)) {
                words.push(word.load(Relaxed));
            }
        }
        Ok(Bits(words))
    }

    /// In one superpage, clears the bits that `others` does not have.
    fn intersect(&mut self, superpage: Superpage, others: Option<&Bits>) {
        for at in superpage.index() * WORDS..(superpage.index() + 1) * WORDS {
            let both = others.and_then(|others| Some(self.0.get(at)? & others.0.get(at)?));
            self.0.set(at, both.unwrap_or(0));
        }
    }

    fn has(&self, slot: Slot) -> bool {
        let at = slot.superpage.index() * WORDS + usize::from(slot.index) / 64;
        self.0
            .get(at)
            .is_some_and(|word| word >> (slot.index % 64) & 1 != 0)
    }
}

/// A copy of the marks.
pub(crate) struct Marks {
    bits: Bits,
    /// Marked slots whose references the marking knows: it read the object, or trusted a summary that covers
    /// it. A stray word may mark an object again that was dead when the summary was made; nobody uses the
    /// contents of such an object.
    known: Bits,
    /// The state of each superpage when its trusted summary was made, or when a step read it. The
    /// second marking overwrites the original.
    trusted: Trusted,
}

/// The coverage of each superpage's summary: the objects marked there when it was made, the sums over its
/// blocks, and the time it was made.
struct Spoken {
    /// A bit for each slot that was marked.
    marks: Bits,
    /// A sum for each block.
    sums: MappedStack<u64>,
    /// A time for each superpage.
    made: MappedStack<u64>,
}

/// For each trusted superpage, the sums over its blocks and when they were made; 0 for the others.
struct Trusted {
    sums: MappedStack<u64>,
    made: MappedStack<u64>,
}

impl Trusted {
    fn none(side: &Side, committed: usize, before: Option<Trusted>) -> io::Result<Trusted> {
        let (sums, made) = before.map(|it| (it.sums, it.made)).unzip();
        let (os, room) = (side.os(), committed.max(1));
        Ok(Trusted {
            sums: MappedStack::again(os, sums, room * BLOCKS)?,
            made: MappedStack::again(os, made, room)?,
        })
    }

    /// Appends the next superpage; `spoken` is given if it is trusted.
    fn push(&mut self, superpage: Superpage, spoken: Option<&Spoken>) {
        let of = |all: &MappedStack<u64>, at| all.get(at).unwrap_or(0);
        let made = spoken.map_or(0, |spoken| of(&spoken.made, superpage.index()));
        self.made.push(made);
        for at in blocks(superpage) {
            let sum = spoken.map_or(0, |spoken| of(&spoken.sums, at));
            self.sums.push(sum);
        }
    }
}

/// The heap's contents at a time: a sum over each block, and the time.
struct Seen {
    sums: MappedStack<u64>,
    at: u64,
}

/// The numbers of a superpage's blocks.
fn blocks(superpage: Superpage) -> Range<usize> {
    superpage.index() * BLOCKS..(superpage.index() + 1) * BLOCKS
}

/// How two markings of the same heap differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Difference {
    /// Slots that only the first marking reached: stale summaries kept them.
    pub kept: u64,
    /// The address of a slot that only the second marking reached although an object of the first
    /// refers to it: the collection lost it. `None` if there is none.
    pub lost: Option<usize>,
}

fn held<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Verifier {
    /// Records for verifications what a superpage is like that was just scanned and is summarised
    /// now.
    pub(crate) fn remember_spoken(&self, side: &Side, superpage: Superpage) {
        let (os, room) = (side.os(), side.superpages());
        let mut spoken = held(&self.spoken);
        if spoken.is_none() {
            let make = || -> io::Result<Spoken> {
                Ok(Spoken {
                    marks: Bits(MappedStack::zeroed(os, room * WORDS)?),
                    sums: MappedStack::zeroed(os, room * BLOCKS)?,
                    made: MappedStack::zeroed(os, room)?,
                })
            };
            *spoken = make().ok();
        }
        if let Some(spoken) = spoken.as_mut() {
            for (at, word) in side.marks(superpage).iter().enumerate() {
                let at = superpage.index() * WORDS + at;
                spoken.marks.0.set(at, word.load(Relaxed));
            }
            for at in blocks(superpage) {
                spoken.sums.set(at, sum(side, at));
            }
            spoken.made.set(superpage.index(), self.now());
        }
    }

    /// Records for verifications that `count` superpages from `start` on were taken to allocate in.
    pub(crate) fn remember_taken(&self, side: &Side, start: usize, count: usize) {
        let mut taken = held(&self.taken);
        if taken.is_none() {
            *taken = MappedStack::zeroed(side.os(), side.superpages()).ok();
        }
        if let Some(taken) = taken.as_mut() {
            let now = self.now();
            (start..start + count).for_each(|at| taken.set(at, now));
        }
    }

    /// Copies the marks and distrusts all summaries, so that everything can be marked again, from all
    /// roots. The world is stopped; the caller clears the marks.
    ///
    /// # Errors
    /// There is no memory for the copy.
    pub(crate) fn begin(&self, side: &Side, committed: usize) -> io::Result<Marks> {
        let (bits, known, trusted) = match held(&self.spare).take() {
            Some(spare) => (Some(spare.bits), Some(spare.known), Some(spare.trusted)),
            None => (None, None, None),
        };
        let bits = Bits::copy(side, committed, bits)?;
        let mut known = Bits::copy(side, committed, known)?;
        let mut trusted = Trusted::none(side, committed, trusted)?;
        let spoken = held(&self.spoken);
        for at in 0..committed as u32 {
            let it = side.descriptor(Superpage(at));
            if it.has(flag::SUMMARISED) {
                known.intersect(Superpage(at), spoken.as_ref().map(|spoken| &spoken.marks));
            }
            let by_step = it.age.load(Relaxed) == age::GONE_PARTLY;
            let is_trusted = it.has(flag::SUMMARISED) || by_step;
            trusted.push(Superpage(at), spoken.as_ref().filter(|_| is_trusted));
            it.lower(flag::SUMMARISED | flag::PENDING);
        }
        Ok(Marks {
            bits,
            known,
            trusted,
        })
    }

    /// Compares the current marks with those `before`. `is_looked_at` says whether a word of an object may be
    /// a reference, by its number.
    pub(crate) fn end(
        &self,
        side: &Side,
        committed: usize,
        before: Marks,
        is_looked_at: impl Fn(Slot, usize) -> bool,
    ) -> Difference {
        let mut found = Difference::default();
        for at in 0..committed as u32 {
            let it = side.descriptor(Superpage(at));
            let slots = match it.usage() {
                Use::Small => it.slots.load(Relaxed),
                Use::Head => 1,
                Use::Free | Use::Tail => continue,
            };
            for index in 0..slots {
                let slot = Slot {
                    superpage: Superpage(at),
                    index,
                };
                if before.bits.has(slot) {
                    let lives = side.is_marked(slot);
                    found.kept += u64::from(!lives);
                    if lives
                        && it.flags() & (flag::OPAQUE | flag::TRACED) == 0
                        && before.known.has(slot)
                    {
                        found.lost = found.lost.or_else(|| {
                            self.lost_by(side, slot, &before, |word| is_looked_at(slot, word))
                        });
                    }
                }
            }
        }
        *held(&self.spare) = Some(before);
        if let Some(seen) = held(&self.begun).as_mut() {
            seen.sums.clear();
        }
        self.remember_contents(side, committed);
        found
    }

    /// The address of an object to which this one refers, and which is marked now, but was not
    /// marked before.
    fn lost_by(
        &self,
        side: &Side,
        slot: Slot,
        before: &Marks,
        is_looked_at: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let start = side.start(slot);
        (0..side.size(slot) / size_of::<usize>())
            .filter(|&word| is_looked_at(word))
            .map(|word| start + word * size_of::<usize>())
            .find_map(|at| {
                // SAFETY: a word of a marked object; the world stands still.
                let to = side.slot(unsafe { (at as *const usize).read() })?;
                let missed = side.is_marked(to) && !before.bits.has(to);
                (missed && !self.is_stale(side, at, to, before)).then(|| side.start(to))
            })
    }

    /// Whether the word at this address is older than the object that it seems to refer to. Then it
    /// is no reference to it: it looks like one by chance, or it was left by a reference to an
    /// older, dead object in the same place.
    ///
    /// This holds in two cases. First: the word's block has not changed since the last
    /// verification, and the slot was not marked then. Second: the block has not changed since it
    /// was recorded, and the slot's superpage was taken after that. Blocks are recorded by the last
    /// verification; when the steps of this collection began, one of which scanned the object; when
    /// the summary was made that stood for it; and when a step read it.
    fn is_stale(&self, side: &Side, at: usize, to: Slot, before: &Marks) -> bool {
        let block = (at - side.heap()) / BLOCK;
        let sum = Some(sum(side, block));
        let taken = held(&self.taken);
        let taken = taken
            .as_ref()
            .and_then(|taken| taken.get(to.superpage.index()));
        let later = |at: u64| taken.is_some_and(|taken| taken > at);
        let same = |seen: &Seen| seen.sums.get(block) == sum;
        held(&self.last)
            .as_ref()
            .is_some_and(|(marks, seen)| same(seen) && (!marks.has(to) || later(seen.at)))
            || held(&self.begun)
                .as_ref()
                .is_some_and(|seen| same(seen) && later(seen.at))
            || before.trusted.sums.get(block) == sum
                && before
                    .trusted
                    .made
                    .get(block / BLOCKS)
                    .is_some_and(|at| at > 0 && later(at))
    }

    /// Records the heap's contents when the steps of a collection begin, for its verification.
    pub(crate) fn remember_begun(&self, side: &Side, committed: usize) {
        let mut begun = held(&self.begun);
        *begun = self.seen(side, committed, begun.take()).ok();
    }

    fn remember_contents(&self, side: &Side, committed: usize) {
        let mut last = held(&self.last);
        let (marks, seen) = last.take().unzip();
        let marks = Bits::copy(side, committed, marks);
        *last = marks
            .and_then(|marks| Ok((marks, self.seen(side, committed, seen)?)))
            .ok();
    }

    /// Records the heap's contents now.
    fn seen(&self, side: &Side, committed: usize, before: Option<Seen>) -> io::Result<Seen> {
        let before = before.map(|seen| seen.sums);
        let mut sums = MappedStack::again(side.os(), before, committed.max(1) * BLOCKS)?;
        for at in 0..committed * BLOCKS {
            sums.push(sum(side, at));
        }
        let at = self.now();
        Ok(Seen { sums, at })
    }
}

/// A sum over all words of a block; 0 if its superpage is free. Sums cover blocks rather than
/// superpages because even while the world is stopped, blocked threads write to the memory that
/// they wait for.
fn sum(side: &Side, block: usize) -> u64 {
    let superpage = Superpage((block / BLOCKS) as u32);
    if side.descriptor(superpage).usage() == Use::Free {
        return 0;
    }
    let start = side.heap() + block * BLOCK;
    (start..start + BLOCK)
        .step_by(size_of::<u64>())
        .fold(0, |sum: u64, at| {
            // SAFETY: committed memory of the heap. Where the world does not stand still, it is
            // of a summary that is not to be used if somebody writes.
            sum.rotate_left(5) ^ unsafe { (at as *const u64).read_volatile() }
        })
}

/// Bytes of a block; blocks of a superpage.
const BLOCK: usize = 512;
const BLOCKS: usize = SUPERPAGE / BLOCK;
/// Words of mark bits per superpage.
const WORDS: usize = crate::address::GRANULES / 64;
