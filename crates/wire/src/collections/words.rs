//! The page as words that several processes load and store.

use super::SIZE;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of 8 bytes on the page.
const COUNT: usize = SIZE / 8;

/// A mapped page, or one in this process's own memory.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(&'a [AtomicU64; COUNT]);

impl<'a> Words<'a> {
    /// The words of a mapped page.
    ///
    /// # Safety
    /// `base` is aligned to 8 and points to [`SIZE`] bytes that stay mapped, readable and (for
    /// writers) writable for `'a`; whoever else writes them does so by atomic stores.
    pub unsafe fn new(base: NonNull<u8>) -> Words<'a> {
        debug_assert!(base.as_ptr().addr().is_multiple_of(8));
        // SAFETY: the caller vouches for alignment, length and lifetime; AtomicU64 has the layout
        // of u64 and every bit pattern is a value.
        Words(unsafe { base.cast::<[AtomicU64; COUNT]>().as_ref() })
    }

    /// Words in this process's own memory (tests, simulations).
    pub fn of(words: &'a [AtomicU64; COUNT]) -> Words<'a> {
        Words(words)
    }

    pub(super) fn at(self, offset: usize) -> &'a AtomicU64 {
        &self.0[offset / 8]
    }

    pub(super) fn get(self, offset: usize) -> u64 {
        self.at(offset).load(Ordering::Relaxed)
    }

    pub(super) fn put(self, offset: usize, value: u64) {
        self.at(offset).store(value, Ordering::Relaxed);
    }

    pub(super) fn get_all<const N: usize>(self, offset: usize) -> [u64; N] {
        std::array::from_fn(|index| self.get(offset + index * 8))
    }

    pub(super) fn put_all(self, offset: usize, values: &[u64]) {
        for (index, &value) in values.iter().enumerate() {
            self.put(offset + index * 8, value);
        }
    }

    /// Stores by the one writer of a sequence lock: sequence odd, `stores`, sequence even.
    pub(super) fn write(self, sequence: usize, stores: impl FnOnce(Words<'a>)) {
        let lock = self.at(sequence);
        // A writer that died during a write left it odd; its successor goes on from there.
        let odd = lock.load(Ordering::Relaxed) | 1;
        lock.store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        stores(self);
        lock.store(odd.wrapping_add(1).max(2), Ordering::Release);
    }

    /// Loads under a sequence lock, once. `None` during a write, and before the first.
    pub(super) fn read<T>(self, sequence: usize, loads: impl FnOnce(Words<'a>) -> T) -> Option<T> {
        let before = self.at(sequence).load(Ordering::Acquire);
        if before & 1 == 1 || before == 0 {
            return None;
        }
        let loaded = loads(self);
        fence(Ordering::Acquire);
        (self.get(sequence) == before).then_some(loaded)
    }
}
