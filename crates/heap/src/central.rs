//! State that the threads of a heap share: the free superpages and the superpages with holes.

use crate::address::{SUPERPAGE, Superpage};
use crate::bits;
use crate::class::Class;
use crate::descriptor::{Use, age, flag};
use crate::heap::{Error, Heap};
use crate::kind::KindId;
use crate::os::Os;
use crate::side::{SMALLEST, Side};
use crate::sparse::Table;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Why there is no room for an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Exhausted {
    /// The heap has all that its limit allows. The caller may collect, or raise the limit.
    #[error("the heap is at its limit")]
    Limit,
    /// The kernel gives no more memory, or all addresses are in use.
    #[error("there is no more memory")]
    Memory,
}

/// The fewest superpages to commit at once: 1 MiB.
const STEP: usize = (1 << 20) / SUPERPAGE;

/// The first superpage that is used. The heap's first byte belongs to no object, because the
/// collector's own words and registers hold its address, and a conservative front end would take
/// them for references.
const FIRST: usize = 1;

/// The superpages with holes of one kind and class, linked by `Descriptor::next`.
#[derive(Default)]
struct Lists {
    /// The first superpage of each list, plus 1; 0 for an empty list. Those that are present, and
    /// those that are absent.
    partial: u32,
    absent: u32,
    /// The superpage whose first slots bins have, plus 1; 0 for none. And its first slot that none has.
    rest: u32,
    next: u16,
}

/// Takes the first superpage of a list.
fn take(first: &mut u32, side: &Side) -> Option<Superpage> {
    let superpage = Superpage(first.checked_sub(1)?);
    *first = side.descriptor(superpage).next.load(Relaxed);
    Some(superpage)
}

/// The free superpages of one heap, and those with holes. Threads share it behind a lock of the
/// front end. A function that is given one of another heap panics.
pub struct Central {
    /// The address of the heap.
    heap: usize,
    /// Superpages with holes, by kind and class.
    lists: Table<Lists>,
    /// Superpages that can be read and written: the first ones of the heap.
    committed: usize,
    /// Superpages in use.
    used: usize,
    /// Most superpages in use.
    limit: usize,
    /// Where the last search for `index + 1` adjacent free superpages ended; the last entry is also
    /// for longer runs. There is no such run below that place.
    searched: [usize; SIZES],
    /// The lowest superpage that was freed since the last search.
    freed: usize,
    /// The heap could not grow the last time, because another mapping lies there.
    blocked: bool,
}

/// For runs of up to this many superpages, the end of the last search is remembered.
const SIZES: usize = 32;

impl Heap {
    /// Makes a heap that may grow to `most` bytes of addresses, or to as many as can be set aside
    /// for it. It takes no memory yet, and few addresses. The second value is the state that the
    /// heap's threads share: a program with several threads keeps it behind a lock, and takes that
    /// lock before it stops the world.
    ///
    /// # Errors
    /// There are not even addresses for the metadata of 16 MiB.
    pub fn new(os: Box<dyn Os>, most: usize) -> Result<(Heap, Central), Error> {
        let os: Arc<dyn Os> = os.into();
        let mut bytes = most.max(SMALLEST).next_multiple_of(SUPERPAGE);
        loop {
            match Side::reserve(os.clone(), bytes) {
                Ok(side) => {
                    let central = Central::new(side.heap());
                    return Ok((Heap::over(side), central));
                }
                Err(source) if bytes == SMALLEST => return Err(Error::NoRoom { bytes, source }),
                Err(_) => bytes = (bytes / 2).max(SMALLEST).next_multiple_of(SUPERPAGE),
            }
        }
    }
}

impl Central {
    fn new(heap: usize) -> Central {
        Central {
            heap,
            lists: Table::default(),
            committed: FIRST,
            used: 0,
            limit: usize::MAX,
            searched: [FIRST; SIZES],
            freed: usize::MAX,
            blocked: false,
        }
    }

    /// Panics unless this belongs to the heap. With the side tables of another heap, unmapped memory would be
    /// read.
    pub(crate) fn check(&self, heap: &Heap) {
        assert_eq!(
            heap.side.heap(),
            self.heap,
            "each heap has a `Central` of its own"
        );
    }

