//! Regions, as in HotSpot's G1: collections take the young regions, and some of the old ones that promise
//! most.
//!
//! Objects of zero bytes lie nowhere.

use super::collector::{Collection, Collector, Kind, Place};
use super::ratio::NewRatio;
use super::regions::{Regions, Use};
use super::table::Object;

/// Regions that eden leaves free for copies if it can, percent (`G1ReservePercent`).
const RESERVE: u64 = 10;
/// The least of the heap that is young if it is free, percent of the regions (`G1NewSizePercent`).
const LEAST_YOUNG: u64 = 5;
/// A marking begins when this part of the regions is old or humongous, percent
/// (`InitiatingHeapOccupancyPercent`).
const OCCUPANCY: u64 = 45;
/// Regions with a larger live part are not collected, percent (`G1MixedGCLiveThresholdPercent`).
const LIVE: u64 = 85;
/// Mixed collections end when so little of the heap is left to be gained, percent (`G1HeapWastePercent`).
const WASTE: u64 = 5;
/// The candidates are spread over this many mixed collections (`G1MixedGCCountTarget`).
const MIXED: u64 = 8;

/// The place of objects of zero bytes.
const NOWHERE: Place = Place::new(u64::MAX - 1);

/// A heap of regions.
///
/// A collection copies what is alive in eden into survivor regions, and what is alive in those into old ones.
/// If no region is free for a copy, the object stays, and its region is old from then on. Humongous objects
/// are not copied, and a dead one is freed by any collection.
///
/// After a collection that leaves enough in old regions, all that is alive is marked while the threads go on.
/// The marking is over when the next collection begins. Old regions without anything alive are free then, and
/// the others that have enough garbage are candidates: that collection and those after it are mixed, and take
/// some of them, those with most garbage first.
///
/// Where that makes no room, all live objects are compacted.
#[derive(Debug)]
pub(super) struct G1 {
    regions: Regions,
    /// The most of the regions that is young.
    ratio: NewRatio,
    /// Eden regions in the order in which they were taken. The last one takes new objects.
    eden: Vec<u32>,
    /// The most eden regions before the next collection; a number.
    most_eden: u64,
    /// Survivor regions in the order in which they were taken. The last one takes copies.
    survivors: Vec<u32>,
    /// The old region that takes copies. It stays so after a collection.
    filled: Option<u32>,
    /// Whether all is marked while the threads go on.
    is_marking: bool,
    /// Old regions to collect, with the garbage that marking found in each, bytes. The most is last.
    candidates: Vec<(u64, u32)>,
    /// How many of them a collection takes.
    share: usize,
}

impl G1 {
    /// A heap of `heap` bytes.
    pub(super) fn new(heap: u64, ratio: NewRatio) -> G1 {
        let mut heap = G1 {
            regions: Regions::new(heap),
            ratio,
            eden: Vec::new(),
            most_eden: 0,
            survivors: Vec::new(),
            filled: None,
            is_marking: false,
            candidates: Vec::new(),
            share: 0,
        };
        heap.plan_eden();
        heap
    }

    /// Decides how many eden regions there are until the next collection.
    fn plan_eden(&mut self) {
        let (all, free) = (self.regions.count(), self.regions.free());
        let reserve = (all * RESERVE).div_ceil(100);
        let least = (all * LEAST_YOUNG).div_ceil(100).min(free);
        let survivors = self.survivors.len() as u64;
        let wanted = self.ratio.young(all).saturating_sub(survivors);
        self.most_eden = wanted.min(free.saturating_sub(reserve)).max(least);
    }

    fn new_object(&mut self, size: u64) -> Option<Object> {
        if self.regions.is_humongous(size) {
            let first = self.regions.take_humongous(size)?;
            return self.regions.add(first, size);
        }
        let last = self.eden.last().copied();
        if let Some(region) = last.filter(|&region| self.regions.has_room(region, size)) {
            return self.regions.add(region, size);
        }
        if self.eden.len() as u64 >= self.most_eden {
            return None;
        }
        let region = self.regions.take(Use::Eden)?;
        self.eden.push(region);
        self.regions.add(region, size)
    }

    /// Copies what is alive in a region, and frees it if nothing has to stay. Returns the bytes that were
    /// copied; the region is empty if it can be freed.
    fn evacuate(&mut self, from: u32) -> u64 {
        let to = match self.regions.all[from as usize].is {
            Use::Eden => Use::Survivor,
            _ => Use::Old,
        };
        let mut copied = 0;
        let mut next = self.regions.objects.first(from);
        while let Some(object) = next {
            next = self.regions.objects.after(object);
            let size = self.regions.objects.size(object);
            if let Some(region) = self.room_for_copy(to, size) {
                self.regions.move_to(object, from, region);
                copied += size;
            }
        }
        copied
    }

