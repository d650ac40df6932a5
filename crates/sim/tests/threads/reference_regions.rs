//! G1, literally: each region is a list of the objects that lie in it.

use crate::reference_heap::{Heap, NOTHING, Object, bytes, evacuate, live, young};
use plimsoll_sim::threads::heap::{Collection, Kind, NewRatio};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Use {
    Free,
    Eden,
    Survivor,
    Old,
    Humongous,
    Continued,
}

struct Region {
    is: Use,
    objects: Vec<Object>,
    /// Bytes that were alive in it when the marking began.
    marked: Option<u64>,
}

/// A heap of regions. Objects of no bytes are in none of them.
pub(crate) struct Regions {
    size: u64,
    ratio: NewRatio,
    regions: Vec<Region>,
    empty: Vec<Object>,
    eden: Vec<usize>,
    survivors: Vec<usize>,
    most_eden: usize,
    /// The old region that takes copies.
    filled: Option<usize>,
    marking: bool,
    /// In the order in which they are collected, with their garbage.
    candidates: Vec<(usize, u64)>,
    share: usize,
}

impl Regions {
    pub(crate) fn new(heap: u64, ratio: NewRatio) -> Regions {
        let wanted = (heap / 2048).max((heap / 64).min(1 << 20));
        let mut size = 1;
        while size <= wanted / 2 {
            size *= 2;
        }
        let free = |_| Region {
            is: Use::Free,
            objects: Vec::new(),
            marked: None,
        };
        let mut regions = Regions {
            size,
            ratio,
            regions: (0..heap / size).map(free).collect(),
            empty: Vec::new(),
            eden: Vec::new(),
            survivors: Vec::new(),
            most_eden: 0,
            filled: None,
            marking: false,
            candidates: Vec::new(),
            share: 0,
        };
        regions.plan();
        regions
    }

    fn free(&self) -> usize {
        let free = |it: &&Region| it.is == Use::Free;
        self.regions.iter().filter(free).count()
    }

    fn plan(&mut self) {
        let percent = |part: usize| (self.regions.len() * part).div_ceil(100);
        let free = self.free();
        let most = young(self.regions.len() as u64, self.ratio) as usize;
        let wanted = most.saturating_sub(self.survivors.len());
        let leaves_reserve = wanted.min(free.saturating_sub(percent(10)));
        self.most_eden = leaves_reserve.max(percent(5).min(free));
    }

    fn take(&mut self, is: Use) -> Option<usize> {
        let region = self.regions.iter().position(|it| it.is == Use::Free)?;
        self.regions[region].is = is;
        Some(region)
    }

    fn room(&self, region: Option<&usize>, size: u64) -> Option<usize> {
        let region = *region?;
        (bytes(&self.regions[region].objects) + size <= self.size).then_some(region)
    }

    fn is_humongous(&self, size: u64) -> bool {
        size * 2 >= self.size
    }

    fn place_humongous(&mut self, object: Object) -> bool {
        let wanted = object.size.div_ceil(self.size) as usize;
        for first in 0..self.regions.len() {
            let Some(room) = self.regions.get_mut(first..first + wanted) else {
                return false;
            };
            if room.iter().all(|it| it.is == Use::Free) {
                room.iter_mut().for_each(|it| it.is = Use::Continued);
                room[0].is = Use::Humongous;
                room[0].objects.push(object);
                return true;
            }
        }
        false
    }

    /// Puts a copy into a survivor or an old region.
    fn copy(&mut self, object: Object, to: Use) -> bool {
        let current = match to {
            Use::Survivor => self.survivors.last(),
            _ => self.filled.as_ref(),
        };
        let region = match self.room(current, object.size) {
            Some(region) => region,
            None => {
                let Some(region) = self.take(to) else {
                    return false;
                };
                match to {
                    Use::Survivor => self.survivors.push(region),
                    _ => self.filled = Some(region),
                }
                region
            }
        };
        self.regions[region].objects.push(object);
        true
    }

    fn end_marking(&mut self) -> u64 {
        let mut freed = 0;
        if !std::mem::take(&mut self.marking) {
            return 0;
        }
        for region in 0..self.regions.len() {
            let Some(marked) = self.regions[region].marked.take() else {
                continue;
            };
            let used = bytes(&self.regions[region].objects);
            if marked == 0 {
                freed += used;
                self.regions[region].is = Use::Free;
                self.regions[region].objects.clear();
                if self.filled == Some(region) {
                    self.filled = None;
                }
            } else if self.filled != Some(region) && marked * 100 < self.size * 85 {
                self.candidates.push((region, used - marked));
            }
        }
        self.candidates
            .sort_by_key(|&(region, garbage)| (u64::MAX - garbage, region));
        self.share = self.candidates.len().div_ceil(8);
        freed
    }

