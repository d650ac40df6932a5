//! How much memory the heap takes. The bounds are looked up after collections, and
//! `plimsoll_policy` decides: [`sizing`] holds the policy, [`footprint`] the bounds.

use crate::front_end::Conditions;
use crate::pace::{Ended, Found, Growth, Pace};
use plimsoll_heap::{Central, Heap, SUPERPAGE};
use plimsoll_kernel::capacity::{Domain, Reading};
use plimsoll_kernel::clock;
use plimsoll_kernel::process::own::{self, Addresses};
use plimsoll_policy::footprint::{self, Beside, Bound, Decision, Seen, is_cliff};
use plimsoll_policy::sizing::{self, DropInEnough, Sizing};
use std::time::{Duration, Instant};

/// A heap below this many bytes is not bounded.
const WORTH: u64 = 4 << 20;
/// While the heap takes no more than one part in `PLENTY` of the room found, the bounds are not
/// looked up again for a while.
const PLENTY: u64 = 8;
const REST: Duration = Duration::from_secs(1);
/// Where nothing can be paged out, bounds are reused for this long: looking them up takes 0.2 ms,
/// and not much is allocated in so short a time.
const LATELY: Duration = Duration::from_millis(3);
/// While memory is not short, free memory goes back to the kernel when it was not needed for at least
/// this long, and at this many collections: each page that is needed again costs a fault.
const UNUSED: Duration = Duration::from_secs(2);
const UNUSED_AT: u32 = 3;

/// The memory around the heap. Guarded by the lock of the front end.
#[derive(Default)]
pub(crate) struct Surroundings {
    /// Bytes that a broker grants the heap; `None` without a broker.
    granted: Option<u64>,
    /// The policy where memory is not short.
    enough: DropInEnough,
    footprint: footprint::Footprint,
    /// When there was plenty of room, and for how many bytes.
    plenty: Option<(Instant, u64)>,
    /// Memory was short at the last collection: the kernel may have to evict something.
    pub(crate) short: bool,
    /// The heap is not to grow, where nothing can be paged out: memory was short at the last
    /// collection, or the heap has enough holes. Then collections are made in one pause: they find
    /// everything dead, and no memory beyond the holes is taken while they mark.
    pub(crate) tight: bool,
    /// `cliff`: nothing could be paged out at the last look. `no_cliff`: when something last could.
    cliff: bool,
    no_cliff: Option<Instant>,
    /// The last look where nothing could be paged out: when it was, the heap's bytes in memory, the
    /// bound found, and the process's bytes in memory.
    lately: Option<(Instant, u64, Bound, u64)>,
    beside: Beside,
    /// The same for addresses, where these are limited; and when there was plenty of them, and for
    /// how many bytes.
    beside_addresses: Beside,
    many: Option<(Instant, u64)>,
    unused: Unused,
    /// Superpages after the last collection. `absent`: in swap. `used`: with objects. `idle`: free,
    /// but in memory.
    pub(crate) absent: usize,
    pub(crate) used: usize,
    pub(crate) idle: usize,
}

/// How much free memory was not needed for a while.
#[derive(Default)]
struct Unused {
    /// Since when this is looked at; `None` before the first collection.
    since: Option<Instant>,
    /// Collections since then.
    collections: u32,
    /// The fewest superpages that the heap had free beyond what it was to fill.
    least: usize,
}

impl Unused {
    /// A collection ended at `now`, and left `free` superpages beyond what the heap is to fill.
    /// Returns how many of them to give back.
    fn due(&mut self, now: Instant, free: usize) -> usize {
        let since = *self.since.get_or_insert(now);
        if self.collections == 0 {
            self.least = free;
        }
        self.least = self.least.min(free);
        self.collections += 1;
        if self.collections < UNUSED_AT || now.duration_since(since) < UNUSED {
            return 0;
        }
        let due = self.least;
        *self = Unused {
            since: Some(now),
            ..Unused::default()
        };
        due
    }
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
    let room = decision.growth((paged_out / 2 * SUPERPAGE) as u64) as usize;
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
        most: usize::try_from(decision.most).unwrap_or(usize::MAX),
        short: decision.short,
        cliff: false,
        finalizes: false,
        holes: ended.found.holes,
    }
}

impl Surroundings {
    /// Bytes of the heap that are in memory, as far as is known without a query to the kernel.
    pub(crate) fn resident(&self, central: &Central) -> u64 {
        ((central.used() + self.idle(central)).saturating_sub(self.absent) * SUPERPAGE) as u64
    }

    /// Gives back free memory that will not be used before the next collection; the heap is to fill
    /// `keep` superpages until then. Returns how many superpages it gave back.
    pub(crate) fn give_back_unused(
        &mut self,
        heap: &Heap,
        central: &mut Central,
        mut keep: usize,
        scarce: bool,
    ) -> usize {
        let free = self.idle.saturating_sub(keep);
        if !scarce {
            keep += free - self.unused.due(Instant::now(), free);
        }
        if self.idle <= keep {
            return 0;
        }
        self.idle = keep;
        central.give_back(heap, keep).0
    }

