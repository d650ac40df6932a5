//! How much memory the heap takes: what bounds it is looked up after collections, and
//! `plimsoll_policy` decides: [`sizing`] by which policy, [`footprint`] within which bounds.

use crate::collector::State;
use crate::pace::{Found, Growth, Pace};
use crate::steps;
use plimsoll_heap::{Central, Heap, Residency, SUPERPAGE};
use plimsoll_kernel::capacity::{Domain, Reading};
use plimsoll_kernel::clock;
use plimsoll_kernel::process::Process;
use plimsoll_policy::footprint::{self, Beside, Bound, Decision, Seen, is_cliff};
use plimsoll_policy::sizing::{self, DropInEnough, Sizing};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a broker grants the heap, in bytes.
pub(crate) static GRANTED: AtomicU64 = AtomicU64::new(NOT_GRANTED);
/// No broker does.
pub(crate) const NOT_GRANTED: u64 = u64::MAX;

/// A smaller heap's memory is nobody's concern.
const WORTH: u64 = 4 << 20;
/// As long as the heap takes no more than this part of the room that there was, nobody looks again
/// for a while.
const PLENTY: u64 = 8;
const REST: Duration = Duration::from_secs(1);
/// Where nothing can be paged out nobody looks again within this: a look takes 0.2 ms, and in so little
/// time not much is allocated.
const LATELY: Duration = Duration::from_millis(3);

/// What is known of the memory around the heap.
#[derive(Default)]
pub(crate) struct Surroundings {
    /// Where memory is not short.
    enough: DropInEnough,
    footprint: footprint::Footprint,
    /// There was plenty of room then, for so many bytes.
    plenty: Option<(Instant, u64)>,
    /// Memory was short at the last collection.
    short: bool,
    /// Where nothing can be paged out: it was, or the heap has holes enough not to grow.
    tight: bool,
    /// Nothing could be paged out when it was looked last; and when something could.
    cliff: bool,
    no_cliff: Option<Instant>,
    /// What was found there just now, when the heap had so much in memory, and the process so much. Bytes.
    lately: Option<(Instant, u64, Bound, u64)>,
    beside: Beside,
    /// Superpages after the last collection: with objects but in swap, with objects, and free but in memory.
    absent: usize,
    used: usize,
    idle: usize,
}

/// What a collection found, and how long it took.
pub(crate) struct Ended<'a> {
    /// Of young objects only.
    pub(crate) young: bool,
    pub(crate) found: &'a Found,
    pub(crate) residency: &'a Residency,
    pub(crate) took: Duration,
    /// Bytes that were ever allocated.
    pub(crate) allocated: u64,
}

impl Ended<'_> {
    /// The same for a policy, where collections cost so many ns lately, each.
    fn told(&self, cost: u64) -> sizing::Ended {
        let usual = Pace::allowance(self.found);
        sizing::Ended {
            now: clock::now_ns(),
            took: u64::try_from(self.took.as_nanos()).unwrap_or(u64::MAX),
            cost,
            live: (self.found.composite + self.found.atomic) as u64,
            allocated: self.allocated,
            growth: Pace::growth(self.found, usual) as u64,
            stalls: self.residency.evicted as u64,
        }
    }
}

/// What was done about it, in superpages.
#[derive(Clone, Copy, Default)]
pub(crate) struct Settled {
    /// Given back.
    pub(crate) given: usize,
    /// Paged out.
    pub(crate) shed: usize,
}

/// Gives back what is not needed, pages out what there is no room for, and sets how far the heap
/// may grow. At the end of a collection, after the census.
pub(crate) fn settle(heap: &Heap, state: &mut State, ended: &Ended<'_>) -> Settled {
    let reserve = steps::reserve(heap, state);
    let State {
        central,
        marker,
        pace,
        surroundings,
        incremental,
        ..
    } = state;
    let keep = pace.fills(central);
    let (mut given, idle) = central.give_back(heap, keep);
    let note = incremental.note(heap, ended);
    let told = ended.told(incremental.mean_cost(ended.young, &note));
    let usual = surroundings.allowance(ended, &told);
    // One of young objects ends a part of the way to the next whole one, for which there has to be room.
    let (decision, cliff) = surroundings.decide(central, pace, ended, &told, usual, idle);
    let allowance = match ended.young {
        true => incremental
            .after_young(&note)
            .map_or(usual, |left| usual.min(left)),
        false => usual,
    };
    (surroundings.used, surroundings.idle) = (central.used(), idle);
    surroundings.short = decision.short && !cliff;
    surroundings.tight = cliff && (decision.short || Pace::growth(ended.found, usual) == 0);
    let mut shed = 0;
    if surroundings.short || ended.residency.evicted > 0 {
        let most = decision.shed as usize / SUPERPAGE;
        shed = marker.shed(central, most);
        heap.cool(central);
    }
    surroundings.absent = ended.residency.absent + shed;
    let wanted = Pace::growth(ended.found, allowance);
    pace.note_holes(ended.found, allowance);
    let growth = Growth {
        cliff,
        ..growth(&decision, shed, allowance, wanted, ended)
    };
    pace.grow(central, ended.allocated, &growth, reserve);
    if !ended.young {
        // With what is left for the steps of the next: that is left once.
        incremental.after_whole(&note, growth.allowance);
    }
    // What will not be filled before the next collection need not be kept.
    let keep = pace.fills(central);
    if surroundings.idle > keep {
        given += central.give_back(heap, keep).0;
        surroundings.idle = keep;
    }
    Settled { given, shed }
}

