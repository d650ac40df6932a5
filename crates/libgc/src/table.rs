//! Tables by address, with a quick hash: nobody chooses addresses to make them collide.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by address.
pub(crate) type Table<V> = HashMap<usize, V, BuildHasherDefault<Address>>;

/// Hashes one address: the halves of a product, folded, because the low bits of addresses are zero
/// and the table uses both the lowest and the highest bits of a hash.
#[derive(Default)]
pub(crate) struct Address(u64);

impl Hasher for Address {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(self.0 as usize ^ usize::from(byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        let product = address as u128 * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> u64::BITS) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Makes room for another entry. Tables of the standard library get twice as large although nearly
/// half of them was removed since.
pub(crate) fn make_room<V>(table: &mut Table<V>) {
    if table.len() == table.capacity() {
        let wanted = table.len() / 8 * 9 + 1;
        let mut other = Table::with_capacity_and_hasher(wanted, BuildHasherDefault::default());
        other.extend(table.drain());
        *table = other;
    }
}

/// How many entries a table may have before a collection that may make it smaller. As with libgc, a
/// table grows only if the collection found few dead entries.
pub(crate) struct Most(usize);

impl Default for Most {
    fn default() -> Most {
        /// As in libgc.
        const FEW: usize = 4096;
        Most(FEW)
    }
}

impl Most {
    /// Whether a collection is due before there is another entry.
    pub(crate) fn is_reached(&self, entries: usize) -> bool {
        entries >= self.0
    }

    /// After that collection, lets the table grow unless a quarter of it is free.
    pub(crate) fn grow(&mut self, entries: usize) {
        if entries > self.0 / 4 * 3 {
            self.0 *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_makes_no_table_larger() {
        let mut table: Table<()> = Table::default();
        for at in 0..100_000usize {
            make_room(&mut table);
            table.insert(at * 16, ());
            if at >= 1000 {
                table.remove(&((at - 1000) * 16));
            }
        }
        assert!(
            table.len() == 1000 && table.capacity() < 2 * 1024,
            "{}",
            table.capacity()
        );
    }

    #[test]
    fn neighbours_are_spread() {
        let hash = |address: usize| {
            let mut hasher = Address::default();
            hasher.write_usize(address);
            hasher.finish()
        };
        let base = 0x7e12_3450_0000;
        let low = |at: usize| hash(base + at * 16) % 1024;
        let all: std::collections::HashSet<u64> = (0..1024).map(low).collect();
        assert!(all.len() > 512, "{}", all.len());
        let high = |at: usize| hash(base + at * 16) >> 57;
        let all: std::collections::HashSet<u64> = (0..1024).map(high).collect();
        assert!(all.len() > 100, "{}", all.len());
    }

    #[test]
    fn it_grows_only_if_little_died() {
        let mut most = Most::default();
        assert!(!most.is_reached(4095) && most.is_reached(4096));
        most.grow(3072);
        assert!(most.is_reached(4096));
        most.grow(3073);
        assert!(!most.is_reached(8191) && most.is_reached(8192));
    }
}
