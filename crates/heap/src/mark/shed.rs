//! Paging out before the kernel has to: what nobody wrote to between two collections goes first, and what holds no
//! references before what has to be summarised. What comes back soon was read, and is held for a while.

use super::marker::Marker;
use super::pending::Window;
use crate::address::{Slot, Superpage};
use crate::bits;
use crate::central::Central;
use crate::heap::Heap;
use crate::side::{Use, age, flag};
use std::sync::atomic::Ordering::Relaxed;

impl Heap {
    /// Has writes show to what no thread allocates from: full superpages, and large objects. After the census; until the
    /// next look it is told who was written to.
    pub fn watch(&self, central: &Central) {
        let committed = central.committed();
        let all = self.side.heap()..self.side.heap() + committed * crate::SUPERPAGE;
        if !self.is_tracked() {
            self.set_tracked(self.os.track(all).is_ok());
        }
        if !self.is_tracked() {
            return;
        }
        let mut run: Option<(usize, usize)> = None;
        for at in 0..=committed {
            if at < committed && self.is_worth_watching(Superpage(at as u32)) {
                run = Some(run.map_or((at, at + 1), |(start, _)| (start, at + 1)));
            } else if let Some((start, end)) = run.take() {
                self.arm(start, end);
            }
        }
    }

    fn is_worth_watching(&self, superpage: Superpage) -> bool {
        let it = self.side.descriptor(superpage);
        let full = match it.usage() {
            Use::Free => false,
            Use::Small => {
                let slots = usize::from(it.slots.load(Relaxed));
                bits::runs(self.side.marks(superpage), 0, slots, false)
                    .next()
                    .is_none()
            }
            Use::Head | Use::Tail => true,
        };
        full && it.age.load(Relaxed) == age::UNKNOWN && !it.has(flag::ABSENT)
    }

    fn arm(&self, start: usize, end: usize) {
        let address = |at: usize| self.side.address(Superpage(at as u32));
        if self.os.arm(address(start)..address(end)).is_err() {
            return self.set_tracked(false);
        }
        self.watched.store(true, Relaxed);
        for at in start..end {
            let it = self.side.descriptor(Superpage(at as u32));
            it.age.store(age::ARMED, Relaxed);
        }
    }

    /// The flags of the object that a superpage holds, or a part of.
    fn flags_of_object(&self, superpage: Superpage) -> u8 {
        let it = self.side.descriptor(superpage);
        let head = match it.usage() {
            Use::Tail => Superpage(superpage.0 - it.extent.load(Relaxed)),
            _ => superpage,
        };
        self.side.descriptor(head).flags()
    }
}

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
        if !(age::COLD..age::GONE).contains(&it.age.load(Relaxed))
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
        let it = side.descriptor(superpage);
        let head = match it.usage() {
            Use::Small => return true,
            Use::Tail => Superpage(superpage.0 - it.extent.load(Relaxed)),
            Use::Head | Use::Free => superpage,
        };
        side.is_marked(Slot {
            superpage: head,
            index: 0,
        })
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