/// What a decision comes to, with so many superpages paged out, for a heap that wants to grow by so
/// much while so much is allocated. Bytes.
fn growth(
    decision: &Decision,
    shed: usize,
    allowance: usize,
    wanted: usize,
    ended: &Ended<'_>,
) -> Growth {
    // Some of what was paged out is still being written when the program goes on.
    let room = decision.growth((shed / 2 * SUPERPAGE) as u64) as usize;
    // What a broker grants is more than is wanted; after a collection of young objects the next
    // whole one is due before.
    let bytes = if ended.young { room.min(wanted) } else { room };
    let allowance = match room < wanted {
        // Holes are filled besides.
        true => allowance.min(bytes + ended.found.holes),
        false => allowance.max(bytes),
    };
    Growth {
        bytes,
        allowance,
        most: usize::try_from(decision.most).unwrap_or(usize::MAX),
        short: decision.short,
        cliff: false,
    }
}

impl Surroundings {
    /// Bytes of the heap that are in memory, as far as is known without asking the kernel.
    pub(crate) fn resident(&self, central: &Central) -> u64 {
        ((central.used() + self.idle(central)).saturating_sub(self.absent) * SUPERPAGE) as u64
    }

    /// Superpages that are free but in memory: the heap has grown into some since the last collection.
    fn idle(&self, central: &Central) -> usize {
        let grown = central.used().saturating_sub(self.used);
        self.idle.saturating_sub(grown)
    }

