//! The rule of what a limit means inside a program: how large the heap of one process may be, when it gives
//! memory back and down to what, how fast the program allocates, and when it reports. Pure: no clock and no
//! I/O.
//!
//! A limit is for a process and its *family* together: its descendants, unless they are principals of their
//! own. The broker counts all of them; a process knows only its own use. So the family's use is the
//! difference. The broker's count is older, and differs while this process grows or shrinks, or forks a
//! child that is gone a moment later. Therefore the least difference of the last looks is taken.
//!
//! `clients/vectors/governor.json` has steps and their results, for clients in every language.

use crate::Granted;
use plimsoll_policy::footprint::{low_water, threshold};
use plimsoll_unit::{Bytes, MILLISECOND, Nanos, SECOND};
use plimsoll_wire::messages::Report;

/// Looks over which the memory beside the heap is taken as the most, and the family's as the least.
const WINDOW: usize = 8;
/// Time between two reports.
pub const REPORT_EVERY: Nanos = Nanos(SECOND);
/// The allocation rate is smoothed over this time.
const SMOOTH_OVER: Nanos = Nanos(SECOND);
/// Shortest time over which the allocation rate is measured.
const MEASURE_OVER: Nanos = Nanos::millis(20);
/// After a release, the next waits for this many times what it took.
const RESTS: u64 = 4;
/// While memory is owed, a release that did not help is repeated after the first pause, and then after ever
/// longer ones: live data that exceed the limit are collected in vain.
const FIRST_PAUSE: Nanos = Nanos::millis(500);
const LONGEST_PAUSE: Nanos = Nanos::seconds(30);
/// A limit that fell by more than one part in this many since the last release is reason for another at once.
const FELL_PART: u64 = 32;
/// While nothing is owed, the use may exceed the threshold by one part in this many of the bytes left above
/// it.
const TOLERATED_PART: u64 = 4;

/// The memory of this process, as it measures it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Resident anonymous memory.
    pub resident: Bytes,
    /// The part of it that is not the heap.
    pub beside: Bytes,
    /// The smallest heap with which the program can go on.
    pub needs: Bytes,
    /// Bytes that the program has to be able to allocate between two collections, however small its heap is.
    pub guard: Bytes,
}

/// The result of a look.
#[derive(Clone, Debug, PartialEq)]
pub struct Govern {
    /// Use of the rest of the family.
    pub family: Bytes,
    /// This process may use as much before it collects.
    pub process_limit: Bytes,
    /// The part of that for its heap.
    pub heap_limit: Bytes,
    /// The use of the process and its family is too high: the size to which the heap is to shrink now.
    pub release_to: Option<Bytes>,
    /// Whether a release would help, as far as the last one tells.
    pub may_release: bool,
    /// A report that is due. It has the allocation rate (unknown at first), the floor, and the reaction
    /// time; who sends it adds what the collector knows.
    pub report: Option<Report>,
}

/// Governs one process. Owned by the thread that follows the broker.
#[derive(Clone, Debug)]
pub struct Governor {
    /// Memory beside the heap, at the last looks.
    beside: Window,
    /// The broker's count less this process's use, at the last looks.
    family: Window,
    rate: Rate,
    last: Released,
    /// At the last look: what this process used; the larger of what is owed and of the use above the
    /// threshold; what is owed; the limit.
    resident: Bytes,
    excess: Bytes,
    owed: Bytes,
    limit: Bytes,
    /// The last look allowed a release only because of the time since the one before.
    again: bool,
    /// When the last report was due.
    reported: Nanos,
}

impl Governor {
    /// For a process that has allocated `allocated` bytes until `now`.
    #[must_use]
    pub fn new(now: Nanos, allocated: Bytes) -> Governor {
        Governor {
            beside: Window::default(),
            family: Window::default(),
            rate: Rate::new(now, allocated),
            last: Released::default(),
            resident: Bytes::ZERO,
            excess: Bytes::ZERO,
            owed: Bytes::ZERO,
            limit: Bytes::ZERO,
            again: false,
            reported: Nanos::ZERO,
        }
    }

