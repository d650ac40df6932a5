//! The regions of a G1 heap: which are free, and what lies in each.

use super::space::power_of_two;
use super::table::{Object, Table};
use std::collections::BTreeSet;

/// A heap has about this many regions, or more.
const WANTED: u64 = 2048;
/// A region is no smaller than this for their sake, bytes.
const SMALLEST: u64 = 1 << 20;
/// A small heap has about this many regions.
const FEWEST: u64 = 64;

/// The use of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Use {
    /// Nothing.
    #[default]
    Free,
    /// New objects.
    Eden,
    /// Objects that have survived a collection.
    Survivor,
    /// Objects that have survived two, or a collection of the whole heap.
    Old,
    /// One large object, which begins here.
    Humongous,
    /// The rest of that.
    Continued,
}

/// One region.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Region {
    /// Its use.
    pub is: Use,
    /// Bytes of the objects that lie in it, dead or alive. All those of a humongous object are its first
    /// region's.
    pub used: u64,
    /// Bytes of live ones.
    pub live: u64,
    /// Bytes that were live in it when the marking under way began.
    pub marked: Option<u64>,
}

/// Regions and their objects.
#[derive(Debug)]
pub(super) struct Regions {
    /// Size of a region, bytes; constant.
    pub size: u64,
    /// All that there ever were, by number.
    pub all: Vec<Region>,
    /// How many of them the heap has. More may be taken after it was made smaller.
    pub most: u64,
    /// The free ones.
    free: BTreeSet<u32>,
    /// Their objects: a list for each region.
    pub objects: Table,
    /// Bytes of all objects, dead or alive.
    pub used: u64,
}

impl Regions {
    /// A heap of `heap` bytes. Less than a sixty-fourth of them lies in no region.
    pub(super) fn new(heap: u64) -> Regions {
        let size = power_of_two((heap / WANTED).max(SMALLEST.min(heap / FEWEST)));
        // Below twice 2048, and below twice 64 of small ones: the largest heap has 4095.
        let count = heap / size;
        Regions {
            size,
            all: vec![Region::default(); count as usize],
            most: count,
            free: (0..count as u32).collect(),
            objects: Table::new(),
            used: 0,
        }
    }

    /// The heap is of `heap` bytes from now on. Its regions are as large as before.
    pub(super) fn resize(&mut self, heap: u64) {
        self.most = (heap / self.size).min(u64::from(u32::MAX));
        let known = self.all.len() as u32;
        if self.most > u64::from(known) {
            self.free.extend(known..self.most as u32);
            self.all.resize(self.most as usize, Region::default());
        }
    }

    /// Regions of the heap; a number.
    pub(super) fn count(&self) -> u64 {
        self.most
    }

    /// Regions that are not free; a number.
    fn taken(&self) -> u64 {
        (self.all.len() - self.free.len()) as u64
    }

    /// Regions that may be taken; a number.
    pub(super) fn free(&self) -> u64 {
        self.most.saturating_sub(self.taken())
    }

    /// Whether an object has regions of its own: it is as large as half of one.
    pub(super) fn is_humongous(&self, size: u64) -> bool {
        size >= self.size.div_ceil(2)
    }

    /// Takes the free region of the lowest number, if the heap has one more.
    pub(super) fn take(&mut self, is: Use) -> Option<u32> {
        if self.free() == 0 {
            return None;
        }
        self.take_beyond(is)
    }

    /// The same, however large the heap is.
    fn take_beyond(&mut self, is: Use) -> Option<u32> {
        let region = self.free.pop_first()?;
        self.all[region as usize].is = is;
        Some(region)
    }

    /// Whether a region has room for an object.
    pub(super) fn has_room(&self, region: u32, size: u64) -> bool {
        size <= self.size - self.all[region as usize].used
    }

    /// Puts an object at the end of a region.
    pub(super) fn add(&mut self, region: u32, size: u64) -> Option<Object> {
        let object = self.objects.add(region, size)?;
        self.all[region as usize].used += size;
        self.all[region as usize].live += size;
        self.used += size;
        Some(object)
    }

