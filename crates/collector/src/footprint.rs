//! How much memory the heap takes. The bounds are looked up after collections, and
//! `plimsoll_policy` decides: [`sizing`] holds the policy, [`footprint`] the bounds.

mod addresses;
mod held;
mod memory;

use crate::front_end::Conditions;
use crate::pace::{Ended, Found, Growth, Pace};
use addresses::AddressLook;
use held::Held;
use memory::MemoryLook;
use plimsoll_heap::{Central, SUPERPAGE};
use plimsoll_policy::footprint::{self, Bound, Decision, Seen};
use plimsoll_policy::sizing::{self, DropInEnough, Sizing};
use plimsoll_unit::Bytes;

/// A smaller heap is not bounded.
const WORTH: Bytes = Bytes::mib(4);

/// The memory around the heap. Guarded by the lock of the front end.
#[derive(Default)]
pub(crate) struct Surroundings {
    /// The memory that a broker grants the heap; `None` without a broker.
    granted: Option<Bytes>,
    /// The policy where memory is not short.
    enough: DropInEnough,
    footprint: footprint::Footprint,
    /// Memory was short at the last collection: the kernel may have to evict something.
    pub(crate) short: bool,
    /// The heap is not to grow, where nothing can be paged out: memory was short at the last
    /// collection, or the heap has enough holes. Then collections are made in one pause: they find
    /// everything dead, and no memory beyond the holes is taken while they mark.
    pub(crate) tight: bool,
    /// Nothing could be paged out at the last look.
    cliff: bool,
    memory: MemoryLook,
    addresses: AddressLook,
    /// The heap's own superpages.
    pub(crate) held: Held,
}

/// Turns a decision into a growth: `paged_out` superpages were paged out, and the heap wants to grow by
/// `wanted` bytes while `allowance` bytes are allocated. `granted`: a broker grants it memory.
pub(crate) fn growth(
    decision: &Decision,
    paged_out: usize,
    (allowance, wanted): (usize, usize),
    granted: bool,
    ended: &Ended<'_>,
) -> Growth {
    // Some of what was paged out is still being written when the program goes on.
    let room = decision
        .growth(Bytes::from(paged_out / 2 * SUPERPAGE))
        .length();
    // A broker grants more than the heap wants. After a collection of young objects, the next whole
    // one is due before all of that is used.
    let bytes = match decision.short {
        true if ended.young => room.min(wanted),
        true => room,
        false if granted && !ended.young => room.max(wanted),
        false => wanted,
    };
    let allowance = if room < wanted {
        // Holes are filled in addition.
        allowance.min(bytes + ended.found.holes)
    } else {
        allowance.max(bytes)
    };
    Growth {
        bytes,
        allowance,
        most: decision.most.length(),
        short: decision.short,
        cliff: false,
        finalizes: false,
        holes: ended.found.holes,
    }
}

impl Surroundings {
    /// Whether nothing can be paged out.
    pub(crate) fn is_cliff(&self) -> bool {
        self.cliff
    }

    /// Bytes to allocate until the next collection, if memory is not short; `usual` by libgc's rule.
    pub(crate) fn allowance(&mut self, usual: usize, told: &sizing::Ended) -> usize {
        self.enough.bounded(Bytes::MAX);
        self.enough.ended(told);
        let enough = (self.enough.size() - told.live).length();
        usual.min(enough.max(usual / 4))
    }

    /// The same if small atomic objects are worth more than by libgc's rule; there is room for `most`.
    pub(crate) fn worth(
        &self,
        found: &Found,
        told: &sizing::Ended,
        most: Bytes,
        conditions: &Conditions,
    ) -> usize {
        let enough = (self.enough.size() - told.live).min(most / 2);
        Pace::worth(found, conditions).min(enough.length())
    }

