//! Small collections in plain memory, which need no system call. So Miri can run them (`make miri`), and find
//! undefined behaviour of all that the heap does with its addresses. A suite of its own, because Miri knows
//! neither the mappings of the other tests nor their handler of faults.

#![allow(dead_code, reason = "the nursery has more than is used here")]

#[path = "heap/nursery/program.rs"]
mod program;
#[path = "heap/nursery/space.rs"]
mod space;

use plimsoll_heap::collection::{Pause, Tail};
use plimsoll_heap::mark::{Finalizable, MarkWorkers, Marker, NoTracer};
use plimsoll_heap::os::Os;
use plimsoll_heap::{
    Bins, Central, Class, Heap, Kind, KindId, Layout, Look, PointerMap, SUPERPAGE, SweepStatistics,
};
use plimsoll_unit::index::MIB;
use program::{Program, SLOTS};
use std::alloc::{Layout as Block, alloc_zeroed, dealloc};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const WORD: usize = size_of::<usize>();
const MOST: usize = 16 * MIB;

/// A kernel without mappings. A test says what is in swap, and that nobody writes to it.
#[derive(Default)]
struct Plain {
    /// Allocated blocks by their first addresses.
    blocks: Mutex<Vec<(usize, Block)>>,
    /// Everything is in swap, and unchanged since it was armed.
    evicted: Arc<AtomicBool>,
}

impl Plain {
    fn allocate(&self, bytes: usize, alignment: usize) -> io::Result<usize> {
        let block = Block::from_size_align(bytes, alignment).unwrap();
        // SAFETY: of more than no bytes.
        let start = unsafe { alloc_zeroed(block) }.expose_provenance();
        self.blocks.lock().unwrap().push((start, block));
        Ok(start)
    }

    /// # Safety
    /// Nobody uses what lies at `start`.
    unsafe fn free(&self, start: usize) {
        let mut blocks = self.blocks.lock().unwrap();
        let at = blocks.iter().position(|&(first, _)| first == start);
        let (_, block) = blocks.swap_remove(at.unwrap());
        // SAFETY: allocated with this layout, and the caller's.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(start), block) };
    }
}

fn zero(range: Range<usize>) {
    // SAFETY: a part of what was allocated.
    unsafe {
        let start: *mut u8 = std::ptr::with_exposed_provenance_mut(range.start);
        start.write_bytes(0, range.len());
    }
}

// SAFETY: all memory is allocated and zeroed; and nothing is written to while it is said to be evicted.
unsafe impl Os for Plain {
    fn reserve(&self, bytes: usize, alignment: usize) -> io::Result<usize> {
        self.allocate(bytes, alignment)
    }

    fn commit(&self, _: Range<usize>) -> io::Result<()> {
        Ok(())
    }

    unsafe fn uncommit(&self, range: Range<usize>) {
        zero(range);
    }

    unsafe fn release(&self, range: Range<usize>) {
        // SAFETY: the caller's.
        unsafe { self.free(range.start) };
    }

    fn map(&self, bytes: usize) -> io::Result<usize> {
        self.allocate(bytes, 4096)
    }

    unsafe fn remap(&self, range: Range<usize>, bytes: usize) -> io::Result<usize> {
        let to = self.map(bytes)?;
        // SAFETY: two blocks, and the second is longer; the caller vouches for the first.
        unsafe {
            let from: *const u8 = std::ptr::with_exposed_provenance(range.start);
            let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
            to.copy_from_nonoverlapping(from, range.len());
            self.free(range.start);
        }
        Ok(to)
    }

    unsafe fn unmap(&self, range: Range<usize>) {
        // SAFETY: the caller's.
        unsafe { self.free(range.start) };
    }

    fn discard(&self, range: Range<usize>) -> io::Result<()> {
        zero(range);
        Ok(())
    }

