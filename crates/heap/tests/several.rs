//! Several heaps in one process, at once and in turn: each gives back its addresses, its memory and its
//! descriptors when it is dropped. A suite of its own, because it counts what the whole process has.

use plimsoll_heap::collection::{Pause, Tail};
use plimsoll_heap::mark::{MarkWorkers, Marker, NoTracer};
use plimsoll_heap::os::Linux;
use plimsoll_heap::{Bins, Central, Class, Heap, Kind, KindId, Look, Watch};
use plimsoll_unit::index::{KIB, MIB, PAGE};
use std::ops::Range;

/// A heap that one thread uses, with the first object of a list.
struct Own {
    heap: Heap,
    central: Central,
    bins: Box<Bins>,
    kind: KindId,
    first: usize,
}

impl Own {
    fn new(most: usize) -> Own {
        let (heap, central) = Heap::new(Box::new(Linux::new()), most).unwrap();
        let kind = heap.add_kind(Kind::WORDS).unwrap();
        Own {
            heap,
            central,
            bins: Bins::boxed(),
            kind,
            first: 0,
        }
    }

    /// Adds `count` objects of `bytes` bytes to the list.
    fn grow(&mut self, count: usize, bytes: usize) {
        let class = Class::of(bytes).unwrap();
        for _ in 0..count {
            let bin = self.bins.bin_to_refill(self.kind, class);
            let start = bin.take(class.bytes()).unwrap_or_else(|| {
                let refilled = self.heap.refill(&mut self.central, bin, self.kind, class);
                refilled.unwrap();
                bin.take(class.bytes()).unwrap()
            });
            // SAFETY: a new object of at least two words.
            unsafe { *(start as *mut [usize; 2]) = [self.first, !start] };
            self.first = start;
        }
    }

    /// Collects, and returns how many objects live.
    fn collect(&mut self, workers: Option<&MarkWorkers>) -> u64 {
        let mut marker = Marker::new(&self.heap, &NoTracer).unwrap();
        let emptied = Pause::begin(&self.heap).empty(|heap| self.bins.retire(heap));
        let looked = emptied.look(&mut self.central, Look::default());
        let cleared = looked.at_once(&mut self.central);
        let marked = cleared.mark(&self.central, &mut marker, workers, |marker| {
            marker.word(self.first);
        });
        let tail = Tail {
            watch: Some(Watch::All),
            ..Tail::default()
        };
        let (swept, _) = marked.finish(&mut self.central, &mut marker, tail);
        swept.objects
    }

    /// Walks over the list, and returns its length.
    fn length(&self) -> u64 {
        let (mut at, mut count) = (self.first, 0);
        while at != 0 {
            assert!(self.heap.range().contains(&at));
            // SAFETY: an object of the list.
            let [next, seal] = unsafe { *(at as *const [usize; 2]) };
            assert_eq!(seal, !at, "another heap wrote here");
            (at, count) = (next, count + 1);
        }
        count
    }

    fn addresses(&self) -> Range<usize> {
        let places = self.heap.places();
        places.metadata..places.end
    }
}

/// The state of the process: bytes of addresses, bytes of memory, mappings, descriptors.
#[derive(Clone, Copy, Debug)]
struct Has {
    addresses: usize,
    memory: usize,
    mappings: usize,
    descriptors: usize,
}

fn has() -> Has {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: Vec<usize> = statm
        .split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect();
    Has {
        addresses: pages[0] * PAGE,
        memory: pages[1] * PAGE,
        mappings: mappings().len(),
        descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
    }
}

fn mappings() -> Vec<Range<usize>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let range = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(number(start)?..number(end)?)
    };
    maps.lines().map(|line| range(line).unwrap()).collect()
}

fn is_unmapped(range: &Range<usize>) -> bool {
    let overlaps = |other: &Range<usize>| other.start < range.end && other.end > range.start;
    !mappings().iter().any(overlaps)
}

/// A little is allowed for `malloc`.
fn assert_no_more(after: Has, before: Has) {
    assert!(
        after.addresses <= before.addresses + 2 * MIB,
        "{after:?} {before:?}"
    );
    assert!(
        after.memory <= before.memory + 2 * MIB,
        "{after:?} {before:?}"
    );
    assert!(
        after.mappings <= before.mappings + 8,
        "{after:?} {before:?}"
    );
    assert_eq!(after.descriptors, before.descriptors);
}

/// Heaps that grow, are collected by several markers, have writes tracked, and are dropped.
fn in_turn() {
    let mut before = None;
    for round in 0..40 {
        let mut own = Own::new((64 << (round % 8)) * MIB);
        own.grow(20_000, 48);
        own.heap.can_watch();
        let workers = MarkWorkers::new(&own.heap).unwrap();
        std::thread::scope(|scope| {
            let heap = &own.heap;
            let mut helper = Marker::new(heap, &NoTracer).unwrap();
            let workers = &workers;
            let end = scope.spawn(move || while workers.help(&mut helper) {});
            let mut other = Own::new(16 * MIB);
            other.grow(1000, 200);
            assert_eq!((other.collect(None), other.length()), (1000, 1000));
            workers.end();
            end.join().unwrap();
        });
        assert_eq!(
            (own.collect(Some(&workers)), own.length()),
            (20_000, 20_000)
        );
        let addresses = own.addresses();
        drop((own, workers));
        assert!(is_unmapped(&addresses), "round {round}: {addresses:x?}");
        if round == 7 {
            before = Some(has());
        }
    }
    assert_no_more(has(), before.unwrap());
}

/// Many heaps at once. Some are dropped and replaced.
fn at_once() {
    const MANY: usize = 1_000;
    /// Bytes of memory that a heap with one object may take.
    const SMALL: usize = 64 * KIB;
    let before = has().memory;
    let mut all: Vec<Own> = Vec::new();
    let mut taken: Vec<Range<usize>> = Vec::new();
    for round in 0..4 {
        while all.len() < MANY {
            let mut own = Own::new(16 * MIB);
            own.grow(1 + round, 64);
            all.push(own);
        }
        taken.extend(all.iter().map(Own::addresses));
        taken.sort_unstable_by_key(|range| range.start);
        assert!(taken.windows(2).all(|two| two[0].end <= two[1].start));
        taken.clear();
        if round == 0 {
            let each = has().memory.saturating_sub(before) / MANY;
            assert!(each <= SMALL, "{each} bytes each");
        }
        for own in &mut all {
            let length = own.length();
            assert_eq!(own.collect(None), length);
        }
        let mut at = 0;
        all.retain(|_| {
            at += 1;
            at % 3 == 0
        });
    }
}

#[test]
fn a_heap_that_is_dropped_leaves_nothing() {
    // SAFETY: has `malloc` keep nothing for later but small things.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 10) };
    // One after the other: the process is counted.
    in_turn();
    at_once();
    // By now `malloc` has the addresses that it will want again.
    let before = has();
    at_once();
    assert_no_more(has(), before);
}
