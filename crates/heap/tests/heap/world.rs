//! A heap with one thread, and a model of its contents: a slow walk over the same graph gives the
//! reachable objects.

use plimsoll_collector::{Cycle, Driver, FrontEnd, Why, Workers};
use plimsoll_heap::collection::{Ended, Marked};
use plimsoll_heap::mark::Marker;
use plimsoll_heap::os::{Linux, Os};
use plimsoll_heap::{
    Bins, Central, Class, Exhausted, Heap, Kind, KindId, Look, Residency, SweepStatistics, Watch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const WORD: usize = size_of::<usize>();

/// The model's record of an object.
#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) kind: KindId,
    pub(crate) bytes: usize,
    pub(crate) words: Vec<usize>,
}

/// A heap with the bins of one thread, its roots, and a model of its contents.
pub(crate) struct World {
    pub(crate) heap: &'static Heap,
    pub(crate) central: Central,
    pub(crate) words: KindId,
    pub(crate) opaque: KindId,
    pub(crate) kept: KindId,
    pub(crate) bins: Box<Bins>,
    pub(crate) objects: BTreeMap<usize, Object>,
    pub(crate) roots: Vec<usize>,
    /// Trust no summaries.
    pub(crate) complete: bool,
    /// The most superpages to page out after each collection.
    pub(crate) page_out: usize,
    /// Keep the marks (a collection of young objects).
    pub(crate) young: bool,
    /// The last collection was begun in steps.
    begun: bool,
    /// The next collection gives up the steps that are under way.
    gives_up: bool,
    /// The result of the last collection's look at the heap's pages.
    pub(crate) residency: Residency,
    workers: Workers,
}

/// The front end of a world: its only thread is the one that collects.
struct Alone<'a> {
    bins: &'a mut Bins,
    roots: &'a [usize],
}

impl FrontEnd for Alone<'_> {
    fn retire(&mut self, heap: &Heap, _: &Central, _: bool) {
        self.bins.retire(heap);
    }

    fn roots(&mut self, marker: &mut Marker<'_>) {
        self.roots.iter().for_each(|&root| marker.word(root));
    }
}

impl World {
    pub(crate) fn new(most: usize) -> World {
        World::over(Box::new(Linux::new()), most)
    }

    pub(crate) fn over(os: Box<dyn Os>, most: usize) -> World {
        // The heap's memory is never unmapped, so what describes it must not be freed either.
        let (heap, central) = Heap::new(os, most).unwrap();
        let heap: &'static Heap = Box::leak(Box::new(heap));
        let kept = Kind {
            uncollectable: true,
            ..Kind::WORDS
        };
        World {
            heap,
            central,
            words: heap.add_kind(Kind::WORDS).unwrap(),
            opaque: heap.add_kind(Kind::OPAQUE).unwrap(),
            kept: heap.add_kind(kept).unwrap(),
            bins: Box::default(),
            objects: BTreeMap::new(),
            roots: Vec::new(),
            complete: false,
            page_out: 0,
            young: false,
            begun: false,
            gives_up: false,
            residency: Residency::default(),
            workers: Workers::default(),
        }
    }

    pub(crate) fn allocate(&mut self, kind: KindId, bytes: usize) -> Result<usize, Exhausted> {
        let start = match Class::of(bytes) {
            Some(class) => {
                let bin = self.bins.bin_to_refill(kind, class);
                match bin.take(class.bytes()) {
                    Some(start) => start,
                    None => {
                        self.heap.refill(&mut self.central, bin, kind, class)?;
                        bin.take(class.bytes()).unwrap()
                    }
                }
            }
            None => self
                .heap
                .allocate_large(&mut self.central, kind, bytes, false)?,
        };
        let before = self.objects.range(..start + bytes).next_back();
        if let Some((&other, object)) = before {
            assert!(
                other + object.bytes <= start,
                "{start:x} overlaps {other:x}"
            );
        }
        let words = vec![0; bytes / WORD];
        if kind != self.opaque {
            assert_eq!(self.read(start, words.len()), words, "handed out zeroed");
        }
        let object = Object { kind, bytes, words };
        self.objects.insert(start, object);
        if kind == self.opaque {
            for at in 0..bytes / WORD {
                self.write(start, at, 7);
            }
        }
        Ok(start)
    }