    /// Superpages in use.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Superpages that can be read and written.
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// Whether the heap could not grow the last time because the program has another mapping where it would.
    /// It grows no further then: the heap is one range of addresses.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Sets how many superpages may be used before an allocation fails with [`Exhausted::Limit`].
    pub fn set_limit(&mut self, superpages: usize) {
        self.limit = superpages;
    }

    /// How many superpages may be used.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Makes the lists of a kind and class, which [`add_partial`](Central::add_partial) uses. This
    /// allocates with `malloc`.
    pub(crate) fn prepare(&mut self, kind: KindId, class: Class) {
        self.lists.make(kind, class);
    }

    /// Puts a superpage with holes in the lists of its kind and class.
    pub(crate) fn add_partial(&mut self, side: &Side, superpage: Superpage) {
        let it = side.descriptor(superpage);
        let (kind, class) = (it.kind.load(Relaxed), it.class.load(Relaxed));
        let lists = self.lists.get_mut(KindId(kind), Class(class));
        let lists = lists.expect("made before the superpage was taken");
        let first = if it.has(flag::ABSENT) {
            &mut lists.absent
        } else {
            &mut lists.partial
        };
        it.next.store(*first, Relaxed);
        *first = superpage.0 + 1;
    }

    /// Takes a superpage with a hole that is in memory.
    pub(crate) fn take_partial(
        &mut self,
        side: &Side,
        kind: KindId,
        class: Class,
    ) -> Option<Superpage> {
        take(&mut self.lists.get_mut(kind, class)?.partial, side)
    }

    /// Takes a superpage with a hole that has to be read from swap.
    pub(crate) fn take_absent(
        &mut self,
        side: &Side,
        kind: KindId,
        class: Class,
    ) -> Option<Superpage> {
        take(&mut self.lists.get_mut(kind, class)?.absent, side)
    }

    /// Takes the rest of the superpage that is being divided among bins: the superpage and its first slot
    /// that no bin has.
    pub(crate) fn take_rest(&mut self, kind: KindId, class: Class) -> Option<(Superpage, usize)> {
        let lists = self.lists.get_mut(kind, class)?;
        let superpage = std::mem::take(&mut lists.rest).checked_sub(1)?;
        Some((Superpage(superpage), usize::from(lists.next)))
    }

    /// Leaves the rest of a superpage, from this slot on, to other bins.
    pub(crate) fn leave_rest(&mut self, kind: KindId, class: Class, rest: (Superpage, usize)) {
        let lists = self.lists.make(kind, class);
        (lists.rest, lists.next) = (rest.0.0 + 1, rest.1 as u16);
    }

    /// Up to which slot bins have a superpage of this kind and class that some bin took.
    pub(crate) fn given(&self, superpage: Superpage, kind: KindId, class: Class) -> usize {
        match self.lists.get(kind, class) {
            Some(lists) if lists.rest == superpage.0 + 1 => usize::from(lists.next),
            _ => class.slots(),
        }
    }

    /// Empties all lists of superpages with holes.
    pub(crate) fn clear_partial(&mut self) {
        let each = self.lists.each_mut();
        each.for_each(|(_, lists)| *lists = Lists::default());
    }

    /// Takes `count` adjacent free superpages, at the lowest address possible. Their contents are
    /// as they were left: `CLEAN` tells whether they are zero.
    pub(crate) fn take(&mut self, heap: &Heap, count: usize) -> Result<Superpage, Exhausted> {
        if self.used.saturating_add(count) > self.limit {
            return Err(Exhausted::Limit);
        }
        let start = match self.find(&heap.side, count) {
            Some(start) => start,
            None => self.grow(heap, count)?,
        };
        bits::fill(heap.side.free(self.committed), start, count, false);
        self.used += count;
        if let Some(notes) = heap.stress.notes() {
            notes.remember_taken(&heap.side, start, count);
        }
        Ok(Superpage(start as u32))
    }

    /// Frees superpages. Their memory stays until it is given back.
    pub(crate) fn release(&mut self, heap: &Heap, superpage: Superpage, count: usize) {
        let side = &heap.side;
        for at in superpage.0..superpage.0 + count as u32 {
            let it = side.descriptor(Superpage(at));
            heap.summaries.drop_of(side, Superpage(at));
            if side.is_armed(Superpage(at)) {
                it.armed.store(1, Relaxed);
            }
            it.set_usage(Use::Free);
            it.set_flags(it.flags() & (flag::CLEAN | flag::ABSENT));
            it.age.store(age::UNKNOWN, Relaxed);
        }
        bits::fill(side.free(self.committed), superpage.index(), count, true);
        self.freed = self.freed.min(superpage.index());
        self.used -= count;
    }