    /// A region for the copy of an object.
    fn room_for_copy(&mut self, to: Use, size: u64) -> Option<u32> {
        let current = match to {
            Use::Survivor => self.survivors.last().copied(),
            _ => self.filled,
        };
        if let Some(region) = current.filter(|&region| self.regions.has_room(region, size)) {
            return Some(region);
        }
        let region = self.regions.take(to)?;
        match to {
            Use::Survivor => self.survivors.push(region),
            _ => self.filled = Some(region),
        }
        Some(region)
    }

    /// Ends the marking, if one is on: frees old regions in which nothing was alive, and chooses candidates.
    /// Returns the bytes that it freed.
    fn end_marking(&mut self) -> u64 {
        if !std::mem::take(&mut self.is_marking) {
            return 0;
        }
        let mut freed = 0;
        for number in 0..self.regions.all.len() as u32 {
            let region = &mut self.regions.all[number as usize];
            let Some(marked) = region.marked.take() else {
                continue;
            };
            let garbage = region.used - marked;
            if marked == 0 {
                freed += self.regions.release(number);
                self.filled = self.filled.filter(|&filled| filled != number);
            } else if self.filled != Some(number) && marked * 100 < self.regions.size * LIVE {
                self.candidates.push((garbage, number));
            }
        }
        // Among regions with equal garbage, the lowest number is last.
        self.candidates
            .sort_unstable_by_key(|&(garbage, number)| (garbage, std::cmp::Reverse(number)));
        self.share = (self.candidates.len() as u64).div_ceil(MIXED) as usize;
        freed
    }

    /// Takes the old regions that the next collection copies.
    fn choose(&mut self) -> Vec<u32> {
        let gain: u64 = self.candidates.iter().map(|(garbage, _)| garbage).sum();
        let heap = self.regions.count() * self.regions.size;
        if u128::from(gain) * 100 <= u128::from(heap) * u128::from(WASTE) {
            self.candidates.clear();
        }
        let rest = self.candidates.len().saturating_sub(self.share);
        let chosen = self.candidates.drain(rest..).rev();
        chosen.map(|(_, number)| number).collect()
    }

    /// Begins to mark if enough is old. Returns the bytes of what will be marked.
    fn begin_marking(&mut self) -> u64 {
        let is_old = |it: Use| !matches!(it, Use::Free | Use::Eden | Use::Survivor);
        let all = &mut self.regions.all;
        let old = all.iter().filter(|region| is_old(region.is)).count() as u64;
        let enough = old * 100 >= self.regions.most * OCCUPANCY;
        if !self.candidates.is_empty() || !enough || old == 0 {
            return 0;
        }
        self.is_marking = true;
        for region in all.iter_mut().filter(|region| region.is == Use::Old) {
            region.marked = Some(region.live);
        }
        all.iter().map(|region| region.live).sum()
    }

    /// Collects the young regions and perhaps some of the old ones.
    fn collect_some(&mut self) -> Collection {
        let mut freed = self.end_marking();
        let chosen = self.choose();
        let kind = if chosen.is_empty() {
            Kind::Minor
        } else {
            Kind::Mixed
        };
        let mut from = std::mem::take(&mut self.eden);
        from.append(&mut self.survivors);
        from.extend(chosen);
        let mut copied = 0;
        for &region in &from {
            copied += self.evacuate(region);
        }
        for &region in &from {
            match self.regions.objects.first(region) {
                None => freed += self.regions.release(region),
                Some(_) => self.regions.all[region as usize].is = Use::Old,
            }
        }
        let humongous: Vec<u32> = self.regions.of(Use::Humongous).collect();
        for region in humongous {
            if self.regions.objects.first(region).is_none() {
                freed += self.regions.release(region);
            }
        }
        let concurrent = self.begin_marking();
        self.plan_eden();
        Collection {
            concurrent,
            ..Collection::copying(kind, copied, freed)
        }
    }

    /// Compacts the whole heap.
    fn collect_all(&mut self) -> Collection {
        self.is_marking = false;
        self.candidates.clear();
        self.eden.clear();
        self.survivors.clear();
        let (last, freed) = self.regions.compact();
        self.filled = last;
        self.plan_eden();
        Collection::compacting(self.regions.used, freed)
    }
}

impl Collector for G1 {
    fn allocate(&mut self, size: u64) -> Option<Place> {
        match size {
            0 => Some(NOWHERE),
            _ => self.new_object(size).map(Object::place),
        }
    }

    fn died(&mut self, place: Place, _size: u64) {
        if place != NOWHERE {
            self.regions.died(Object::at(place));
        }
    }

    fn collect(&mut self, _size: u64, all: bool) -> Collection {
        if all {
            self.collect_all()
        } else {
            self.collect_some()
        }
    }

    fn used(&self) -> u64 {
        self.regions.used
    }

    fn fragmented(&self) -> u64 {
        let open = self.eden.last().copied().into_iter().chain(self.filled);
        let open = open.map(|region| self.regions.size - self.regions.all[region as usize].used);
        self.regions.lost() - open.sum::<u64>()
    }

    fn resize(&mut self, heap: u64) {
        self.regions.resize(heap);
        self.plan_eden();
    }
}
