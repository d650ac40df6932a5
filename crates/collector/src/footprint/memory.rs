//! The bound of this process's memory, as the kernel tells it: the machine or a control group.

use plimsoll_kernel::capacity::{Domain, Reading};
use plimsoll_kernel::clock;
use plimsoll_kernel::process::own;
use plimsoll_policy::footprint::{Beside, Bound, is_cliff};
use plimsoll_unit::Bytes;
use std::time::{Duration, Instant};

/// While the heap takes no more than one part in `PLENTY` of the room found, the bounds are not
/// looked up again for a while.
pub(super) const PLENTY: u64 = 8;
pub(super) const REST: Duration = Duration::from_secs(1);
/// Where nothing can be paged out, bounds are reused for this long: looking them up takes 0.2 ms,
/// and not much is allocated in so short a time.
const LATELY: Duration = Duration::from_millis(3);

/// The last looks at what bounds this process. A look is not repeated while the last one tells enough.
#[derive(Default)]
pub(super) struct MemoryLook {
    /// When there was plenty of room, and for how much.
    plenty: Option<(Instant, Bytes)>,
    /// When something could last be paged out.
    no_cliff: Option<Instant>,
    /// The last look where nothing could be paged out: when it was, the part of the heap in memory, the
    /// bound found, and the process's memory.
    lately: Option<(Instant, Bytes, Bound, Bytes)>,
    /// The memory beside the heap.
    beside: Beside,
}

impl MemoryLook {
    /// Whether there was plenty of room a moment ago for a heap of this size.
    pub(super) fn is_plenty(&self, wanted: Bytes) -> bool {
        self.plenty
            .is_some_and(|(then, plenty)| wanted < plenty && then.elapsed() < REST)
    }

    /// Whether a broker's grant was safe to use a moment ago: something could be paged out, or
    /// there was plenty of room.
    pub(super) fn is_safe(&self, granted: Bytes) -> bool {
        let lately = self.no_cliff.is_some_and(|then| then.elapsed() < REST);
        lately || self.is_plenty(granted)
    }

    /// Looks at the tightest of the machine and the control groups of this process, for a heap with
    /// `resident` in memory and `idle` free memory besides. No file is kept open: programs close
    /// descriptors that they do not know. Returns the bound, and the process's memory, or the
    /// most if the kernel does not say.
    pub(super) fn look(
        &mut self,
        resident: Bytes,
        idle: Bytes,
        granted: Option<Bytes>,
    ) -> (Bound, Bytes) {
        if let Some((then, before, bound, uses)) = self.lately
            && then.elapsed() < LATELY
        {
            return (bound.after(resident.0 as i64 - before.0 as i64), uses);
        }
        let Some((reading, pageable, uses)) = read() else {
            return (Bound::None, Bytes::MAX);
        };
        self.plenty = Some((Instant::now(), reading.room() / PLENTY));
        // Pages that were read from swap count as droppable there, but are mapped here. And parts
        // of a large object may not have been touched yet, but will be.
        let used = reading.used.max(uses);
        let untouched = resident + idle - uses;
        let capacity = reading.capacity;
        let left = capacity - used + idle;
        let free = left - untouched;
        if !is_cliff(capacity, pageable) {
            (self.no_cliff, self.lately) = (Some(Instant::now()), None);
            return (Bound::Domain { capacity, free }, uses);
        }
        let heap = (resident + idle).min(uses);
        self.beside.look(clock::now(), used - heap);
        let bound = Bound::Cliff {
            left,
            free,
            margin: self.beside.margin(capacity),
            granted: granted.unwrap_or(Bytes::MAX),
        };
        self.lately = Some((Instant::now(), resident, bound, uses));
        (bound, uses)
    }
}

/// Returns what bounds this process, the bytes that can go to swap, and the process's memory. `None` if
/// the kernel does not say, or if there is no memory for the look: Rust would abort the program.
fn read() -> Option<(Reading, Bytes, Bytes)> {
    /// More than a look allocates, bytes.
    const ENOUGH: usize = 1 << 20;
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(ENOUGH).ok()?;
    drop(std::hint::black_box(room));
    let mut domain = Domain::of_self().ok()?;
    let reading = domain.read().ok()?;
    let pageable = domain.pageable(&reading).unwrap_or(reading.swap_free);
    Some((reading, pageable, own::anonymous()?.resident))
}