    /// Takes the first free regions that lie together and have room for a humongous object. Returns the
    /// number of the first of them.
    pub(super) fn take_humongous(&mut self, size: u64) -> Option<u32> {
        if size.div_ceil(self.size) > self.free() {
            return None;
        }
        self.take_humongous_beyond(size)
    }

    /// The same, however large the heap is.
    fn take_humongous_beyond(&mut self, size: u64) -> Option<u32> {
        let wanted = u32::try_from(size.div_ceil(self.size)).ok()?;
        let (mut first, mut next) = (0, 0);
        for &region in &self.free {
            if region != next {
                first = region;
            }
            next = region + 1;
            if next - first == wanted {
                self.occupy(first, wanted);
                return Some(first);
            }
        }
        None
    }

    fn occupy(&mut self, first: u32, count: u32) {
        for region in first..first + count {
            self.free.remove(&region);
            self.all[region as usize].is = if region == first {
                Use::Humongous
            } else {
                Use::Continued
            };
        }
    }

    /// Forgets a dead object.
    pub(super) fn died(&mut self, object: Object) {
        let size = self.objects.size(object);
        let region = self.objects.remove(object);
        self.all[region as usize].live -= size;
    }

    /// Moves a live object to the end of another region.
    pub(super) fn move_to(&mut self, object: Object, from: u32, to: u32) {
        let size = self.objects.size(object);
        for (region, add) in [(from, false), (to, true)] {
            let region = &mut self.all[region as usize];
            let moved = |bytes: u64| if add { bytes + size } else { bytes - size };
            region.used = moved(region.used);
            region.live = moved(region.live);
        }
        self.objects.move_to(object, to);
    }

    /// Frees a region in which nothing is alive; of a humongous object, all of its regions. Returns the bytes
    /// of what is dead in it.
    pub(super) fn release(&mut self, first: u32) -> u64 {
        let dead = self.all[first as usize].used;
        let rest = self.all.get(first as usize + 1..).unwrap_or_default();
        let rest = rest.iter().take_while(|it| it.is == Use::Continued).count() as u32;
        let rest = match self.all[first as usize].is {
            Use::Humongous => rest,
            _ => 0,
        };
        for region in first..=first + rest {
            self.all[region as usize] = Region::default();
            self.free.insert(region);
        }
        self.used -= dead;
        dead
    }

    /// The regions that are used so, in order.
    pub(super) fn of(&self, is: Use) -> impl Iterator<Item = u32> + '_ {
        let all = (0..).zip(&self.all);
        all.filter(move |(_, region)| region.is == is)
            .map(|(number, _)| number)
    }

    /// Moves all live objects together, to the low end of the heap and in their order, into old regions.
    /// Returns the last of them, if objects can be added to it, and the bytes of the dead.
    pub(super) fn compact(&mut self) -> (Option<u32>, u64) {
        let live: Vec<Object> = (0..self.all.len() as u32)
            .flat_map(|region| self.objects.of(region))
            .collect();
        let used = std::mem::take(&mut self.used);
        self.all.fill(Region::default());
        self.free = (0..self.all.len() as u32).collect();
        let mut last = None;
        for object in live {
            let size = self.objects.size(object);
            let fits = last.filter(|&last| !self.is_humongous(size) && self.has_room(last, size));
            // They had as many regions before, in this order.
            let Some(region) = fits.or_else(|| {
                if self.is_humongous(size) {
                    self.take_humongous_beyond(size)
                } else {
                    self.take_beyond(Use::Old)
                }
            }) else {
                break;
            };
            last = (!self.is_humongous(size)).then_some(region);
            self.objects.move_to(object, region);
            self.all[region as usize].used += size;
            self.all[region as usize].live += size;
            self.used += size;
        }
        (last, used - self.used)
    }

    /// Bytes of regions that are taken, and no object's.
    pub(super) fn lost(&self) -> u64 {
        self.taken() * self.size - self.used
    }
}
