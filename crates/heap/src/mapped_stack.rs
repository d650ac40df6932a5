//! A stack of plain values in an address range of its own, without `malloc`. Pages that were never
//! touched take no memory.

use crate::os::Os;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// A stack with a fixed capacity.
pub(crate) struct MappedStack<T> {
    /// The address of the first value.
    start: NonNull<T>,
    /// Number of values.
    length: usize,
    /// Most values.
    capacity: usize,
    /// Maps the addresses.
    os: Arc<dyn Os>,
}

// SAFETY: a stack owns its values, as a vector does.
unsafe impl<T: Send> Send for MappedStack<T> {}

impl<T: Copy> MappedStack<T> {
    /// An empty stack of `capacity` values.
    ///
    /// # Errors
    /// There are no addresses for it.
    pub(crate) fn new(os: &Arc<dyn Os>, capacity: usize) -> io::Result<MappedStack<T>> {
        let start = os.map(MappedStack::<T>::bytes(capacity))?;
        Ok(MappedStack {
            start: NonNull::new(start as *mut T).ok_or(io::ErrorKind::OutOfMemory)?,
            length: 0,
            capacity,
            os: os.clone(),
        })
    }

    /// An empty stack of at least `room` values: reuses `before` if that is large enough.
    pub(crate) fn again(
        os: &Arc<dyn Os>,
        before: Option<MappedStack<T>>,
        room: usize,
    ) -> io::Result<MappedStack<T>> {
        match before {
            Some(mut area) if area.capacity >= room => {
                area.clear();
                Ok(area)
            }
            _ => MappedStack::new(os, 2 * room),
        }
    }

    /// Doubles the capacity, to at most `most` values. False if that is not possible.
    pub(crate) fn grow(&mut self, most: usize) -> bool {
        let capacity = (2 * self.capacity).min(most);
        if capacity <= self.capacity {
            return false;
        }
        let (before, after) = (self.range(), MappedStack::<T>::bytes(capacity));
        if before.len() < after {
            // SAFETY: only this value knows the addresses, and `self` is borrowed exclusively.
            let moved = unsafe { self.os.remap(before, after) };
            let Some(start) = moved.ok().and_then(|start| NonNull::new(start as *mut T)) else {
                return false;
            };
            self.start = start;
        }
        self.capacity = capacity;
        true
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.length == self.capacity
    }

    /// Pushes a value. False if there is no room.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) -> bool {
        if self.is_full() {
            return false;
        }
        // SAFETY: below the capacity.
        unsafe { self.start.add(self.length).write(value) };
        self.length += 1;
        true
    }

    /// Pops the value on top.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.length = self.length.checked_sub(1)?;
        // SAFETY: a value was written there.
        Some(unsafe { self.start.add(self.length).read() })
    }

    /// The value at index `at`, counted from the bottom.
    pub(crate) fn get(&self, at: usize) -> Option<T> {
        // SAFETY: a value was written there.
        (at < self.length).then(|| unsafe { self.start.add(at).read() })
    }

    /// Removes all values.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// Moves up to `most` values from the bottom to `to`, as far as that has room.
    pub(crate) fn move_bottom(&mut self, most: usize, to: &mut MappedStack<T>) {
        let count = most.min(self.length).min(to.capacity - to.length);
        // SAFETY: `count` values are here, and there is room for as many behind the last of `to`;
        // two areas do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.start.as_ptr(),
                to.start.add(to.length).as_ptr(),
                count,
            );
            std::ptr::copy(
                self.start.add(count).as_ptr(),
                self.start.as_ptr(),
                self.length - count,
            );
        }
        self.length -= count;
        to.length += count;
    }

    /// Moves up to `most` values from the top to `to`, as far as that has room.
    pub(crate) fn move_top(&mut self, most: usize, to: &mut MappedStack<T>) {
        for _ in 0..most {
            let Some(value) = self.pop() else { return };
            if !to.push(value) {
                self.push(value);
                return;
            }
        }
    }

    /// Gives the memory behind the first `keep` bytes of an empty stack back to the kernel.
    pub(crate) fn shrink(&mut self, keep: usize) {
        debug_assert!(self.is_empty());
        let Range { start, end } = self.range();
        let from = start + keep.next_multiple_of(PAGES);
        if from < end {
            // Memory that the system does not take back stays, without harm.
            let _ = self.os.discard(from..end);
        }
    }
}

impl<T> MappedStack<T> {
    /// Bytes that are mapped for a stack of this many values.
    fn bytes(capacity: usize) -> usize {
        (capacity * size_of::<T>()).next_multiple_of(PAGES)
    }

    /// Its addresses.
    fn range(&self) -> Range<usize> {
        let start = self.start.as_ptr() as usize;
        start..start + MappedStack::<T>::bytes(self.capacity)
    }
}

impl<T> Drop for MappedStack<T> {
    fn drop(&mut self) {
        // SAFETY: mapped for this value alone, which goes.
        unsafe { self.os.unmap(self.range()) };
    }
}

impl MappedStack<u64> {
    /// A full stack of zeros. They take no memory until they are [`set`](MappedStack::set).
    pub(crate) fn zeroed(os: &Arc<dyn Os>, length: usize) -> io::Result<MappedStack<u64>> {
        let mut area = MappedStack::new(os, length)?;
        area.length = length;
        Ok(area)
    }

    /// Replaces the value at index `at`, which must exist.
    pub(crate) fn set(&mut self, at: usize, value: u64) {
        assert!(at < self.length, "there is a value");
        // SAFETY: within the area, which nobody else has.
        unsafe { self.start.add(at).write(value) };
    }
}

/// Ranges are multiples of this, in bytes: a multiple of the page size of every supported kernel.
const PAGES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Linux;

    #[test]
    fn a_full_area_refuses_and_moves_what_fits() {
        let os: Arc<dyn Os> = Arc::new(Linux::new());
        let mut from = MappedStack::new(&os, 10).unwrap();
        let mut to = MappedStack::new(&os, 4).unwrap();
        assert!((0..10).all(|value| from.push(value)));
        assert!(!from.push(10));
        from.move_bottom(3, &mut to);
        assert_eq!((from.len(), to.len()), (7, 3));
        from.move_top(3, &mut to);
        assert_eq!((from.len(), to.len()), (6, 4));
        let rest: Vec<i32> = std::iter::from_fn(|| from.pop()).collect();
        assert_eq!(rest, [8, 7, 6, 5, 4, 3]);
        let moved: Vec<i32> = std::iter::from_fn(|| to.pop()).collect();
        assert_eq!(moved, [9, 2, 1, 0]);
        from.shrink(0);
        assert!(from.push(1));
    }
}
