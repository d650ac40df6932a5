//! How large the heap of one program may be: by the broker's limit, or by a policy of its own.

use super::settings::{Entrant, Policy, Setup};
use crate::paging;
use crate::threads::Collected;
use crate::threads::heap::Kind;
use plimsoll_policy::footprint::{low_water, threshold};
use plimsoll_policy::sizing::{Ended, IslaVista, SquareRoot};
use plimsoll_unit::Bytes;

/// Between two whole collections a heap may always allocate one part in this many of itself, as in
/// `policy::footprint`.
const LEAST_PART: u64 = 16;
/// A heap that could allocate more than one part in this many of itself since the last whole collection has
/// enough: its floor falls by a step.
const ENOUGH_PART: u64 = 4;
/// A heap that is granted less begins with this part of the memory: a Java heap's initial size.
const INITIAL_PART: u64 = 64;

/// The rule for the size of a heap.
enum Sizer {
    /// None: the heap keeps its size.
    Fixed,
    /// The broker's limit.
    Granted,
    /// A policy of its own.
    Own(Box<dyn paging::Policy>),
}

/// The size of one heap. It never exceeds what the program was started with.
pub(super) struct HeapSize {
    sizer: Sizer,
    /// The most that the heap may ever be.
    most: Bytes,
    /// The size that the heap has in any case, because it could not go on with less.
    floor: Bytes,
    /// The size of the heap now.
    size: Bytes,
    /// The limit that the broker gives it.
    limit: Bytes,
    /// The memory that it had allocated when the last collection of the whole heap ended.
    allocated_then: Bytes,
}

impl HeapSize {
    pub(super) fn new(entrant: &Entrant, setup: &Setup) -> HeapSize {
        let most = entrant.settings.heap;
        let (mut floor, mut size) = (Bytes::ZERO, most);
        let sizer = match setup.policy {
            Policy::Fixed => Sizer::Fixed,
            Policy::Shares | Policy::Weights => {
                floor = setup.memory / INITIAL_PART;
                Sizer::Granted
            }
            Policy::IslaVista => own(&mut size, IslaVista::default().beginning(entrant.start)),
            Policy::SquareRoot => own(&mut size, SquareRoot::default()),
        };
        HeapSize {
            sizer,
            most,
            floor,
            size,
            limit: Bytes::ZERO,
            allocated_then: Bytes::ZERO,
        }
    }

    /// The size now.
    pub(super) fn size(&self) -> Bytes {
        self.size
    }

    /// The broker's limit.
    pub(super) fn limit(&self) -> Bytes {
        self.limit
    }

    /// The broker sets a limit. Returns the size of the heap.
    pub(super) fn grant(&mut self, limit: Bytes) -> Bytes {
        self.limit = limit;
        self.size = self.granted();
        self.size
    }

    /// The size of the heap that the grant allows: what the shipped heaps make of a limit.
    fn granted(&self) -> Bytes {
        threshold(self.limit).max(self.floor).min(self.most)
    }

    /// After a collection of the whole heap: raises the floor if too little could be allocated since the one
    /// before, and lowers it if enough could.
    fn keep_going(&mut self, collected: &Collected) {
        let since = collected.allocated - self.allocated_then;
        self.allocated_then = collected.allocated;
        if since < self.size / LEAST_PART {
            self.floor = self.floor.max(self.size + self.size / LEAST_PART);
        } else if since > self.size / ENOUGH_PART {
            self.floor -= self.floor / LEAST_PART;
        }
        self.floor = self.floor.min(self.most);
    }

    /// The size that the heap has after a collection; nothing if it stays.
    pub(super) fn after(&mut self, ended: &Ended, collected: &Collected) -> Option<Bytes> {
        if collected.collection.kind == Kind::Full {
            self.keep_going(collected);
        }
        let size = match &mut self.sizer {
            Sizer::Fixed => return None,
            Sizer::Granted => self.granted(),
            Sizer::Own(policy) => policy.after(self.most, ended).max(self.floor),
        };
        self.size = size.min(self.most);
        Some(self.size)
    }

    /// Down to which size the program gives memory back, if it has more than it should.
    pub(super) fn goal(&self, uses: Bytes) -> Option<Bytes> {
        let (most, goal) = match self.sizer {
            Sizer::Fixed => return None,
            Sizer::Granted => (threshold(self.limit), low_water(self.limit)),
            Sizer::Own(_) => (self.size, self.size),
        };
        (uses > most).then_some(goal)
    }

    /// A heap of this size has no room for an object of `size`. Returns a larger heap, or nothing
    /// where the program has to fail.
    pub(super) fn grow(&mut self, heap: Bytes, size: Bytes) -> Option<Bytes> {
        if matches!(self.sizer, Sizer::Fixed) || heap >= self.most {
            return None;
        }
        let more = (heap / LEAST_PART).max(size).max(Bytes(1));
        self.floor = (heap + more).min(self.most);
        self.size = self.floor;
        Some(self.size)
    }
}

/// A policy of the heap's own, and the size with which it begins.
fn own(size: &mut Bytes, mut policy: impl paging::Policy + 'static) -> Sizer {
    *size = policy.begin(*size).min(*size);
    Sizer::Own(Box::new(policy))
}
