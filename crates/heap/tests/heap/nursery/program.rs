//! A program with a nursery, and a model of its graph: objects by number, because they have no fixed place.

use super::space::{BYTES, Nursery, WORDS, references};
use plimsoll_collector::{Cycle, Driver, FrontEnd, Why, Workers};
use plimsoll_heap::collection::{Marked, Pause};
use plimsoll_heap::mark::{Finalizable, MarkWorkers, Marker, Space, Tracer};
use plimsoll_heap::os::Os;
use plimsoll_heap::{
    Bins, Central, Class, Heap, Kind, KindId, Layout, Look, PointerMap, SUPERPAGE, Watch,
};
use std::collections::BTreeMap;

/// Root slots outside of the heap; and those in a large array in the heap, each in a superpage of its own.
pub(crate) const SLOTS: usize = 12;
const IN_ARRAY: usize = 6;

/// Finds the same references as the map of the other kind.
struct Pairs;

// SAFETY: reports all references of such an object.
unsafe impl Tracer<Nursery> for Pairs {
    unsafe fn trace(&self, start: usize, _: usize, _: KindId, marker: &mut Marker<'_, Nursery>) {
        for slot in references(start) {
            // SAFETY: a word of the object.
            unsafe { marker.reference(slot) };
        }
    }
}

/// A program with one thread.
pub(crate) struct Program {
    pub(crate) heap: &'static Heap,
    pub(crate) central: Central,
    pub(crate) nursery: &'static Nursery,
    roots: Roots,
    /// Kinds of objects in the heap: with a map, and traced.
    kinds: [KindId; 2],
    /// The model: the number of each slot's object, and the numbers to which each object refers.
    slots: Vec<Option<usize>>,
    objects: BTreeMap<usize, [Option<usize>; 2]>,
    /// How many objects may have to be moved within the heap.
    emptied: usize,
    workers: Workers,
}

/// The roots, and the bins: what its front end knows.
struct Roots {
    bins: Box<Bins>,
    /// Addresses of slots that hold references.
    slots: Vec<usize>,
    /// Ambiguous words, each with the number of its object.
    ambiguous: Vec<(usize, usize)>,
    /// The array in the heap.
    array: usize,
}

impl FrontEnd<Nursery> for Roots {
    fn retire(&mut self, heap: &Heap, _: &Central, _: bool) {
        self.bins.retire(heap);
    }

    fn roots(&mut self, marker: &mut Marker<'_, Nursery>) {
        marker.word(self.array);
        // Somewhere inside of the object.
        let words = self.ambiguous.iter().map(|&(object, _)| object + 13);
        words.for_each(|word| marker.word(word));
        for &slot in &self.slots[..SLOTS] {
            // SAFETY: a slot outside of the heap.
            unsafe { marker.reference(slot) };
        }
    }
}

fn read(at: usize) -> usize {
    // SAFETY: a word of an object, or a slot.
    unsafe { *std::ptr::with_exposed_provenance(at) }
}

fn write(at: usize, word: usize) {
    // SAFETY: as above.
    unsafe { *std::ptr::with_exposed_provenance_mut(at) = word };
}

impl Program {
    /// A program whose heap may have `most` bytes.
    pub(crate) fn over(os: Box<dyn Os>, most: usize) -> Program {
        let (heap, mut central) = Heap::new(os, most).unwrap();
        let heap: &'static Heap = Box::leak(Box::new(heap));
        let add = |layout| {
            heap.add_kind(Kind {
                layout,
                ..Kind::WORDS
            })
            .unwrap()
        };
        let pairs = PointerMap::array(0b10, 2).unwrap();
        let array = add(Layout::Mapped(pairs));
        let kinds = [
            add(Layout::Mapped(PointerMap::new(0b110))),
            add(Layout::Traced),
        ];
        let bytes = IN_ARRAY * SUPERPAGE;
        let array = heap
            .allocate_large(&mut central, array, bytes, false)
            .unwrap();
        let outside = vec![0usize; SLOTS].leak().as_mut_ptr().expose_provenance();
        let outside = (0..SLOTS).map(|at| outside + at * size_of::<usize>());
        let inside = (0..IN_ARRAY).map(|at| array + at * SUPERPAGE + 9 * size_of::<usize>());
        Program {
            heap,
            central,
            nursery: Box::leak(Box::new(Nursery::new())),
            roots: Roots {
                bins: Box::default(),
                slots: outside.chain(inside).collect(),
                ambiguous: Vec::new(),
                array,
            },
            kinds,
            slots: vec![None; SLOTS + IN_ARRAY],
            objects: BTreeMap::new(),
            emptied: 0,
            workers: Workers::default(),
        }
    }