    /// Superpages that are free but in memory: the heap has grown into some of them since the last
    /// collection.
    fn idle(&self, central: &Central) -> usize {
        let grown = central.used().saturating_sub(self.used);
        self.idle.saturating_sub(grown)
    }

    /// Whether nothing can be paged out.
    pub(crate) fn is_cliff(&self) -> bool {
        self.cliff
    }

    /// Bytes to allocate until the next collection, if memory is not short; `usual` by libgc's rule.
    pub(crate) fn allowance(&mut self, usual: usize, told: &sizing::Ended) -> usize {
        self.enough.bounded(u64::MAX);
        self.enough.ended(told);
        let enough = self.enough.size().saturating_sub(told.live);
        let enough = enough.max(usual as u64 / 4);
        usual.min(usize::try_from(enough).unwrap_or(usize::MAX))
    }

    /// The same if small atomic objects are worth more than by libgc's rule; there is room for `most`
    /// bytes.
    pub(crate) fn worth(
        &self,
        found: &Found,
        told: &sizing::Ended,
        most: u64,
        conditions: &Conditions,
    ) -> usize {
        let enough = self.enough.size().saturating_sub(told.live);
        let enough = usize::try_from(enough.min(most / 2)).unwrap_or(usize::MAX);
        Pace::worth(found, conditions).min(enough)
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
        let resident = (central.used().saturating_sub(residency.absent) * SUPERPAGE) as u64;
        let growth = Pace::growth(ended.found, allowance) as u64;
        // A heap that was larger gives up only little of that, as long as there is room for it.
        let most = growth.max((pace.fills(central) * SUPERPAGE) as u64);
        let (bound, there) = self.bound(central, resident, most, (idle * SUPERPAGE) as u64);
        let decision = self.footprint.after(&Seen {
            ended: sizing::Ended {
                // Parts of large objects may be untouched, and untouched memory is no measure of
                // what may be allocated in any case.
                live: resident.min(there),
                growth,
                ..*told
            },
            holes: ended.found.holes as u64,
            bound,
        });
        (decision, bound.is_cliff())
    }

    /// Bytes of room for a heap that is to grow by `growth` bytes, outside collections.
    pub(crate) fn room(&mut self, central: &Central, growth: usize) -> usize {
        let resident = self.resident(central);
        let idle = (self.idle(central) * SUPERPAGE) as u64;
        let (bound, _) = self.bound(central, resident, growth as u64, idle);
        usize::try_from(bound.room(resident)).unwrap_or(usize::MAX)
    }

    /// If nothing could be paged out at the last look: the bytes of room that there are now for a
    /// heap that is to grow by `growth` bytes, and the bytes that it may take in any case for a
    /// request that did not fit after a collection.
    pub(crate) fn on_cliff(&mut self, central: &Central, growth: usize) -> Option<(usize, usize)> {
        if !self.cliff {
            return None;
        }
        let resident = (central.used().saturating_sub(self.absent) * SUPERPAGE) as u64;
        let idle = (self.idle(central) * SUPERPAGE) as u64;
        let (bound, _) = self.bound(central, resident, growth as u64, idle);
        let bytes = |many: u64| usize::try_from(many).unwrap_or(usize::MAX);
        Some((bytes(bound.room(resident)), bytes(bound.last()?)))
    }

    /// Looks up the bound of a heap with `resident` bytes in memory and `idle` free ones besides,
    /// which would grow by `growth` bytes. The second value is an upper bound for the part of the
    /// heap that is in memory: the process's bytes in memory, or `u64::MAX` if they were not looked
    /// up.
    fn bound(&mut self, central: &Central, resident: u64, growth: u64, idle: u64) -> (Bound, u64) {
        let small = resident + growth < WORTH;
        let looked = match self.granted {
            None if small || self.is_plenty(resident + growth) => (Bound::None, u64::MAX),
            // A look that finds plenty says the same as the one a moment ago did.
            None => match self.look(resident, idle) {
                _ if self.is_plenty(resident + growth) => (Bound::None, u64::MAX),
                looked => looked,
            },
            Some(granted) if self.is_safe(granted) => (Bound::Granted(granted), u64::MAX),
            Some(granted) => match self.look(resident, idle) {
                (bound, uses) if bound.is_cliff() && !self.is_safe(granted) => (bound, uses),
                _ => (Bound::Granted(granted), u64::MAX),
            },
        };
        let looked = match self.addresses(central, resident + growth) {
            Some(bound) if !small && bound.room(resident) < looked.0.room(resident) => {
                (bound, looked.1)
            }
            _ => looked,
        };
        self.cliff = looked.0.is_cliff();
        looked
    }