    /// No superpage below this one is free.
    fn lowest(&self) -> usize {
        self.searched[0].min(self.freed)
    }

    /// Finds the lowest of `count` adjacent free superpages; the caller takes them next.
    fn find(&mut self, side: &Side, count: usize) -> Option<usize> {
        let freed = std::mem::replace(&mut self.freed, usize::MAX);
        if freed < usize::MAX {
            for end in &mut self.searched {
                *end = freed.min(*end);
            }
        }
        let size = count.clamp(1, SIZES) - 1;
        // A run that ends beyond this place may begin before it.
        let from = self.searched[size].saturating_sub(size).max(FIRST);
        let free = side.free(self.committed);
        let found = bits::first_run(free, from, self.committed, count);
        if count <= SIZES {
            // Most callers take one superpage at a time, so that case must cost nothing extra.
            let larger = if count == 1 { 1 } else { SIZES };
            let end = found.map_or(self.committed, |start| start + count);
            for searched in &mut self.searched[size..larger] {
                *searched = end.max(*searched);
            }
        }
        found
    }

    /// Commits the beginning of the heap if nothing is committed yet: the kernel tracks writes only to
    /// what is mapped.
    pub fn begin(&mut self, heap: &Heap) {
        self.check(heap);
        if self.committed == FIRST {
            // Without memory, the first allocation says so.
            let _ = self.grow(heap, 1);
        }
    }

    /// Commits enough for `count` adjacent superpages at the heap's end, and more where that is
    /// cheap. Returns the first of them.
    fn grow(&mut self, heap: &Heap, count: usize) -> Result<usize, Exhausted> {
        let side = &heap.side;
        let free = side.free(self.committed);
        let start = self.committed - bits::run_before(free, self.committed);
        let need = count - (self.committed - start);
        let room = side.superpages() - self.committed;
        if need > room {
            return Err(Exhausted::Memory);
        }
        let much = need.max(STEP).max(self.committed / 8).min(room);
        let committed = self.committed;
        let end = |more: usize| side.heap() + (committed + more) * SUPERPAGE;
        // The heap's range has no gap at its start, though no object lies there.
        let begin = if committed == FIRST {
            side.heap()
        } else {
            end(0)
        };
        // Where little is left, the heap takes half of what it wanted, or half of that.
        let halves = |&more: &usize| (more > need).then(|| need.max(more / 2));
        self.blocked = false;
        let grown = std::iter::successors(Some(much), halves)
            .find(|&more| {
                side.cover(committed + more)
                    && match side.os().commit(begin..end(more)) {
                        Ok(()) => true,
                        Err(why) => {
                            self.blocked = why.kind() == ErrorKind::AlreadyExists;
                            false
                        }
                    }
            })
            .ok_or(Exhausted::Memory)?;
        self.blocked = false;
        if heap.tracking.is_on() {
            // The kernel tracks only what was mapped when it was told to.
            heap.tracking.begin(side, end(0)..end(grown));
        }
        for at in self.committed..self.committed + grown {
            side.descriptor(Superpage(at as u32)).set_flags(flag::CLEAN);
        }
        self.committed += grown;
        bits::fill(side.free(self.committed), committed, grown, true);
        side.reach().store(self.committed * SUPERPAGE, Relaxed);
        Ok(start)
    }

