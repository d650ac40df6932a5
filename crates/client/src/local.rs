//! Local sensing: what a program may use while it has no broker.
//!
//! It is conservative, because other programs may sense the same free bytes. It takes a quarter of
//! what is free beyond a reserve, and looks again.

use plimsoll_kernel::capacity::{self, Domain};
use plimsoll_kernel::process::Process;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::page::{Level, Numbers};
use std::time::Duration;

/// A program takes one part in this many of the free memory at a time.
const PART: u64 = 4;
/// The reserve is one part in this many of the capacity, within the bounds below.
const RESERVE_PART: u64 = 50;
const RESERVE_MIN: Bytes = Bytes::mib(32);
const RESERVE_MAX: Bytes = Bytes::mib(1024);
/// The time allowed for paying a debt.
const PATIENCE: Nanos = Nanos::seconds(1);
/// How long the last limit of a dead broker holds. The sum of all limits was safe.
const GRACE: Nanos = Nanos::seconds(10);
/// Numbers that change by less than this (bytes) stay as they were.
const HYSTERESIS: u64 = 1 << 20;

/// Senses for one principal. Belongs to the watcher's thread.
#[derive(Debug)]
pub(crate) struct Local {
    /// The memory that bounds the process; found at the first look.
    domain: Option<Domain>,
    /// The process; opened at the first look.
    process: Option<Process>,
    /// Its process id; `None` if there is no process.
    pid: Option<u32>,
    /// Numbers sensed last.
    last: Numbers,
    /// The dead broker's limit, and until when it holds.
    bound: Option<(Bytes, Nanos)>,
}

/// A reading of the memory that bounds the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sensed {
    /// Size of that memory: the limit, or the machine's.
    pub(crate) capacity: Bytes,
    /// The part of it that is free or can be dropped for free.
    pub(crate) room: Bytes,
    /// The use of the process.
    pub(crate) uses: Bytes,
}

impl Local {
    /// Senses for this process, or for none (a group, or a process that is still to start).
    pub(crate) fn new(pid: Option<u32>) -> Local {
        Local {
            domain: None,
            process: None,
            pid,
            last: Numbers::default(),
            bound: None,
        }
    }

    /// Changes the process to sense for.
    pub(crate) fn set_pid(&mut self, pid: Option<u32>) {
        if self.pid != pid {
            *self = Local {
                bound: self.bound,
                ..Local::new(pid)
            };
        }
    }

    /// Keeps the limit of a lost broker as an upper bound for a while.
    pub(crate) fn inherit(&mut self, limit: Bytes, now: Nanos) {
        self.bound = (limit > Bytes::ZERO).then_some((limit, now + GRACE));
        self.last = Numbers::default();
    }

    /// Closes the files. The next look opens them again.
    pub(crate) fn rest(&mut self) {
        self.domain = None;
        self.process = None;
    }

    /// Senses the present numbers, in some 50 us.
    pub(crate) fn sense(&mut self, now: Nanos) -> Numbers {
        let sensed = self.look();
        if self.bound.is_some_and(|(_, until)| now >= until) {
            self.bound = None;
        }
        let bound = self.bound.map_or(Bytes::MAX, |(limit, _)| limit);
        let fresh = decide(&sensed, bound, &self.last, now);
        if !is_close(&fresh, &self.last) {
            self.last = fresh;
        }
        (self.last.uses, self.last.sensed) = (fresh.uses, fresh.sensed);
        self.last
    }

    /// The pause until the next look. Short while memory is short.
    pub(crate) fn interval(&self) -> Duration {
        match self.last.level {
            Level::Normal => Duration::from_millis(500),
            Level::Warning | Level::Critical => Duration::from_millis(100),
        }
    }

    fn look(&mut self) -> Sensed {
        let uses = self.uses();
        let (capacity, room) = match self.domain() {
            Some(reading) => (reading.capacity, reading.room()),
            None => from_sysinfo(),
        };
        Sensed {
            capacity,
            room,
            uses,
        }
    }

    fn domain(&mut self) -> Option<capacity::Reading> {
        if self.domain.is_none() {
            let pid = self.pid.and_then(|pid| i32::try_from(pid).ok());
            self.domain = match pid {
                Some(pid) => Domain::of_process(pid).or_else(|_| Domain::of_self()).ok(),
                None => Domain::of_self().ok(),
            };
            if self.domain.is_none() {
                self.domain = Domain::machine().ok();
            }
        }
        let reading = self.domain.as_mut()?.read();
        if reading.is_err() {
            self.domain = None;
        }
        reading.ok()
    }

    fn uses(&mut self) -> Bytes {
        let Some(pid) = self.pid.and_then(|pid| i32::try_from(pid).ok()) else {
            return Bytes::ZERO;
        };
        if self.process.is_none() {
            self.process = Process::open(pid).ok();
        }
        let memory = self
            .process
            .as_ref()
            .and_then(|process| process.memory().ok());
        memory.map_or(Bytes::ZERO, |memory| memory.anon + memory.shmem)
    }
}