    /// The bound by addresses, where these are limited (`ulimit -v`) and the heap is to have more
    /// than a small part of them: `wanted` bytes. There is nothing to page out then: who needs an
    /// address and has none, ends.
    fn addresses(&mut self, central: &Central, wanted: u64) -> Option<Bound> {
        let lately = |then: &(Instant, u64)| wanted < then.1 && then.0.elapsed() < REST;
        if self.many.as_ref().is_some_and(lately) {
            return None;
        }
        let Some(Addresses { limit, left }) = own::addresses() else {
            self.many = Some((Instant::now(), u64::MAX));
            return None;
        };
        let (limit, left) = (limit.0, left.0);
        let has = (central.committed() * SUPERPAGE) as u64;
        let beside = limit.saturating_sub(left + has);
        self.beside_addresses.look(clock::now().0, beside);
        let left = left + has.saturating_sub((central.used() * SUPERPAGE) as u64);
        self.many = Some((Instant::now(), left / PLENTY));
        (wanted >= left / PLENTY).then(|| Bound::Cliff {
            left,
            free: left,
            margin: self.beside_addresses.margin(limit),
            granted: u64::MAX,
        })
    }

    /// Sets what a broker grants the heap, in bytes; `None` for no broker.
    pub(crate) fn grant(&mut self, bytes: Option<u64>) {
        self.granted = bytes;
    }

    /// Whether a broker grants the heap its memory.
    pub(crate) fn is_granted(&self) -> bool {
        self.granted.is_some()
    }

    /// The bytes that a broker's grant of `bytes` bytes is worth to the heap now. Where nothing can be paged
    /// out, that is no more than there is room for: other programs may not have given back yet what
    /// the broker grants. The second value tells whether this is so.
    pub(crate) fn granted(&mut self, central: &Central, bytes: u64) -> (u64, bool) {
        let resident = (central.used().saturating_sub(self.absent) * SUPERPAGE) as u64;
        let idle = (self.idle(central) * SUPERPAGE) as u64;
        let (bound, _) = self.bound(central, resident, 0, idle);
        if bound.is_cliff() {
            (bytes.min(resident + bound.room(resident)), true)
        } else {
            (bytes, false)
        }
    }

    /// Whether there was plenty of room a moment ago for a heap of `wanted` bytes.
    fn is_plenty(&self, wanted: u64) -> bool {
        self.plenty
            .is_some_and(|(then, plenty)| wanted < plenty && then.elapsed() < REST)
    }

    /// Whether a broker's grant was safe to use a moment ago: something could be paged out, or
    /// there was plenty of room.
    fn is_safe(&self, granted: u64) -> bool {
        let lately = self.no_cliff.is_some_and(|then| then.elapsed() < REST);
        lately || self.is_plenty(granted)
    }

    /// Looks at the tightest of the machine and the control groups of this process. No file is kept
    /// open: programs close descriptors that they do not know.
    fn look(&mut self, resident: u64, idle: u64) -> (Bound, u64) {
        if let Some((then, before, bound, uses)) = self.lately
            && then.elapsed() < LATELY
        {
            return (bound.after(resident as i64 - before as i64), uses);
        }
        let Some((reading, pageable, uses)) = read() else {
            return (Bound::None, u64::MAX);
        };
        self.plenty = Some((Instant::now(), reading.room().0 / PLENTY));
        // Pages that were read from swap count as droppable there, but are mapped here. And parts
        // of a large object may not have been touched yet, but will be.
        let used = reading.used.0.max(uses);
        let untouched = (resident + idle).saturating_sub(uses);
        let capacity = reading.capacity.0;
        let left = capacity.saturating_sub(used) + idle;
        let free = left.saturating_sub(untouched);
        if !is_cliff(capacity, pageable) {
            (self.no_cliff, self.lately) = (Some(Instant::now()), None);
            return (Bound::Domain { capacity, free }, uses);
        }
        let heap = (resident + idle).min(uses);
        self.beside.look(clock::now().0, used.saturating_sub(heap));
        let margin = self.beside.margin(capacity);
        let bound = Bound::Cliff {
            left,
            free,
            margin,
            granted: self.granted.unwrap_or(u64::MAX),
        };
        self.lately = Some((Instant::now(), resident, bound, uses));
        (bound, uses)
    }
}

/// Returns what bounds this process, the bytes that can go to swap, and the process's bytes in
/// memory. `None` if the kernel does not say, or if there is no memory for the look: Rust would
/// abort the program.
fn read() -> Option<(Reading, u64, u64)> {
    /// More than a look allocates, bytes.
    const ENOUGH: usize = 1 << 20;
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(ENOUGH).ok()?;
    drop(std::hint::black_box(room));
    let mut domain = Domain::of_self().ok()?;
    let reading = domain.read().ok()?;
    let pageable = domain.pageable(&reading).unwrap_or(reading.swap_free);
    Some((reading, pageable.0, own::anonymous()?.resident.0))
}

#[cfg(test)]
mod tests;