    pub(crate) fn read(&self, start: usize, words: usize) -> Vec<usize> {
        // SAFETY: `start` is an object of at least `words` words.
        unsafe { std::slice::from_raw_parts(start as *const usize, words) }.to_vec()
    }

    pub(crate) fn write(&mut self, start: usize, at: usize, word: usize) {
        let object = self.objects.get_mut(&start).unwrap();
        if at < object.words.len() {
            object.words[at] = word;
            // SAFETY: inside of the object.
            unsafe { *(start as *mut usize).add(at) = word };
        }
    }

    pub(crate) fn free(&mut self, start: usize) {
        let object = self.objects.remove(&start).unwrap();
        let slot = self.heap.slot(start).unwrap();
        match Class::of(object.bytes) {
            // SAFETY: an object of this kind and class that is in the model no more.
            Some(class) => unsafe {
                let freed = self.heap.free(&mut self.bins, start);
                assert_eq!(freed.map(|freed| freed.bytes), Some(class.bytes()));
                assert_eq!(self.heap.free(&mut self.bins, start), None, "freed once");
            },
            // SAFETY: as above.
            None => unsafe { self.heap.free_large(&mut self.central, slot) },
        }
        for object in self.objects.values_mut() {
            for word in &mut object.words {
                if *word == start {
                    *word = 0;
                }
            }
        }
        let all: Vec<usize> = self.objects.keys().copied().collect();
        for other in all {
            for (at, word) in self
                .read(other, self.objects[&other].words.len())
                .into_iter()
                .enumerate()
            {
                if word == start {
                    self.write(other, at, 0);
                }
            }
        }
        self.roots.retain(|&root| root != start);
    }

