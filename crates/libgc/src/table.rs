//! Tables by address, with a quick hash: nobody chooses addresses to make them collide.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What is known of addresses.
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

/// How many entries a table may have before a collection that may make it smaller. As with libgc, a
/// table grows only if the collection found few dead entries.
pub(crate) struct Most(usize);

/// Half of what a table of 8192 buckets takes.
const FEW: usize = 3584;

impl Default for Most {
    fn default() -> Most {
        Most(FEW)
    }
}

impl Most {
    /// Whether a collection is due before a table with `entries` entries gets another one.
    pub(crate) fn is_reached(&self, entries: usize) -> bool {
        entries >= self.0
    }

    /// Lets a table grow that has `entries` entries, unless a quarter of it is free.
    pub(crate) fn grow(&mut self, entries: usize) {
        if entries > self.0 / 4 * 3 {
            self.0 *= 2;
        }
    }
}