    /// Whether the kernel may have to evict something.
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }

    /// Whether the heap is not to grow, where nothing can be paged out: then collections find all that is
    /// dead, and nothing is allocated beside of holes while they mark.
    pub(crate) fn is_tight(&self) -> bool {
        self.tight
    }

    /// Whether nothing can be paged out.
    pub(crate) fn is_cliff(&self) -> bool {
        self.cliff
    }

    /// Superpages in swap.
    pub(crate) fn absent(&self) -> usize {
        self.absent
    }

    /// All that is free went back to the kernel.
    pub(crate) fn gave_all(&mut self) {
        self.idle = 0;
    }

    /// Bytes to allocate until the next collection, where memory is not short.
    fn allowance(&mut self, ended: &Ended<'_>, told: &sizing::Ended) -> usize {
        let usual = Pace::allowance(ended.found);
        self.enough.bounded(u64::MAX);
        self.enough.ended(told);
        let enough = self.enough.size().saturating_sub(told.live);
        let enough = enough.max(usual as u64 / 4);
        usual.min(usize::try_from(enough).unwrap_or(usize::MAX))
    }

    /// Decides by how much the heap may grow that is to allocate so much and has so many superpages free in
    /// memory; and whether nothing can be paged out.
    fn decide(
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
        // A heap that was larger gives little of that up, as long as there is room for it.
        let most = growth.max((pace.fills(central) * SUPERPAGE) as u64);
        let (bound, there) = self.bound(resident, most, (idle * SUPERPAGE) as u64);
        let decision = self.footprint.after(&Seen {
            ended: sizing::Ended {
                // Large objects may be untouched: what nobody wrote to is no measure of what may be
                // allocated in any case.
                live: resident.min(there),
                growth,
                ..*told
            },
            holes: ended.found.holes as u64,
            bound,
        });
        (decision, bound.is_cliff())
    }

    /// Bytes that there is room for when a heap is to grow by so many, apart from collections.
    pub(crate) fn room(&mut self, central: &Central, growth: usize) -> usize {
        let resident = self.resident(central);
        let idle = (self.idle(central) * SUPERPAGE) as u64;
        let (bound, _) = self.bound(resident, growth as u64, idle);
        usize::try_from(bound.room(resident)).unwrap_or(usize::MAX)
    }

    /// Where nothing could be paged out when it was looked last: how much room there is now for a heap that
    /// is to grow by so much, and what it may take in any case for what it found no place for after a
    /// collection. Bytes.
    pub(crate) fn on_cliff(&mut self, central: &Central, growth: usize) -> Option<(usize, usize)> {
        if !self.cliff {
            return None;
        }
        let resident = (central.used().saturating_sub(self.absent) * SUPERPAGE) as u64;
        let idle = (self.idle(central) * SUPERPAGE) as u64;
        let (bound, _) = self.bound(resident, growth as u64, idle);
        let bytes = |many: u64| usize::try_from(many).unwrap_or(usize::MAX);
        Some((bytes(bound.room(resident)), bytes(bound.last()?)))
    }

    /// What bounds a heap that has so much in memory, and more that is free, and that would grow by
    /// so much; and what of it is in memory at the most, as far as that was looked up. Bytes.
    fn bound(&mut self, resident: u64, growth: u64, idle: u64) -> (Bound, u64) {
        let granted = GRANTED.load(Relaxed);
        let small = resident + growth < WORTH;
        let looked = match granted {
            NOT_GRANTED if small || self.is_plenty(resident + growth) => (Bound::None, u64::MAX),
            NOT_GRANTED => self.look(resident, idle, granted),
            _ if self.is_safe(granted) => (Bound::Granted(granted), u64::MAX),
            _ => match self.look(resident, idle, granted) {
                (bound, uses) if bound.is_cliff() && !self.is_safe(granted) => (bound, uses),
                _ => (Bound::Granted(granted), u64::MAX),
            },
        };
        self.cliff = looked.0.is_cliff();
        looked
    }

    /// What a broker's grant of so many bytes comes to for a heap that is here: where nothing can be paged
    /// out, no more than there is room for; and whether that is so. What the broker grants may not be there
    /// before others have given it back.
    pub(crate) fn granted(&mut self, central: &Central, bytes: u64) -> (u64, bool) {
        let resident = (central.used().saturating_sub(self.absent) * SUPERPAGE) as u64;
        let idle = (self.idle(central) * SUPERPAGE) as u64;
        let (bound, _) = self.bound(resident, 0, idle);
        match bound.is_cliff() {
            true => (bytes.min(resident + bound.room(resident)), true),
            false => (bytes, false),
        }
    }

    /// Whether there was plenty of room a moment ago for a heap that wants so much.
    fn is_plenty(&self, wanted: u64) -> bool {
        self.plenty
            .is_some_and(|(then, plenty)| wanted < plenty && then.elapsed() < REST)
    }

    /// Whether a moment ago nothing was to be feared of what a broker grants: some could be paged out, or
    /// there was plenty.
    fn is_safe(&self, granted: u64) -> bool {
        let lately = self.no_cliff.is_some_and(|then| then.elapsed() < REST);
        lately || self.is_plenty(granted)
    }

    /// Looks at the tightest of the machine and the groups that this process is in. What is looked
    /// at is not kept open: programs close what they do not know.
    fn look(&mut self, resident: u64, idle: u64, granted: u64) -> (Bound, u64) {
        if let Some((then, before, bound, uses)) = self.lately
            && then.elapsed() < LATELY
        {
            return (bound.after(resident as i64 - before as i64), uses);
        }
        let Some((reading, pageable, uses)) = read() else {
            return (Bound::None, u64::MAX);
        };
        self.plenty = Some((Instant::now(), reading.room() / PLENTY));
        // Pages that were read from swap count as droppable there, and are mapped here. And of a
        // large object some may not have been touched yet, and will be.
        let used = reading.used.max(uses);
        let untouched = (resident + idle).saturating_sub(uses);
        let capacity = reading.capacity;
        let left = capacity.saturating_sub(used) + idle;
        let free = left.saturating_sub(untouched);
        if !is_cliff(capacity, pageable) {
            (self.no_cliff, self.lately) = (Some(Instant::now()), None);
            return (Bound::Domain { capacity, free }, uses);
        }
        let heap = (resident + idle).min(uses);
        self.beside.look(clock::now_ns(), used.saturating_sub(heap));
        let margin = self.beside.margin(capacity);
        let bound = Bound::Cliff {
            left,
            free,
            margin,
            granted,
        };
        self.lately = Some((Instant::now(), resident, bound, uses));
        (bound, uses)
    }
}

/// What bounds this process, how much of that can go to swap, and how much this process has in memory. None
/// where the kernel does not say, or there is no memory for looking: Rust would end the program.
fn read() -> Option<(Reading, u64, u64)> {
    const ENOUGH: usize = 1 << 20;
    // SAFETY: freed at once, if it was there.
    unsafe {
        let room = libc::malloc(ENOUGH);
        if room.is_null() {
            return None;
        }
        libc::free(room);
    }
    let mut domain = Domain::of_self().ok()?;
    let reading = domain.read().ok()?;
    let pageable = domain.pageable(&reading).unwrap_or(reading.swap_free);
    let own = Process::own().ok()?.memory_fast().ok()?;
    Some((reading, pageable, own.anon()))
}

#[cfg(test)]
mod tests;