    /// Decides by how much the heap may grow if it is to allocate `allowance` bytes and has `idle`
    /// free superpages in memory; also returns whether nothing can be paged out.
    pub(crate) fn decide(
        &mut self,
        central: &Central,
        pace: &Pace,
        ended: &Ended<'_>,
        told: &sizing::Ended,
        allowance: usize,
        idle: usize,
    ) -> (Decision, bool) {
        let residency = ended.residency;
        let resident = Bytes::from(central.used().saturating_sub(residency.absent) * SUPERPAGE);
        let growth = Bytes::from(Pace::growth(ended.found, allowance));
        // A heap that was larger gives up only little of that, as long as there is room for it.
        let most = growth.max(Bytes::from(pace.fills(central) * SUPERPAGE));
        let (bound, there) = self.bound(central, resident, most, Bytes::from(idle * SUPERPAGE));
        let decision = self.footprint.after(&Seen {
            ended: sizing::Ended {
                // Parts of large objects may be untouched, and untouched memory is no measure of
                // what may be allocated in any case.
                live: resident.min(there),
                growth,
                ..*told
            },
            holes: ended.found.holes.into(),
            bound,
        });
        (decision, bound.is_cliff())
    }

    /// Bytes of room for a heap that is to grow by `growth` bytes, outside collections.
    pub(crate) fn room(&mut self, central: &Central, growth: usize) -> usize {
        let resident = self.held.resident(central);
        let idle = self.held.free(central);
        let (bound, _) = self.bound(central, resident, growth.into(), idle);
        bound.room(resident).length()
    }

    /// If nothing could be paged out at the last look: the bytes of room that there are now for a
    /// heap that is to grow by `growth` bytes, and the bytes that it may take in any case for a
    /// request that did not fit after a collection.
    pub(crate) fn on_cliff(&mut self, central: &Central, growth: usize) -> Option<(usize, usize)> {
        if !self.cliff {
            return None;
        }
        let resident = self.held.present(central);
        let idle = self.held.free(central);
        let (bound, _) = self.bound(central, resident, growth.into(), idle);
        Some((bound.room(resident).length(), bound.last()?.length()))
    }

    /// Looks up the bound of a heap with `resident` in memory and `idle` free memory besides, which
    /// would grow by `growth`. The second value is an upper bound for the part of the heap that is in
    /// memory: the process's memory, or the most if it was not looked up.
    fn bound(
        &mut self,
        central: &Central,
        resident: Bytes,
        growth: Bytes,
        idle: Bytes,
    ) -> (Bound, Bytes) {
        let small = resident + growth < WORTH;
        let looked = match self.granted {
            None if small || self.memory.is_plenty(resident + growth) => (Bound::None, Bytes::MAX),
            // A look that finds plenty says the same as the one a moment ago did.
            None => match self.memory.look(resident, idle, self.granted) {
                _ if self.memory.is_plenty(resident + growth) => (Bound::None, Bytes::MAX),
                looked => looked,
            },
            Some(granted) if self.memory.is_safe(granted) => (Bound::Granted(granted), Bytes::MAX),
            Some(granted) => match self.memory.look(resident, idle, self.granted) {
                (bound, uses) if bound.is_cliff() && !self.memory.is_safe(granted) => (bound, uses),
                _ => (Bound::Granted(granted), Bytes::MAX),
            },
        };
        let looked = match self.addresses.look(central, resident + growth) {
            Some(bound) if !small && bound.room(resident) < looked.0.room(resident) => {
                (bound, looked.1)
            }
            _ => looked,
        };
        self.cliff = looked.0.is_cliff();
        looked
    }

    /// Sets what a broker grants the heap; `None` for no broker.
    pub(crate) fn grant(&mut self, bytes: Option<Bytes>) {
        self.granted = bytes;
    }

    /// Whether a broker grants the heap its memory.
    pub(crate) fn is_granted(&self) -> bool {
        self.granted.is_some()
    }

    /// The worth of a broker's grant of `bytes` to the heap now. Where nothing can be paged
    /// out, that is no more than there is room for: other programs may not have given back yet what
    /// the broker grants. The second value tells whether this is so.
    pub(crate) fn granted(&mut self, central: &Central, bytes: Bytes) -> (Bytes, bool) {
        let resident = self.held.present(central);
        let idle = self.held.free(central);
        let (bound, _) = self.bound(central, resident, Bytes::ZERO, idle);
        if bound.is_cliff() {
            (bytes.min(resident + bound.room(resident)), true)
        } else {
            (bytes, false)
        }
    }
}

#[cfg(test)]
mod tests;