/// The memory as `sysinfo` tells it, for use without `/proc`.
fn from_sysinfo() -> (Bytes, Bytes) {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit.max(1));
    (
        Bytes(info.totalram as u64) * unit,
        Bytes(info.freeram as u64) * unit,
    )
}

/// The numbers that follow from what was sensed. The limit never exceeds `bound`. A debt in `last`
/// keeps its deadline until it is paid.
pub(crate) fn decide(sensed: &Sensed, bound: Bytes, last: &Numbers, now: Nanos) -> Numbers {
    let floor = RESERVE_MIN.min(sensed.capacity / 8);
    let reserve = (sensed.capacity / RESERVE_PART).clamp(floor, RESERVE_MAX.max(floor));
    let free = sensed.room - reserve;
    let short = reserve - sensed.room;
    let owed = short.min(sensed.uses / 2);
    let limit = if owed > Bytes::ZERO {
        sensed.uses - owed
    } else {
        sensed.uses + free / PART
    };
    let deadline = match (owed, Nanos(last.deadline)) {
        (Bytes::ZERO, _) => Nanos::ZERO,
        (_, Nanos::ZERO) => now + PATIENCE,
        (_, set) => set,
    };
    let level = if sensed.room < reserve / 4 || (owed > Bytes::ZERO && now > deadline) {
        Level::Critical
    } else if sensed.room < reserve {
        Level::Warning
    } else {
        Level::Normal
    };
    Numbers {
        limit: limit.min(bound).0,
        available: (sensed.uses + free).0,
        owed: owed.0,
        deadline: deadline.0,
        uses: sensed.uses.0,
        share: 0,
        level,
        sensed: now.0,
    }
}

/// Whether a change is too small to tell: under 1 MiB or 1 %, with nothing else changed.
fn is_close(a: &Numbers, b: &Numbers) -> bool {
    let close = |a: u64, b: u64| a.abs_diff(b) <= HYSTERESIS.max(b / 100);
    let debt = (a.owed == 0) == (b.owed == 0) && close(a.owed, b.owed);
    a.level == b.level
        && debt
        && a.deadline == b.deadline
        && close(a.limit, b.limit)
        && close(a.available, b.available)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use plimsoll_unit::MIB;

    fn sensed(capacity: u64, room: u64, uses: u64) -> Sensed {
        Sensed {
            capacity: Bytes::mib(capacity),
            room: Bytes::mib(room),
            uses: Bytes::mib(uses),
        }
    }

    #[test]
    fn takes_a_part_of_what_is_free_and_gives_back_when_nothing_is() {
        let calm = decide(
            &sensed(1600, 832, 100),
            Bytes::MAX,
            &Numbers::default(),
            Nanos(5),
        );
        assert_eq!(calm.limit, 300 * MIB);
        assert_eq!(calm.available, 900 * MIB);
        assert_eq!(
            (calm.owed, calm.deadline, calm.level),
            (0, 0, Level::Normal)
        );

        let short = decide(&sensed(1600, 12, 100), Bytes::MAX, &calm, Nanos(5));
        assert_eq!(short.owed, 20 * MIB);
        assert_eq!(short.limit, 80 * MIB);
        assert_eq!(short.deadline, 5 + PATIENCE.0);
        assert_eq!(short.level, Level::Warning);

        let late = decide(
            &sensed(1600, 12, 100),
            Bytes::MAX,
            &short,
            Nanos(short.deadline + 1),
        );
        assert_eq!(late.deadline, short.deadline, "a debt keeps its deadline");
        assert_eq!(late.level, Level::Critical);
    }

    #[test]
    fn a_dead_brokers_limit_holds_for_a_while() {
        let mut local = Local::new(Some(std::process::id()));
        local.inherit(Bytes::mib(7), Nanos(1000));
        assert!(local.sense(Nanos(2000)).limit <= 7 * MIB);
        let after = local.sense(Nanos(1000) + GRACE);
        assert!(after.uses > 0, "{after:?}");
        assert!(local.bound.is_none());
    }

    proptest! {
        #[test]
        fn never_more_than_there_is(
            capacity in 0u64..1 << 50,
            room in any::<u64>(),
            uses in any::<u64>(),
            bound in any::<u64>(),
            now in any::<u64>(),
        ) {
            let room = room % (capacity + 1);
            let uses = uses % (capacity - room + 1);
            let sensed = Sensed {
                capacity: Bytes(capacity),
                room: Bytes(room),
                uses: Bytes(uses),
            };
            let now = decide(&sensed, Bytes(bound), &Numbers::default(), Nanos(now));
            prop_assert!(now.limit <= uses + room && now.limit <= bound);
            prop_assert!(now.available <= uses + room);
            prop_assert!(now.owed <= uses);
            prop_assert_eq!(now.owed == 0, now.deadline == 0 || now.owed == 0);
        }
    }
}
