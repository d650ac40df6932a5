//! Maps by the numbers of a trace: those of objects, monitors and threads, which follow each other or are
//! addresses, or were chosen by whoever made the trace. So each map hashes with keys of its own, which
//! nobody knows: numbers that collide in one do not in another. No output depends on their order.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// Slots of an empty table; a power of two.
const FEWEST: usize = 64;
/// A table grows when more than this part of its slots is taken: 5 of 8.
const FULL: (usize, usize) = (5, 8);

/// A map by one number.
pub type ByNumber<K, V> = HashMap<K, V, RandomState>;

/// A map by numbers of objects, monitors or threads.
pub(crate) type Map<V> = ByNumber<u64, V>;

/// Room for a number.
#[derive(Clone, Copy, Debug)]
struct Slot<V> {
    number: u64,
    /// None while the slot is free.
    value: Option<V>,
}

/// A map by number for what comes and goes by the million, while about as many are there.
///
/// A number is in the slot that its hash says, or in the first one behind it that was free: between these
/// two, no slot is free. A removal moves up those that had to step aside, so nothing stays behind that would
/// fill the table. It is as large as for the most that were in it at once, however many there were.
#[derive(Clone, Debug)]
pub struct Table<V> {
    /// As many as a power of two.
    slots: Vec<Slot<V>>,
    count: usize,
    keys: RandomState,
}

impl<V: Copy> Default for Table<V> {
    fn default() -> Self {
        Table {
            slots: Table::free(FEWEST),
            count: 0,
            keys: RandomState::default(),
        }
    }
}

impl<V: Copy> Table<V> {
    /// How many numbers are in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many numbers there is room for, until the table grows.
    pub fn capacity(&self) -> usize {
        self.slots.len() * FULL.0 / FULL.1
    }

    /// Puts a number in. Returns its value from before, which is forgotten.
    #[inline]
    pub fn insert(&mut self, number: u64, value: V) -> Option<V> {
        let (at, before) = self.find(number);
        let value = Some(value);
        self.slots[at] = Slot { number, value };
        if before.is_none() {
            self.count += 1;
            if self.count > self.capacity() {
                self.grow();
            }
        }
        before
    }

    /// Takes a number out. Returns its value.
    #[inline]
    pub fn remove(&mut self, number: u64) -> Option<V> {
        let (at, found) = self.find(number);
        if found.is_some() {
            self.count -= 1;
            self.close(at);
        }
        found
    }

    fn free(slots: usize) -> Vec<Slot<V>> {
        let free = Slot {
            number: 0,
            value: None,
        };
        vec![free; slots]
    }

    /// The slot of a number and its value, or the slot that it would have.
    #[inline]
    fn find(&self, number: u64) -> (usize, Option<V>) {
        let mut at = self.home(number);
        loop {
            let slot = &self.slots[at];
            if slot.value.is_none() || slot.number == number {
                return (at, slot.value);
            }
            at = self.behind(at);
        }
    }

    /// Frees a slot, and moves up those behind it that it kept from theirs.
    #[inline]
    fn close(&mut self, mut gap: usize) {
        let most = self.slots.len() - 1;
        let mut at = self.behind(gap);
        while self.slots[at].value.is_some() {
            let home = self.home(self.slots[at].number);
            let (from_home, from_gap) = (at.wrapping_sub(home), at.wrapping_sub(gap));
            if from_home & most >= from_gap & most {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
            at = self.behind(at);
        }
        self.slots[gap].value = None;
    }

    /// The slot that a number has if no other one does.
    #[inline]
    fn home(&self, number: u64) -> usize {
        self.keys.hash_one(number) as usize & (self.slots.len() - 1)
    }

    /// The slot behind another one.
    #[inline]
    fn behind(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        let more = Table::free(2 * self.slots.len());
        for slot in std::mem::replace(&mut self.slots, more) {
            if slot.value.is_some() {
                let (at, _) = self.find(slot.number);
                self.slots[at] = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Numbers of a few runs, of addresses, and any.
        #[test]
        fn it_is_a_map(deeds in prop::collection::vec(
            (any::<bool>(), prop_oneof![0..40u64, (0..40u64).prop_map(|it| it << 40), any::<u64>()]),
            0..2000,
        )) {
            let (mut table, mut map) = (Table::default(), BTreeMap::new());
            for (step, (comes, number)) in (0..).zip(deeds) {
                if comes {
                    prop_assert_eq!(table.insert(number, step), map.insert(number, step));
                } else {
                    prop_assert_eq!(table.remove(number), map.remove(&number));
                }
                prop_assert_eq!(table.len(), map.len());
            }
            for (number, value) in map {
                prop_assert_eq!(table.remove(number), Some(value));
            }
            prop_assert!(table.slots.iter().all(|slot: &Slot<u64>| slot.value.is_none()));
        }
    }

    #[test]
    fn its_size_is_that_of_the_most_that_were_there_at_once() {
        let mut table = Table::default();
        for number in 0..1_000_000 {
            table.insert(number * 8, number);
            if let Some(old) = number.checked_sub(1000) {
                assert_eq!(table.remove(old * 8), Some(old));
            }
        }
        assert_eq!((table.len(), table.slots.len()), (1000, 2048));
    }

    /// An unkeyed hash: the numbers that a known one brings together are chosen so.
    fn unkeyed(number: u64) -> u64 {
        let product = u128::from(number) * 0x9e37_79b9_7f4a_7c15;
        (product as u64) ^ (product >> 64) as u64
    }

    #[test]
    fn numbers_that_collide_under_a_known_hash_do_not_collide_here() {
        const SLOTS: u64 = 1 << 14;
        let chosen = (0..).filter(|number| unkeyed(*number).is_multiple_of(SLOTS));
        let mut table = Table::default();
        for number in chosen.take(4000) {
            table.insert(number, number);
        }
        let from_home = |(at, slot): (usize, &Slot<u64>)| {
            let home = slot.value.map_or(at, |_| table.home(slot.number));
            at.wrapping_sub(home) & (table.slots.len() - 1)
        };
        // Unkeyed, the last of them is 4000 slots from its home, and all of them together 8 million.
        let away: usize = table.slots.iter().enumerate().map(from_home).sum();
        assert!(away < 10 * table.len(), "{away}");
    }
}