    pub(crate) fn marker_of(
        heap: &'static Heap,
        nursery: &'static Nursery,
        room: usize,
    ) -> Marker<'static, Nursery> {
        Marker::beside(heap, &Pairs, nursery, room).unwrap()
    }

    pub(crate) fn marker(&self, room: usize) -> Marker<'static, Nursery> {
        Program::marker_of(self.heap, self.nursery, room)
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The word in a slot.
    pub(crate) fn word(&self, slot: usize) -> usize {
        read(self.roots.slots[slot])
    }

    pub(crate) fn is_in_heap(&self, address: usize) -> bool {
        self.heap.range().contains(&address)
    }

    /// Makes an object in the nursery, if there is room, and has a slot refer to it.
    pub(crate) fn make(&mut self, slot: usize) {
        let Some(object) = self.nursery.allocate() else {
            return;
        };
        let number = self
            .objects
            .last_key_value()
            .map_or(1, |(last, _)| last + 1);
        let words: [usize; WORDS] = [number, 0, 0, !number];
        // SAFETY: a new cell.
        unsafe { *std::ptr::with_exposed_provenance_mut(object) = words };
        self.objects.insert(number, [None; 2]);
        self.set(slot, object, Some(number));
    }

    /// Puts a new object before the list that a slot refers to.
    pub(crate) fn push(&mut self, slot: usize) {
        let (word, number) = (self.word(slot), self.slots[slot]);
        self.make(slot);
        if let Some(new) = self.slots[slot].filter(|_| self.slots[slot] != number) {
            write(references(self.word(slot))[0], word);
            self.objects.get_mut(&new).unwrap()[0] = number;
        }
    }

    fn set(&mut self, slot: usize, word: usize, number: Option<usize>) {
        write(self.roots.slots[slot], word);
        self.slots[slot] = number;
    }

    /// Has a slot refer to an object that was kept.
    pub(crate) fn put(&mut self, slot: usize, object: usize) {
        self.set(slot, object, Some(read(object)));
    }

    pub(crate) fn clear(&mut self, slot: usize) {
        self.set(slot, 0, None);
    }

    /// Has the object of one slot refer to that of another.
    pub(crate) fn link(&mut self, from: usize, at: usize, to: usize) {
        if let Some(number) = self.slots[from] {
            write(references(self.word(from))[at], self.word(to));
            self.objects.get_mut(&number).unwrap()[at] = self.slots[to];
        }
    }

    /// Has a slot refer to what the object of another refers to.
    pub(crate) fn load(&mut self, from: usize, at: usize, to: usize) {
        if let Some(number) = self.slots[from] {
            let word = read(references(self.word(from))[at]);
            self.set(to, word, self.objects[&number][at]);
        }
    }

    /// Notes an ambiguous word that points into a slot's object.
    pub(crate) fn pin(&mut self, slot: usize) {
        let number = self.slots[slot];
        self.roots
            .ambiguous
            .extend(number.map(|number| (self.word(slot), number)));
    }

    pub(crate) fn unpin(&mut self) {
        self.roots.ambiguous.clear();
    }

    /// Takes places in the heap for objects that the collection may copy there. Those that it does not use
    /// die at once, because nothing refers to them.
    fn places(&mut self) -> Vec<usize> {
        let class = Class::of(BYTES).unwrap();
        let take = |at: usize| {
            let kind = self.kinds[at / 7 % 2];
            let bin = self.roots.bins.bin_to_refill(kind, class);
            bin.take(class.bytes()).unwrap_or_else(|| {
                self.heap
                    .refill(&mut self.central, bin, kind, class)
                    .unwrap();
                bin.take(class.bytes()).unwrap()
            })
        };
        (0..self.nursery.old() + self.emptied).map(take).collect()
    }

    /// Marks, by the driver of collections.
    fn reach(&mut self, marker: &mut Marker<'static, Nursery>, what: Look) -> Marked<'static> {
        let mut cycle = Cycle::begin(Why::Asked);
        let mut driver = Driver {
            heap: self.heap,
            central: &mut self.central,
            marker,
            workers: &self.workers,
            cycle: &mut cycle,
        };
        let emptied = driver.stop(&mut self.roots, true);
        let looked = emptied.look(driver.central, what);
        driver.mark(&mut self.roots, looked)
    }

    /// Collects, and checks the graph.
    pub(crate) fn collect(&mut self, marker: &mut Marker<'static, Nursery>, what: Look) {
        self.mark(marker, what);
        self.check();
    }

    /// Collects, and moves objects out of the superpage of a slot's object in the heap.
    pub(crate) fn compact(&mut self, marker: &mut Marker<'static, Nursery>, slot: usize) {
        let superpage = self.word(slot) / SUPERPAGE * SUPERPAGE;
        // Twice as many, because those in the superpage itself are of no use.
        self.emptied = 2 * SUPERPAGE / BYTES;
        let mut places = self.places();
        self.emptied = 0;
        places.retain(|&at| at / SUPERPAGE * SUPERPAGE != superpage);
        self.nursery.begin(places);
        self.nursery.empty(superpage);
        let what = Look {
            complete: true,
            young: false,
        };
        let marked = self.reach(marker, what);
        self.finish(marked, what);
        self.check();
    }

    /// Collects, and keeps a dead object in the heap and what it refers to, as for a finalizer.
    pub(crate) fn keep(&mut self, marker: &mut Marker<'static, Nursery>, object: usize) {
        let places = self.places();
        self.nursery.begin(places);
        let marked = self.reach(marker, Look::default());
        let slot = self.heap.slot(object).unwrap();
        assert!(!self.heap.is_marked(slot), "it is dead");
        let itself = false;
        let dead = std::iter::once(Finalizable { slot, itself });
        marker.contents(&self.central, dead, |_| {
            panic!("it does not refer to itself")
        });
        marker.revive(&self.central, std::iter::once(slot));
        self.finish(marked, Look::default());
    }

    /// Collects, and touches no object after that.
    pub(crate) fn mark(&mut self, marker: &mut Marker<'static, Nursery>, what: Look) {
        let places = self.places();
        self.nursery.begin(places);
        let marked = self.reach(marker, what);
        self.finish(marked, what);
    }

    /// As [`collect`](Program::collect), together with mark workers.
    pub(crate) fn collect_with(
        &mut self,
        marker: &mut Marker<'static, Nursery>,
        workers: Option<&MarkWorkers>,
        what: Look,
    ) {
        let places = self.places();
        self.nursery.begin(places);
        let Program { roots, central, .. } = self;
        let emptied = Pause::begin(self.heap).empty(|heap| roots.bins.retire(heap));
        let cleared = emptied.look(central, what).at_once(central);
        let marked = cleared.mark(central, marker, workers, |marker| roots.roots(marker));
        self.finish(marked, what);
        self.check();
    }

    fn finish(&mut self, marked: Marked<'static>, what: Look) {
        self.nursery.end();
        let watch = what.young.then_some(Watch::Old);
        let counted = marked
            .end(&self.central, watch)
            .count(&mut self.central, false);
        counted.end(&self.central);
    }

    /// Follows the graph in memory and in the model, which have to be the same. Forgets what died.
    pub(crate) fn check(&mut self) {
        let slots = self.roots.slots.iter().map(|&at| read(at));
        let mut left: Vec<(usize, Option<usize>)> = slots.zip(self.slots.iter().copied()).collect();
        let pinned = self.roots.ambiguous.iter();
        left.extend(pinned.map(|&(word, number)| (word, Some(number))));
        let (mut places, mut reached) = (BTreeMap::new(), BTreeMap::new());
        while let Some((at, number)) = left.pop() {
            let Some(number) = number else {
                assert_eq!(at, 0);
                continue;
            };
            let place = *places.entry(number).or_insert(at);
            assert_eq!(at, place, "{number} is in one place");
            assert!(self.is_in_heap(at) || self.nursery.contains(at), "{at:x}");
            if let Some(slot) = self.heap.slot(at) {
                assert!(self.heap.is_marked(slot), "{number} was lost");
            }
            let seal = at + (WORDS - 1) * size_of::<usize>();
            assert_eq!([read(at), read(seal)], [number, !number], "at {at:x}");
            let Some(refers) = self.objects.remove(&number) else {
                continue;
            };
            left.extend(references(at).map(read).into_iter().zip(refers));
            reached.insert(number, refers);
        }
        self.objects = reached;
    }
}