    fn swapped(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()> {
        if self.evicted.load(SeqCst) {
            tell(range);
        }
        Ok(())
    }

    fn will_need(&self, _: Range<usize>) {}

    fn page_out(&self, _: Range<usize>) {}

    fn cool(&self, _: Range<usize>) {}

    fn track(&self, _: Range<usize>) -> io::Result<()> {
        Ok(())
    }

    fn arm(&self, _: Range<usize>) -> io::Result<()> {
        Ok(())
    }

    fn disarm(&self, _: Range<usize>) {}

    fn written(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()> {
        if !self.evicted.load(SeqCst) {
            tell(range);
        }
        Ok(())
    }
}

/// A heap that one thread uses.
struct Small {
    heap: Heap,
    central: Central,
    bins: Box<Bins>,
    evicted: Arc<AtomicBool>,
    roots: Vec<usize>,
}

impl Small {
    fn new() -> Small {
        let plain = Plain::default();
        let evicted = plain.evicted.clone();
        let (heap, central) = Heap::new(Box::new(plain), MOST).unwrap();
        Small {
            heap,
            central,
            bins: Bins::boxed(),
            evicted,
            roots: Vec::new(),
        }
    }

    fn add(&self, layout: Layout) -> KindId {
        let kind = Kind {
            layout,
            ..Kind::WORDS
        };
        self.heap.add_kind(kind).unwrap()
    }

    fn allocate(&mut self, kind: KindId, bytes: usize) -> usize {
        let Some(class) = Class::of(bytes) else {
            let central = &mut self.central;
            return self
                .heap
                .allocate_large(central, kind, bytes, false)
                .unwrap();
        };
        let bin = self.bins.bin_to_refill(kind, class);
        bin.take(class.bytes()).unwrap_or_else(|| {
            self.heap
                .refill(&mut self.central, bin, kind, class)
                .unwrap();
            bin.take(class.bytes()).unwrap()
        })
    }

    /// A list of objects, each with a reference in its word `at`; the first is a root.
    fn list(&mut self, kind: KindId, bytes: usize, at: usize, length: usize) {
        let mut last = 0;
        for _ in 0..length {
            let object = self.allocate(kind, bytes);
            write(object + at * WORD, last);
            last = object;
        }
        self.roots.push(last);
    }

    /// Collects, and calls `after` when everything is marked.
    fn collect_and<'a>(
        heap: &'a Heap,
        (central, bins, roots): (&mut Central, &mut Bins, &[usize]),
        marker: &mut Marker<'a>,
        workers: Option<&MarkWorkers>,
        after: impl FnOnce(&Central, &mut Marker<'a>),
    ) -> SweepStatistics {
        let emptied = Pause::begin(heap).empty(|heap| bins.retire(heap));
        let cleared = emptied.look(central, Look::default()).at_once(central);
        let marked = cleared.mark(central, marker, workers, |marker| {
            roots.iter().for_each(|&root| marker.word(root));
        });
        after(central, marker);
        marked.finish(central, marker, Tail::default()).0
    }

    fn collect(&mut self) -> SweepStatistics {
        let mut marker = Marker::with_room(&self.heap, &NoTracer, 8).unwrap();
        let parts = (&mut self.central, &mut *self.bins, &*self.roots);
        Small::collect_and(&self.heap, parts, &mut marker, None, |_, _| {})
    }
}

fn write(at: usize, word: usize) {
    // SAFETY: a word of an object.
    unsafe { *std::ptr::with_exposed_provenance_mut(at) = word };
}

#[test]
fn what_is_reachable_lives_and_holes_are_used_again() {
    let mut small = Small::new();
    let words = small.add(Layout::Words);
    let mapped = small.add(Layout::Mapped(PointerMap::new(0b100)));
    for _ in 0..30 {
        small.list(words, 48, 0, 10);
        (0..10).for_each(|_| _ = small.allocate(words, 48));
    }
    small.list(mapped, 100, 2, 200);
    small.list(words, 2 * SUPERPAGE + 100, 2 * SUPERPAGE / WORD, 3);
    assert_eq!(small.collect().objects, 503);
    let used = small.central.used();
    small.list(words, 48, 1, 200);
    assert_eq!(small.central.used(), used);
    let object = small.allocate(words, 48);
    // SAFETY: nobody uses it.
    let freed = unsafe { small.heap.free(&mut small.bins, object) };
    assert!(freed.is_some());
    // SAFETY: as above.
    let again = unsafe { small.heap.free(&mut small.bins, object) };
    assert_eq!(again, None, "freed once");
    assert_eq!(small.collect().objects, 703);
    small.roots.clear();
    assert_eq!(small.collect().objects, 0);
    small.central.give_back(&small.heap, 0);
}

#[test]
fn what_is_in_swap_is_summarised() {
    let mut small = Small::new();
    let words = small.add(Layout::Words);
    let mapped = small.add(Layout::Mapped(PointerMap::array(0b01, 2).unwrap()));
    small.list(words, 160, 3, 400);
    small.list(mapped, 320, 10, 200);
    small.list(mapped, 2 * SUPERPAGE, 2, 2);
    small.collect();
    small.evicted.store(true, SeqCst);
    let mut marker = Marker::with_room(&small.heap, &NoTracer, 8).unwrap();
    for round in 0..3 {
        let parts = (&mut small.central, &mut *small.bins, &*small.roots);
        let swept = Small::collect_and(&small.heap, parts, &mut marker, None, |_, _| {});
        assert_eq!(swept.objects, 602);
        let marking = marker.take_marking();
        assert_eq!(
            (marking.read > 0, marking.replayed > 0),
            (round == 0, round > 0)
        );
    }
}

#[test]
fn dead_objects_are_kept_for_their_finalizers() {
    let mut small = Small::new();
    let words = small.add(Layout::Words);
    small.list(words, 48, 0, 100);
    let first = small.roots.pop().unwrap();
    let mut marker = Marker::with_room(&small.heap, &NoTracer, 8).unwrap();
    let slot = small.heap.slot(first).unwrap();
    let parts = (&mut small.central, &mut *small.bins, &*small.roots);
    let swept = Small::collect_and(&small.heap, parts, &mut marker, None, |central, marker| {
        let itself = true;
        let dead = std::iter::once(Finalizable { slot, itself });
        marker.contents(central, dead, |_| panic!("it is no cycle"));
        marker.revive(central, std::iter::once(slot));
    });
    assert_eq!(swept.objects, 100);
}

#[test]
fn markers_share_their_work() {
    let mut small = Small::new();
    let words = small.add(Layout::Words);
    for _ in 0..150 {
        small.list(words, 32, 0, 4);
    }
    let workers = MarkWorkers::new(&small.heap).unwrap();
    std::thread::scope(|scope| {
        let heap = &small.heap;
        let helper = scope.spawn(|| {
            let mut marker = Marker::with_room(heap, &NoTracer, 100).unwrap();
            while workers.help(&mut marker) {}
        });
        let mut marker = Marker::with_room(heap, &NoTracer, 200).unwrap();
        for _ in 0..2 {
            let parts = (&mut small.central, &mut *small.bins, &*small.roots);
            let swept = Small::collect_and(heap, parts, &mut marker, Some(&workers), |_, _| {});
            assert_eq!(swept.objects, 600);
        }
        workers.end();
        helper.join().unwrap();
    });
}

#[test]
fn objects_move_from_a_nursery_into_the_heap() {
    let mut program = Program::over(Box::new(Plain::default()), MOST);
    let mut marker = program.marker(16);
    for _ in 0..3 {
        (0..program.slots()).for_each(|at| program.push(at));
        program.pin(SLOTS);
        program.collect_with(&mut marker, None, Look::default());
        program.unpin();
        program.collect_with(&mut marker, None, Look::default());
    }
}