    /// Measures how fast the program allocates, of the bytes that it has ever allocated. Called before
    /// [`Governor::step`], and also while there are no numbers. Returns bytes a second.
    pub fn measure(&mut self, now: Nanos, allocated: Bytes) -> u64 {
        self.rate.look(now, allocated);
        self.rate.smoothed
    }

    /// One look at the broker's numbers and at this process.
    pub fn step(&mut self, now: Nanos, granted: Granted, own: Own) -> Govern {
        self.beside.push(own.beside);
        // A broker that has not counted yet, or is away, knows of no family.
        if granted.uses > Bytes::ZERO {
            self.family.push(granted.uses - own.resident);
        }
        let (beside, family) = (self.beside.most(), self.family.least());
        let limit = granted.limit;
        let usable = threshold(limit);
        let unused = limit - usable;
        let above = own.resident + family - usable;
        (self.resident, self.limit, self.owed) = (own.resident, limit, granted.owed);
        self.excess = above.max(granted.owed);
        let owes = granted.owed > Bytes::ZERO;
        let is_over = is_over(above, owes, unused);
        // A release may take effect later, where another thread collects.
        self.last.reached |= !is_over && !owes;
        let may_release = self.may_release(now, owes, own.guard);
        let left = |most| {
            if self.pays_alone(now) {
                process_limit(most, family)
            } else {
                part_of_family(most, own.resident, family)
            }
        };
        let process_limit = left(usable);
        let goal = left(low_water(limit)) - beside;
        Govern {
            family,
            process_limit,
            heap_limit: process_limit - beside,
            release_to: (is_over && may_release).then_some(goal),
            may_release,
            report: self.report(now, beside + family + own.needs + unused),
        }
    }

    /// A release ended, which began at `began`. `resident`: what this process uses after it.
    pub fn released(&mut self, began: Nanos, ended: Nanos, resident: Bytes) {
        let usable = threshold(self.limit);
        let above = resident + self.family.least() - usable;
        let owed = self.owed - (self.resident - resident);
        let owes = owed > Bytes::ZERO;
        let pause = if self.again {
            (self.last.pause * 2).min(LONGEST_PAUSE)
        } else {
            FIRST_PAUSE
        };
        self.last = Released {
            at: ended,
            took: ended - began,
            limit: self.limit,
            excess: above.max(owed),
            reached: !owes && !is_over(above, owes, self.limit - usable),
            pause,
        };
    }

    /// Time until the next look: shorter while the program allocates, longer where news end the wait
    /// (`is_heard`), and long while there are no numbers (`has_numbers`).
    #[must_use]
    pub fn pause(&self, has_numbers: bool, is_heard: bool) -> Nanos {
        Nanos::millis(match (has_numbers, is_heard) {
            (true, _) if self.rate.smoothed > 0 => 50,
            (_, false) => 100,
            (true, true) => 500,
            (false, true) => 1000,
        })
    }

    fn may_release(&mut self, now: Nanos, owes: bool, guard: Bytes) -> bool {
        let last = &self.last;
        let since = now - last.at;
        let is_lower = self.limit < last.limit - last.limit / FELL_PART;
        let has_grown = self.excess > last.excess + guard * 2;
        let helps = is_lower || (since >= last.took * RESTS && (last.reached || has_grown));
        self.again = !helps && owes && since >= last.pause.max(last.took * RESTS);
        last.at == Nanos::ZERO || helps || self.again
    }

    /// The rest of the family has had its time to give its part, and did not: it cannot.
    fn pays_alone(&self, now: Nanos) -> bool {
        let last = &self.last;
        last.at > Nanos::ZERO && !last.reached && now - last.at >= FIRST_PAUSE
    }

    fn report(&mut self, now: Nanos, floor: Bytes) -> Option<Report> {
        let is_due = now - self.reported >= REPORT_EVERY;
        if is_due {
            self.reported = now;
        }
        is_due.then(|| Report {
            allocation_rate: self.rate.known(),
            floor: Some(floor.0),
            reaction_ms: Some(self.last.took.0 / MILLISECOND),
            ..Report::default()
        })
    }
}

