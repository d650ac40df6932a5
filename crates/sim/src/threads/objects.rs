//! A simulated heap with its objects, and what is allocated, live and collected in it.

use super::error::Position;
use super::heap::{Algorithm, Collection, Collector, Kind, NewRatio, Place};
use plimsoll_trace::numbered::{ByNumber, Table};
use plimsoll_trace::{ObjectId, ThreadId};

/// The most objects that may have died and not be allocated yet: a few hundred megabytes. It is more than
/// `plimsoll_trace::check` allows, because threads run in another order here. Only a damaged trace has more.
pub(super) const MOST_EARLY: usize = 1 << 22;

/// A live object.
#[derive(Clone, Copy)]
struct Live {
    /// Where its collector has it.
    place: Place,
    /// Bytes.
    size: u64,
}

/// A heap with its objects.
pub(super) struct Heap {
    /// Bytes.
    size: u64,
    collector: Box<dyn Collector>,
    /// Live objects by number.
    objects: Table<Live>,
    /// Objects that died before they were allocated, because their threads ran in another order than the
    /// recorded one; and where they died.
    early: ByNumber<ObjectId, Position>,
    /// Counts and bytes.
    pub count: HeapCount,
}

/// Counts of a heap. Bytes, unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeapCount {
    /// Objects allocated; a number.
    pub objects: u64,
    /// Allocated.
    pub allocated: u64,
    /// Live now.
    pub live: u64,
    /// The most that was live at once.
    pub largest_live: u64,
    /// Freed by collections.
    pub freed: u64,
    /// Marked or copied by collections.
    pub work: u64,
    /// The most that one collection marked or copied.
    pub greatest_work: u64,
    /// The part of the work that was marked.
    pub marked: u64,
    /// The part of what was marked that was moved, too.
    pub compacted: u64,
    /// Swept.
    pub swept: u64,
    /// Marked while the threads went on.
    pub concurrent: u64,
    /// The most that was fragmented after a collection.
    pub greatest_fragmented: u64,
    /// Collections of the young objects; a number.
    pub minor: u64,
    /// Collections of these and of some regions of old ones; a number.
    pub mixed: u64,
    /// Collections of the whole heap; a number.
    pub full: u64,
}

/// Why an object could not be allocated.
pub(super) enum Refused {
    /// It lives already.
    Reborn,
    /// The same thread said before, there, that it is dead.
    Dead(Position),
    /// There is no room, and the whole heap was collected.
    TooSmall,
    /// More than 2^64 bytes in all.
    TooMuch,
}

impl Heap {
    pub(super) fn new(algorithm: Algorithm, size: u64, ratio: NewRatio) -> Heap {
        Heap {
            size,
            collector: algorithm.build(size, ratio),
            objects: Table::default(),
            early: ByNumber::default(),
            count: HeapCount::default(),
        }
    }

    /// Room for an object of `size` bytes, or nothing where a collection is needed.
    pub(super) fn room(&mut self, size: u64) -> Option<Place> {
        self.collector.allocate(size)
    }

    /// An object of a thread is allocated in the room that was found for it.
    pub(super) fn born(
        &mut self,
        thread: ThreadId,
        object: ObjectId,
        size: u64,
        place: Place,
    ) -> Result<(), Refused> {
        let count = &mut self.count;
        count.objects += 1;
        count.allocated = count.allocated.checked_add(size).ok_or(Refused::TooMuch)?;
        if !self.early.is_empty()
            && let Some(died) = self.early.remove(&object)
        {
            self.collector.died(place, size);
            return if died.thread == thread {
                Err(Refused::Dead(died))
            } else {
                Ok(())
            };
        }
        count.live += size;
        count.largest_live = count.largest_live.max(count.live);
        match self.objects.insert(object.0, Live { place, size }) {
            None => Ok(()),
            Some(_) => Err(Refused::Reborn),
        }
    }

    /// Collects because an object of `size` bytes found no room: as little as possible, or with `all` the
    /// whole heap.
    pub(super) fn collect(&mut self, size: u64, all: bool) -> Collection {
        let collection = self.collector.collect(size, all);
        let count = &mut self.count;
        match collection.kind {
            Kind::Minor => count.minor += 1,
            Kind::Mixed => count.mixed += 1,
            Kind::Full => count.full += 1,
        }
        count.freed += collection.freed;
        for (sum, more) in [
            (&mut count.work, collection.work),
            (&mut count.marked, collection.marked),
            (&mut count.compacted, collection.compacted),
            (&mut count.swept, collection.swept),
            (&mut count.concurrent, collection.concurrent),
        ] {
            *sum = sum.saturating_add(more);
        }
        count.greatest_work = count.greatest_work.max(collection.work);
        let fragmented = self.collector.fragmented();
        count.greatest_fragmented = count.greatest_fragmented.max(fragmented);
        debug_assert_eq!(count.allocated, count.freed + self.collector.used());
        collection
    }

    /// An object dies; `at` says where. Returns whether that could be noted: it is not where too many die
    /// before they are allocated.
    #[inline]
    pub(super) fn died(&mut self, object: ObjectId, at: impl FnOnce() -> Position) -> bool {
        match self.objects.remove(object.0) {
            Some(Live { place, size }) => {
                self.collector.died(place, size);
                self.count.live -= size;
                true
            }
            None if self.early.len() >= MOST_EARLY => false,
            None => {
                self.early.insert(object, at());
                true
            }
        }
    }

    /// How many objects have died and are not allocated; a number.
    pub(super) fn unborn(&self) -> u64 {
        self.early.len() as u64
    }

    /// The heap is of `size` bytes from now on.
    pub(super) fn resize(&mut self, size: u64) {
        self.size = size;
        self.collector.resize(size);
    }

    /// Its size, bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes in use, dead or alive.
    pub(super) fn used(&self) -> u64 {
        self.collector.used()
    }

    /// Bytes that no object uses, and that not every object could.
    pub(super) fn fragmented(&self) -> u64 {
        self.collector.fragmented()
    }

    /// The lowest object that died and was never allocated, where it died, and how many there are.
    pub(super) fn never_born(&self) -> Option<(ObjectId, Position, usize)> {
        let (object, at) = self.early.iter().min_by_key(|(object, _)| **object)?;
        Some((*object, *at, self.early.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocates an object, after a collection if it takes one.
    fn allocate(heap: &mut Heap, number: u64) {
        let place = heap.room(10).or_else(|| {
            heap.collect(10, false);
            heap.room(10)
        });
        let born = place.map(|place| heap.born(ThreadId(1), ObjectId(number), 10, place));
        assert!(matches!(born, Some(Ok(()))));
    }

    #[test]
    fn memory_is_that_of_the_live_objects() {
        const AT: Position = Position {
            thread: ThreadId(2),
            event: 0,
        };
        let mut heap = Heap::new(Algorithm::GenMc, 3000, NewRatio::PAPER);
        for number in 0..100_000u64 {
            allocate(&mut heap, number);
            if let Some(old) = number.checked_sub(20) {
                assert!(heap.died(ObjectId(old), || AT));
            }
            // Some die before they are born.
            assert!(heap.died(ObjectId(1_000_000 + number), || AT));
            allocate(&mut heap, 1_000_000 + number);
        }
        assert_eq!((heap.count.live, heap.objects.len()), (200, 20));
        assert!(heap.objects.capacity() < 100 && heap.early.capacity() < 100);
        assert_eq!(heap.count.allocated, heap.count.freed + heap.used());
        assert!(heap.count.minor > 1000 && heap.never_born().is_none());
    }
}
