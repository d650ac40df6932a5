//! How much of the heap the agent is asked to keep resident.
//!
//! With a limit, what it leaves beside the native part may stay. While the kernel makes the process wait for
//! memory, nothing free may: what a collection has found dead is the first that the kernel writes to swap,
//! and the program pays for that twice. (The agent does the same in the pause that stalled.) Where the whole
//! machine is short, the kernel mostly writes in the background, and no program stalls; so more of the
//! process in swap counts as well. The agent itself keeps what is taken again at once.

use super::stalls::tier;
use plimsoll_kernel::stalls::Stalled;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::collections::{Process, Signal};

/// How long free memory goes after the last stall.
const LASTS: Nanos = Nanos::seconds(5);
/// Growth of the process's swap between two looks from which it counts as being written to swap.
/// Single pages that nobody uses go now and then.
const MORE_SWAPPED: Bytes = Bytes::mib(1);

/// The stalls that the agent's page told of. Used by the steering loop's thread alone.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// The agent's last reading of its process; `None` before the first.
    last: Option<Process>,
    /// The part of it in swap: at the first look, or when that last counted or was less. `None` at first.
    swapped: Option<Bytes>,
    /// Free memory goes until then: monotonic time; 0 before the first stall.
    pressed_until: Nanos,
}

impl Wishes {
    /// Takes in what the agent read at the end of the last pause, by this signal.
    pub(super) fn look(&mut self, process: Process, signal: Signal) {
        let last = *self.last.get_or_insert(process);
        if process.at_ns == last.at_ns {
            return;
        }
        self.last = Some(process);
        let stalled = stalls(process).since(stalls(last));
        let at = Nanos(process.at_ns);
        let span = at - Nanos(last.at_ns);
        if tier(signal).is_some_and(|tier| tier.is_short(stalled, span)) {
            let until = at + LASTS;
            self.pressed_until = self.pressed_until.max(until);
        }
    }

    /// Takes in how much of the process is in swap at this time (monotonic).
    pub(super) fn look_at_swap(&mut self, swapped: Bytes, now: Nanos) {
        let before = *self.swapped.get_or_insert(swapped);
        let more = swapped - before >= MORE_SWAPPED;
        if more {
            self.pressed_until = self.pressed_until.max(now + LASTS);
        }
        if more || swapped < before {
            self.swapped = Some(swapped);
        }
    }

    /// The wish at this time (monotonic): at a limit of the process, 0 if there is none,
    /// with a native part of this size.
    pub(super) fn resident(&self, now: Nanos, limit: Bytes, native: Bytes) -> Option<Bytes> {
        match limit {
            _ if now < self.pressed_until => Some(Bytes::ZERO),
            Bytes::ZERO => None,
            _ => Some(limit - native),
        }
    }
}