    fn begin_marking(&mut self) -> u64 {
        let old = [Use::Old, Use::Humongous, Use::Continued];
        let count = self
            .regions
            .iter()
            .filter(|it| old.contains(&it.is))
            .count();
        let enough = count > 0 && count * 100 >= self.regions.len() * 45;
        if !self.candidates.is_empty() || !enough {
            return 0;
        }
        self.marking = true;
        let mut sum = 0;
        for region in &mut self.regions {
            sum += live(&region.objects);
            if region.is == Use::Old {
                region.marked = Some(live(&region.objects));
            }
        }
        sum
    }

    fn collect_some(&mut self) -> Collection {
        let mut collection = NOTHING;
        collection.freed = self.end_marking();
        let gain: u64 = self.candidates.iter().map(|it| it.1).sum();
        if gain * 100 <= self.regions.len() as u64 * self.size * 5 {
            self.candidates.clear();
        }
        let chosen: Vec<_> = self
            .candidates
            .drain(..self.share.min(self.candidates.len()))
            .map(|it| it.0)
            .collect();
        if !chosen.is_empty() {
            collection.kind = Kind::Mixed;
        }
        let mut from = std::mem::take(&mut self.eden);
        from.extend(std::mem::take(&mut self.survivors));
        from.extend(chosen);
        for &region in &from {
            let to = match self.regions[region].is {
                Use::Eden => Use::Survivor,
                _ => Use::Old,
            };
            let objects = std::mem::take(&mut self.regions[region].objects);
            let mut stay = Vec::new();
            for object in objects {
                if object.live && self.copy(object, to) {
                    collection.work += object.size;
                } else {
                    stay.push(object);
                }
            }
            self.regions[region].objects = stay;
        }
        for &region in &from {
            let region = &mut self.regions[region];
            region.is = Use::Old;
            if live(&region.objects) == 0 {
                region.is = Use::Free;
                collection.freed += evacuate(&mut region.objects).1;
            }
        }
        let is_dead = |it: &Region| it.is == Use::Humongous && live(&it.objects) == 0;
        while let Some(mut region) = self.regions.iter().position(is_dead) {
            collection.freed += evacuate(&mut self.regions[region].objects).1;
            self.regions[region].is = Use::Free;
            region += 1;
            while region < self.regions.len() && self.regions[region].is == Use::Continued {
                self.regions[region].is = Use::Free;
                region += 1;
            }
        }
        collection.concurrent = self.begin_marking();
        collection
    }

    fn collect_all(&mut self) -> Collection {
        let mut collection = Collection {
            kind: Kind::Full,
            ..NOTHING
        };
        self.marking = false;
        self.candidates.clear();
        self.eden.clear();
        self.survivors.clear();
        self.filled = None;
        let mut all = Vec::new();
        for region in &mut self.regions {
            let (survivors, dead) = evacuate(&mut region.objects);
            collection.freed += dead;
            all.extend(survivors);
            region.is = Use::Free;
            region.marked = None;
        }
        for object in all {
            collection.work += object.size;
            if self.is_humongous(object.size) {
                self.filled = None;
                assert!(self.place_humongous(object));
            } else {
                assert!(self.copy(object, Use::Old));
            }
        }
        collection.marked = collection.work;
        collection.compacted = collection.work;
        collection
    }
}

impl Heap for Regions {
    fn place(&mut self, object: Object) -> bool {
        if object.size == 0 {
            self.empty.push(object);
            return true;
        }
        if self.is_humongous(object.size) {
            return self.place_humongous(object);
        }
        let region = match self.room(self.eden.last(), object.size) {
            Some(region) => Some(region),
            None if self.eden.len() < self.most_eden => {
                let region = self.take(Use::Eden);
                self.eden.extend(region);
                region
            }
            None => None,
        };
        if let Some(region) = region {
            self.regions[region].objects.push(object);
        }
        region.is_some()
    }

    fn collect(&mut self, _size: u64, all: bool) -> Collection {
        let collection = if all {
            self.collect_all()
        } else {
            self.collect_some()
        };
        self.plan();
        collection
    }

    fn objects(&mut self) -> Vec<&mut Object> {
        let regions = self.regions.iter_mut();
        let objects = regions.flat_map(|region| &mut region.objects);
        objects.chain(&mut self.empty).collect()
    }

    fn fragmented(&self) -> u64 {
        let lost = |region: &Region| self.size - bytes(&region.objects).min(self.size);
        let mut sum = 0;
        for (number, region) in self.regions.iter().enumerate() {
            let is_open = self.eden.last() == Some(&number) || self.filled == Some(number);
            sum += match region.is {
                Use::Free | Use::Continued => 0,
                Use::Humongous => {
                    let size = bytes(&region.objects);
                    size.div_ceil(self.size) * self.size - size
                }
                _ if is_open => 0,
                _ => lost(region),
            };
        }
        sum
    }
}
