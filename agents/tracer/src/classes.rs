//! The classes that a thread has met. An allocation names its class by a handle: the address of a place that
//! has the address of the class's object. To ask the machine for that object's hash each time would cost more
//! than all else that is recorded of an allocation, so it is asked once, and then the place of the handle is
//! compared with that of one that is kept.

use crate::function_table::Object;
use plimsoll_trace::ClassId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Classes that are found at once.
const RECENT: usize = 256;
/// The bits of a handle that say of what kind it is.
const KIND: usize = 3;

/// A class that this thread has met.
#[derive(Debug)]
pub struct Met {
    /// Its number.
    pub class: ClassId,
    /// In sampled recordings the group that is being filled.
    pub group: u64,
    /// Members of that group so far.
    pub members: u64,
    /// It is an array whose elements have more than a byte.
    pub is_wide: bool,
    /// A handle that is never given up. It does not keep the class; when that is gone, it has null.
    kept: usize,
}

/// The classes that a thread has met. Only that thread uses it, or one that holds the lock of its
/// recorder.
#[derive(Debug)]
pub struct Classes {
    all: Vec<Met>,
    /// Places in `all`, by the hash of the class.
    by_hash: HashMap<u32, usize>,
    /// Places in `all`, by where the class's object was.
    recent: Box<[u32; RECENT]>,
}

/// The address of a handle's object, which is the content of the handle's slot.
fn at(handle: usize) -> usize {
    let place = (handle & !KIND) as *const AtomicUsize;
    // SAFETY: a handle that the machine gave and that is not given up is the address of a place that the
    // machine reads and writes as a whole. It may move the object while we look.
    unsafe { (*place).load(Ordering::Acquire) }
}

fn recent(at: usize) -> usize {
    // Objects are aligned to 8 bytes at least, and those of classes are larger than 64.
    (at >> 3 ^ at >> 11) % RECENT
}

impl Classes {
    /// None yet.
    pub fn new() -> Classes {
        Classes {
            all: Vec::new(),
            by_hash: HashMap::new(),
            recent: Box::new([0; RECENT]),
        }
    }

    /// The place of a class that was met and that is remembered at its address.
    pub fn find(&self, class: Object) -> Option<usize> {
        let class = class as usize;
        let before = at(class);
        let place = self.recent[recent(before)] as usize;
        let met = self.all.get(place)?;
        // If a collection moved objects meanwhile, another class may be at the address by now.
        (at(met.kept) == before && at(class) == before && before != 0).then_some(place)
    }

    /// The place of a class that was met, by its hash. It is found by its address from now on.
    pub fn find_by_hash(&mut self, hash: u32, class: Object) -> Option<usize> {
        let place = *self.by_hash.get(&hash)?;
        self.recent[recent(at(class as usize))] = place as u32;
        Some(place)
    }

    /// Adds a class. `kept` is a weak handle to it that is never given up. Returns its place.
    pub fn add(&mut self, hash: u32, class: ClassId, is_wide: bool, kept: Object) -> usize {
        let place = self.all.len();
        self.all.push(Met {
            class,
            group: 0,
            members: 0,
            is_wide,
            kept: kept as usize,
        });
        self.by_hash.insert(hash, place);
        place
    }

    /// The class at a place that was found.
    pub fn at(&mut self, place: usize) -> &mut Met {
        &mut self.all[place]
    }
}

impl Default for Classes {
    fn default() -> Classes {
        Classes::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    /// A handle of an object at this address, as the machine would give it.
    fn handle(place: &AtomicUsize) -> Object {
        place.as_ptr().cast()
    }

    #[test]
    fn a_class_is_found_where_it_is_now() {
        let [local, other] = [0x1000, 0x2000].map(AtomicUsize::new);
        let [kept, kept_other] = [0x1000, 0x2000].map(AtomicUsize::new);
        let mut classes = Classes::new();
        assert_eq!(classes.find(handle(&local)), None);
        let id = |number| ClassId(NonZeroU32::new(number).unwrap());
        let one = classes.add(7, id(1), false, handle(&kept));
        let two = classes.add(8, id(2), false, handle(&kept_other));
        assert_eq!(classes.find_by_hash(7, handle(&local)), Some(one));
        assert_eq!(classes.find_by_hash(8, handle(&other)), Some(two));
        assert_eq!(classes.find_by_hash(9, handle(&other)), None);
        assert_eq!(
            [&local, &other].map(|it| classes.find(handle(it))),
            [Some(one), Some(two)]
        );
        // A collection moves one to where the other was.
        for place in [&local, &kept] {
            place.store(0x2000, Ordering::Relaxed);
        }
        kept_other.store(0x3000, Ordering::Relaxed);
        assert_eq!(
            classes.find(handle(&local)),
            None,
            "another class was there"
        );
        assert_eq!(classes.find_by_hash(7, handle(&local)), Some(one));
        assert_eq!(classes.find(handle(&local)), Some(one));
        assert_eq!(classes.at(two).class, id(2));
    }
}