    /// The objects that the model reaches.
    pub(crate) fn reached(&self) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let kept = self
            .objects
            .iter()
            .filter(|(_, object)| object.kind == self.kept);
        let mut left: Vec<usize> = kept.map(|(&start, _)| start).collect();
        left.extend(&self.roots);
        while let Some(start) = left.pop() {
            if !reached.insert(start) || self.objects[&start].kind == self.opaque {
                continue;
            }
            let words = &self.objects[&start].words;
            left.extend(words.iter().filter(|word| self.objects.contains_key(word)));
        }
        reached
    }

    pub(crate) fn collect(&mut self, marker: &mut Marker<'_>) -> SweepStatistics {
        let (swept, _) = self.collect_unchecked(marker);
        self.check(swept)
    }

    /// Collects without checking objects. Also returns how many superpages were paged out.
    pub(crate) fn collect_unchecked(
        &mut self,
        marker: &mut Marker<'_>,
    ) -> (SweepStatistics, usize) {
        let ended = self.mark(marker);
        let unwatch = self.page_out == 0 && (!self.young || self.begun);
        let counted = ended.count(&mut self.central, unwatch);
        let paged_out = counted.page_out(&self.central, marker, self.page_out);
        (counted.end(&self.central), paged_out)
    }

    /// The driver of a collection, and the front end that it calls.
    fn driver<'a, 'm>(
        &'a mut self,
        marker: &'a mut Marker<'m>,
        cycle: &'a mut Cycle,
    ) -> (Driver<'a, 'static, 'm>, Alone<'a>) {
        let driver = Driver {
            heap: self.heap,
            central: &mut self.central,
            marker,
            workers: &self.workers,
            cycle,
        };
        let front = Alone {
            bins: &mut self.bins,
            roots: &self.roots,
        };
        (driver, front)
    }

    /// Which superpages to watch until the next collection.
    fn watch(&self) -> Option<Watch> {
        match (self.page_out > 0, self.young) {
            (true, _) => Some(Watch::Still),
            (false, true) => Some(Watch::Old),
            (false, false) => None,
        }
    }

    /// Begins a collection in steps, or does the next step; a short one.
    pub(crate) fn step(&mut self, marker: &mut Marker<'_>) {
        let what = Look {
            young: self.young,
            ..Look::default()
        };
        let mut cycle = Cycle::begin(Why::Begun);
        let (mut driver, mut front) = self.driver(marker, &mut cycle);
        let step = if driver.heap.is_stepping() {
            driver.stop_for_step(&mut front, true)
        } else {
            let emptied = driver.stop(&mut front, true);
            let looked = emptied.look(driver.central, what);
            match looked.in_steps(driver.central, driver.marker) {
                Ok(step) => step,
                Err(_) => return,
            }
        };
        driver.step(&mut front, step, Duration::ZERO);
    }

    /// Makes the next collection give up the steps that were begun.
    pub(crate) fn give_up(&mut self) {
        self.gives_up = true;
        self.young = false;
    }

    /// Marks what is reachable. Nothing is freed before the returned value ends.
    pub(crate) fn reach(&mut self, marker: &mut Marker<'_>) -> Marked<'static> {
        let (complete, young) = (self.complete, self.young);
        let gives_up = std::mem::take(&mut self.gives_up);
        let mut cycle = Cycle::begin(Why::Asked);
        let (mut driver, mut front) = self.driver(marker, &mut cycle);
        let emptied = driver.stop(&mut front, true);
        if gives_up {
            driver.give_up(&emptied);
        }
        let begun = driver.heap.is_stepping();
        let what = Look {
            complete: complete && !begun,
            young,
        };
        let looked = emptied.look(driver.central, what);
        let residency = looked.residency();
        let marked = driver.mark(&mut front, looked);
        (self.begun, self.residency) = (begun, residency);
        marked
    }

    /// The same, and ends the pause.
    pub(crate) fn mark(&mut self, marker: &mut Marker<'_>) -> Ended<'static> {
        let marked = self.reach(marker);
        let watch = self.watch();
        let mut cycle = Cycle::begin(Why::Asked);
        let (mut driver, mut front) = self.driver(marker, &mut cycle);
        driver.end(&mut front, marked, watch)
    }

    /// Compares the marks with what the model reaches.
    fn check(&mut self, swept: SweepStatistics) -> SweepStatistics {
        let reached = self.reached();
        // Summaries stand for whole superpages, and so also for objects that have died since.
        let exact = self.residency.summarised == 0 && !self.young && !self.begun;
        let exact = exact.then_some(reached.len() as u64);
        for (&start, object) in &self.objects {
            let lives = reached.contains(&start);
            // The superpage of a dead object may be free.
            let slot = self.heap.slot(start);
            let marked = slot.is_some_and(|slot| self.heap.is_marked(slot));
            assert!(marked || !lives, "{start:x} was lost");
            assert!(!marked || lives || exact.is_none(), "{start:x} was kept");
            if lives {
                assert_eq!(self.heap.start(slot.unwrap()), start);
                assert!(self.heap.size(slot.unwrap()) >= object.bytes);
                assert_eq!(self.read(start, object.words.len()), object.words);
            }
        }
        assert!(swept.objects >= reached.len() as u64);
        assert!(
            exact.is_none_or(|count| count == swept.objects),
            "{exact:?} {swept:?}"
        );
        self.objects.retain(|start, _| reached.contains(start));
        swept
    }

    /// Removes unreachable objects from the model.
    pub(crate) fn forget_dead(&mut self) {
        let reached = self.reached();
        self.objects.retain(|start, _| reached.contains(start));
    }

    /// Makes a list of `length` objects of `bytes` bytes; the first one is a root.
    pub(crate) fn list(&mut self, length: usize, bytes: usize) {
        let mut last = 0;
        for _ in 0..length {
            let start = self.allocate(self.words, bytes).unwrap();
            self.write(start, 0, last);
            last = start;
        }
        self.roots.push(last);
    }
}