/// Whether `above` bytes above the threshold are too many, below a limit that leaves `unused` bytes above it.
fn is_over(above: Bytes, owes: bool, unused: Bytes) -> bool {
    let tolerated = if owes {
        Bytes::ZERO
    } else {
        unused / TOLERATED_PART
    };
    above > tolerated
}

/// The part of `usable` bytes of a program that is left to one process beside its family. Holds as well for
/// an adapter outside, which measures the family.
#[must_use]
pub fn process_limit(usable: Bytes, family: Bytes) -> Bytes {
    usable - family
}

/// The same where the family can give memory back as well: while all use more than `most`, each member gives
/// the same part of what it uses. If each gave the whole excess, they would give it many times.
fn part_of_family(most: Bytes, resident: Bytes, family: Bytes) -> Bytes {
    let all = resident + family;
    let excess = all - most;
    if excess == Bytes::ZERO {
        return process_limit(most, family);
    }
    resident - excess.part(resident.0, all.0)
}

/// Bytes per second, of bytes in a time.
#[must_use]
pub fn per_second(bytes: Bytes, time: Nanos) -> u64 {
    let rate = u128::from(bytes.0) * u128::from(SECOND) / u128::from(time.0.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// The values of the last looks.
#[derive(Clone, Debug, Default)]
struct Window {
    values: [Bytes; WINDOW],
    looks: usize,
}

impl Window {
    fn push(&mut self, value: Bytes) {
        self.values[self.looks % WINDOW] = value;
        self.looks = self.looks.wrapping_add(1);
    }

    fn most(&self) -> Bytes {
        self.values.into_iter().max().unwrap_or_default()
    }

    /// Nothing until there were enough looks.
    fn least(&self) -> Bytes {
        self.values.into_iter().min().unwrap_or_default()
    }
}

/// How fast the program allocates.
#[derive(Clone, Debug)]
struct Rate {
    started: Nanos,
    /// When bytes were last counted, and how many there were.
    looked: Nanos,
    allocated: Bytes,
    /// Bytes a second.
    smoothed: u64,
}

impl Rate {
    fn new(now: Nanos, allocated: Bytes) -> Rate {
        Rate {
            started: now,
            looked: now,
            allocated,
            smoothed: 0,
        }
    }

    /// Mixes in the rate since the last look. While the program starts, all looks count alike.
    fn look(&mut self, now: Nanos, allocated: Bytes) {
        let passed = now - self.looked;
        if passed < MEASURE_OVER {
            return;
        }
        let fresh = u128::from(per_second(allocated - self.allocated, passed));
        let window = (now - self.started).min(SMOOTH_OVER);
        let (part, whole) = (u128::from(passed.min(window).0), u128::from(window.0));
        let mixed = (u128::from(self.smoothed) * (whole - part) + fresh * part) / whole;
        self.smoothed = u64::try_from(mixed).unwrap_or(u64::MAX);
        (self.looked, self.allocated) = (now, allocated);
    }

    /// Unknown in the first second: a program allocates differently while it starts.
    fn known(&self) -> Option<u64> {
        (self.looked - self.started >= SMOOTH_OVER).then_some(self.smoothed)
    }
}

/// The last release, so that one that did not help is not repeated in vain. All 0 before the first.
#[derive(Clone, Copy, Debug, Default)]
struct Released {
    /// When it ended.
    at: Nanos,
    took: Nanos,
    /// The limit then.
    limit: Bytes,
    /// Use above the threshold after it, or what was still owed.
    excess: Bytes,
    /// Whether the use fell to what is tolerated and nothing was owed, then or later.
    reached: bool,
    /// Time until it is repeated if it did not help and memory is owed.
    pause: Nanos,
}

#[cfg(test)]
#[path = "govern_tests.rs"]
mod tests;