    /// Gives the memory of free superpages back to the kernel, except for the `keep` lowest; what
    /// is in swap is dropped unread. Returns how many superpages it gave back, and how many it
    /// kept.
    pub fn give_back(&mut self, heap: &Heap, keep: usize) -> (usize, usize) {
        self.check(heap);
        let side = &heap.side;
        let (mut kept, mut given) = (0, 0);
        let mut dirty: Option<(usize, usize)> = None;
        let mut give = |run: Option<(usize, usize)>| {
            let Some((start, end)) = run else { return };
            let address = |at: usize| side.address(Superpage(at as u32));
            // Pages that the kernel does not take back stay as they are, for another try later.
            if side.os().discard(address(start)..address(end)).is_ok() {
                for at in start..end {
                    side.descriptor(Superpage(at as u32)).set_flags(flag::CLEAN);
                }
                given += end - start;
            }
        };
        let free = side.free(self.committed);
        for (start, end) in bits::runs(free, self.lowest(), self.committed, true) {
            for at in start..end {
                if side.descriptor(Superpage(at as u32)).has(flag::CLEAN) {
                    continue;
                }
                if kept < keep && !side.descriptor(Superpage(at as u32)).has(flag::ABSENT) {
                    kept += 1;
                    continue;
                }
                dirty = match dirty {
                    Some((first, last)) if last == at => Some((first, at + 1)),
                    other => {
                        give(other);
                        Some((at, at + 1))
                    }
                };
            }
        }
        give(dirty);
        (given, kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Linux;
    use proptest::prelude::*;

    /// The first of `count` adjacent free superpages; the end if there is no such run.
    fn first_fit(free: &[bool], count: usize) -> usize {
        let end = free.iter().rev().take_while(|&&free| free).count();
        let fits = |windows: &[bool]| windows.iter().all(|&free| free);
        let found = free.windows(count).position(fits);
        found.unwrap_or(free.len() - end)
    }

    proptest! {
        #[test]
        fn what_is_taken_is_the_lowest_that_fits(
            steps in proptest::collection::vec((0usize..4, 1usize..12, any::<prop::sample::Index>()), 1..300),
        ) {
            let (heap, mut central) = Heap::new(Box::new(Linux::new()), 512 << 20).unwrap();
            let mut free = vec![false];
            let mut taken: Vec<(Superpage, usize)> = Vec::new();
            for (what, count, which) in steps {
                if what < 2 && !taken.is_empty() {
                    let (start, count) = taken.swap_remove(which.index(taken.len()));
                    central.release(&heap, start, count);
                    free[start.index()..start.index() + count].fill(true);
                    continue;
                }
                // Some runs are longer than those whose search ends are remembered.
                let count = if what == 3 { count * count } else { count };
                let expected = first_fit(&free, count);
                let start = central.take(&heap, count).unwrap();
                prop_assert_eq!(start.index(), expected);
                free.resize(central.committed(), true);
                free[expected..expected + count].fill(false);
                taken.push((start, count));
                let first = free.iter().position(|&free| free).unwrap_or(free.len());
                prop_assert!(central.lowest() <= first);
            }
        }
    }

    /// Every second superpage is free, so a search for two adjacent ones must examine each of them
    /// only once.
    #[test]
    fn where_nothing_was_found_nobody_looks_again() {
        let (heap, mut central) = Heap::new(Box::new(Linux::new()), 512 << 20).unwrap();
        for _ in 0..10_000 {
            central.take(&heap, 1).unwrap();
        }
        for at in (FIRST as u32..10_000).step_by(2) {
            central.release(&heap, Superpage(at), 1);
        }
        let two = central.take(&heap, 2).unwrap().index();
        assert!(two > 10_000 && central.searched[1..].iter().all(|&end| end == two + 2));
        assert_eq!(central.lowest(), FIRST);
        assert_eq!(central.take(&heap, 2).unwrap().index(), two + 2);
        assert_eq!(central.take(&heap, 1).unwrap().index(), FIRST);
        // A freed superpage is found again, together with the free ones before it.
        central.release(&heap, Superpage(4), 1);
        assert_eq!(central.take(&heap, 3).unwrap().index(), 3);
    }

    #[test]
    fn a_mapping_of_the_program_in_the_heaps_place_is_told_of_and_stays() {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let (heap, mut central) = Heap::new(Box::new(Linux::new()), 512 << 20).unwrap();
        central.take(&heap, 1).unwrap();
        assert!(!central.is_blocked());
        let end = heap.range().start + central.committed() * SUPERPAGE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        let place = std::ptr::without_provenance_mut(end);
        // SAFETY: a new mapping, which takes the place of no other, and stays for as long as the process.
        let foreign = unsafe { mmap_anonymous(place, 4096, ProtFlags::READ, flags) };
        assert_eq!(foreign.unwrap().addr(), end);
        let took = central.take(&heap, central.committed());
        assert_eq!((took, central.is_blocked()), (Err(Exhausted::Memory), true));
        assert!(central.take(&heap, 1).is_ok(), "below it there is room");
    }
}