/// The stalls of a reading.
fn stalls(process: Process) -> Stalled {
    Stalled {
        count: process.stalls,
        time: Nanos(process.stall_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use plimsoll_unit::SECOND;

    fn read(at_ns: u64, stalls: u64, stall_ns: u64) -> Process {
        Process {
            at_ns,
            stalls,
            stall_ns,
            major_faults: 0,
        }
    }

    #[test]
    fn what_a_limit_leaves_may_stay() {
        let mut wishes = Wishes::default();
        wishes.look(read(SECOND, 7, 9), Signal::Delays);
        assert_eq!(
            wishes.resident(Nanos::seconds(1), Bytes::ZERO, Bytes(10)),
            None,
            "it began with these"
        );
        assert_eq!(
            wishes.resident(Nanos::seconds(1), Bytes(100), Bytes(10)),
            Some(Bytes(90))
        );
        assert_eq!(
            wishes.resident(Nanos::seconds(1), Bytes(5), Bytes(10)),
            Some(Bytes(0))
        );
    }

    #[test]
    fn after_a_stall_nothing_free_stays_for_some_time() {
        let mut wishes = Wishes::default();
        wishes.look(read(SECOND, 7, 9), Signal::Delays);
        wishes.look(read(2 * SECOND, 8, 9), Signal::Delays);
        for limit in [0, 100] {
            assert_eq!(
                wishes.resident(Nanos::seconds(3), Bytes(limit), Bytes(10)),
                Some(Bytes(0))
            );
        }
        wishes.look(read(4 * SECOND, 8, 9), Signal::Delays);
        assert_eq!(
            wishes.resident(Nanos::seconds(7), Bytes::ZERO, Bytes(10)),
            None
        );
        wishes.look(read(8 * SECOND, 8, 10), Signal::Delays);
        assert_eq!(
            wishes.resident(Nanos::seconds(9), Bytes::ZERO, Bytes(10)),
            Some(Bytes(0))
        );
    }

    #[test]
    fn pressure_of_the_group_counts_if_it_takes_a_good_part_of_the_time() {
        let mut wishes = Wishes::default();
        wishes.look(read(SECOND, 0, 500), Signal::Pressure);
        // A neighbour stalled now and then.
        let some = 500 + SECOND / 64;
        wishes.look(read(2 * SECOND, 0, some), Signal::Pressure);
        assert_eq!(
            wishes.resident(Nanos::seconds(2), Bytes::ZERO, Bytes(10)),
            None
        );
        wishes.look(read(4 * SECOND, 0, some + 1), Signal::Pressure);
        assert_eq!(
            wishes.resident(Nanos::seconds(4), Bytes::ZERO, Bytes(10)),
            None
        );
        let more = some + 2 + SECOND / 64;
        wishes.look(read(5 * SECOND, 0, more), Signal::Pressure);
        assert_eq!(
            wishes.resident(Nanos::seconds(6), Bytes::ZERO, Bytes(10)),
            Some(Bytes(0))
        );
        assert_eq!(
            wishes.resident(Nanos::seconds(11), Bytes::ZERO, Bytes(10)),
            None
        );
    }

    #[test]
    fn what_is_written_to_swap_counts_without_any_stall() {
        let mut wishes = Wishes::default();
        let wished =
            |wishes: &Wishes, at| wishes.resident(Nanos::seconds(at), Bytes::ZERO, Bytes(0));
        wishes.look_at_swap(Bytes::mib(50), Nanos::seconds(1));
        assert_eq!(wished(&wishes, 1), None, "it was there before");
        wishes.look_at_swap(Bytes::mib(50) + MORE_SWAPPED - Bytes(1), Nanos::seconds(2));
        assert_eq!(wished(&wishes, 2), None, "some pages");
        wishes.look_at_swap(Bytes::mib(50) + MORE_SWAPPED, Nanos::seconds(3));
        assert_eq!(wished(&wishes, 7), Some(Bytes(0)), "slowly, but it grows");
        wishes.look_at_swap(Bytes::mib(50) + MORE_SWAPPED, Nanos::seconds(8));
        assert_eq!(wished(&wishes, 8), None, "no more since");
        // It comes back, and goes again.
        wishes.look_at_swap(Bytes::mib(10), Nanos::seconds(9));
        assert_eq!(wished(&wishes, 9), None);
        wishes.look_at_swap(Bytes::mib(12), Nanos::seconds(10));
        assert_eq!(wished(&wishes, 10), Some(Bytes(0)));
        wishes.look_at_swap(Bytes::MAX, Nanos(u64::MAX));
    }

    #[test]
    fn some_major_faults_and_counters_that_go_backwards_are_no_stalls() {
        let mut wishes = Wishes::default();
        wishes.look(read(SECOND, 100, 50), Signal::MajorFaults);
        wishes.look(read(2 * SECOND, 109, 50), Signal::MajorFaults);
        wishes.look(read(3 * SECOND, 4, 0), Signal::MajorFaults);
        assert_eq!(
            wishes.resident(Nanos::seconds(3), Bytes::ZERO, Bytes(0)),
            None
        );
        wishes.look(read(4 * SECOND, 14, 0), Signal::MajorFaults);
        assert_eq!(
            wishes.resident(Nanos::seconds(4), Bytes::ZERO, Bytes(0)),
            Some(Bytes(0))
        );
    }
}
