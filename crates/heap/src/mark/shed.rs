//! Paging out before the kernel has to: what nobody wrote to between two collections goes first, and what holds no
//! references before what has to be summarised. What comes back soon was read, and is held for a while.

use super::marker::Marker;
use super::pending::Window;
use crate::address::{Slot, Superpage};
use crate::central::Central;
use crate::side::{Use, age, flag};
use std::sync::atomic::Ordering::Relaxed;

impl Marker<'_> {
    /// Pages out so many superpages at most, and says how many. After the census, with the marks that it counted; the
    /// program may run, since what it writes to shows.
    pub fn shed(&mut self, central: &Central, superpages: usize) -> usize {
        let mut left = superpages;
        for opaque in [true, false] {
            left -= self.shed_all(central, left, opaque);
        }
        superpages - left
    }

    fn shed_all(&mut self, central: &Central, most: usize, opaque: bool) -> usize {
        let mut window = Window::new();
        let mut shed = 0;
        for at in 0..central.committed() as u32 {
            if shed + window.length >= most {
                break;
            }
            let superpage = Superpage(at);
            if self.may_go(superpage, opaque) && window.push(superpage, true) {
                shed += self.page_out(&mut window);
            }
        }
        shed + self.page_out(&mut window)
    }

    fn may_go(&mut self, superpage: Superpage, opaque: bool) -> bool {
        let it = self.heap.side.descriptor(superpage);
        if !(age::COLD..=age::OLDEST).contains(&it.age.load(Relaxed))
            || it.hold.load(Relaxed) > 0
            || it.usage() == Use::Free
        {
            return false;
        }
        let flags = self.heap.flags_of_object(superpage);
        if opaque || flags & flag::OPAQUE != 0 {
            return opaque && flags & flag::OPAQUE != 0;
        }
        flags & flag::TRACED == 0
            && self.is_marked(superpage)
            && (it.summary.load(Relaxed) != 0 || self.summarise(superpage))
    }

    /// Whether the object lives that a superpage holds a part of; of small ones some do.
    fn is_marked(&self, superpage: Superpage) -> bool {
        let side = self.heap.side;
        let slot = Slot {
            superpage: self.heap.head(superpage),
            index: 0,
        };
        side.descriptor(superpage).usage() == Use::Small || side.is_marked(slot)
    }

    fn page_out(&mut self, window: &mut Window) -> usize {
        let heap = self.heap;
        self.each_run(window, |range| heap.os.page_out(range));
        for superpage in window.all() {
            heap.side
                .descriptor(superpage)
                .age
                .store(age::GONE, Relaxed);
        }
        std::mem::take(&mut window.length)
    }
}
