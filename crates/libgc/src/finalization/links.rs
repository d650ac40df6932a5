//! Disappearing links: words that are cleared when the object that they refer to dies. Short links
//! are cleared before finalizers are called. Long links are cleared only when the object is not
//! kept for a finalizer either.

use crate::table::{self, Most};
use plimsoll_heap::Heap;

/// The object of each link, by the link's address.
pub(crate) type Table = table::Table<usize>;

/// All links of the program. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Links {
    /// Links that are cleared before finalizers run.
    pub(crate) short: Table,
    /// Links that are cleared once the object cannot be reached by finalizers either.
    pub(crate) long: Table,
    /// How many there may be before a collection.
    most: Most,
}

impl Links {
    /// Clears short links to dead objects.
    pub(crate) fn clear_short(&mut self, dead: &impl Fn(usize) -> bool) {
        clear(&mut self.short, dead);
    }

    /// Clears long links to dead objects.
    pub(crate) fn clear_long(&mut self, dead: &impl Fn(usize) -> bool) {
        clear(&mut self.long, dead);
    }

    /// Removes links that lie in dead objects.
    pub(crate) fn forget_dead(&mut self, dead: &impl Fn(usize) -> bool, heap: &Heap) {
        for table in [&mut self.short, &mut self.long] {
            table.retain(|&link, _| heap.slot(link).is_none() || !dead(link));
        }
    }

    /// Whether a collection is due before there is another one.
    pub(crate) fn is_full(&self) -> bool {
        self.most.is_reached(self.count())
    }

    /// Lets the tables grow, after such a collection.
    pub(crate) fn grow(&mut self) {
        self.most.grow(self.count());
    }

    fn count(&self) -> usize {
        self.short.len() + self.long.len()
    }

    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.short.len(), self.long.len())
    }
}

fn clear(table: &mut Table, dead: &impl Fn(usize) -> bool) {
    table.retain(|&link, &mut object| {
        let lives = !dead(object);
        if !lives {
            // SAFETY: a word that the program registered, and did not unregister.
            unsafe { *(link as *mut usize) = 0 };
        }
        lives
    });
}
