//! Tier 1: delay accounting of one process. Source: kernel document `delay-accounting.rst`.

use super::taskstats::{CALL, NEEDS};
use super::{Declined, Stalled, TaskStalls, Taskstats};
use crate::capabilities::{CAP_NET_ADMIN, holds};
use crate::process::Process;
use crate::reader::Reader;
use crate::{Error, Result, clock};
use plimsoll_unit::Nanos;
use std::time::Duration;

/// The switch. Threads that are made while it is 1 are counted.
const SWITCH: &str = "/proc/sys/kernel/task_delayacct";
/// How often an unlikely reading is read again.
const MAX_AGAIN: u32 = 3;
/// The pause before that, where the caller can wait: an exiting thread takes less.
pub(super) const PAUSE: Duration = Duration::from_micros(50);

/// Counts the allocation stalls of one process.
#[derive(Debug)]
pub(super) struct Delays {
    taskstats: Taskstats,
    /// The latest reading, and when (monotonic); changed by each reading.
    latest: (Waits, Nanos),
}

/// The waits of a process for memory.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    /// For memory that it took.
    stalled: Stalled,
    /// For memory that had been taken from it.
    returning: Nanos,
}

impl Waits {
    fn of(stalls: &TaskStalls) -> Waits {
        Waits {
            stalled: Stalled {
                count: stalls.reclaim_count,
                time: stalls.reclaim,
            },
            returning: stalls.returning(),
        }
    }

    /// All of it.
    fn time(self) -> Nanos {
        self.stalled.time + self.returning
    }
}

impl Delays {
    /// Makes sure that the process is counted.
    pub(super) fn open(process: &Process) -> std::result::Result<Delays, Declined> {
        // Asked first: not every filter of system calls lets a program make sockets.
        if !holds(CAP_NET_ADMIN) {
            return Err(Declined::Kernel(Error::NotPermitted {
                call: CALL,
                pid: process.pid(),
                needs: NEEDS,
            }));
        }
        let mut taskstats = Taskstats::open().map_err(|e| {
            if e.is_absent() {
                Declined::NoTaskstats
            } else {
                Declined::Kernel(e)
            }
        })?;
        // Whether the process is counted was settled when its first thread was made. Threads that
        // came later may be counted although most are not, so the sum over all does not say.
        let first = taskstats.thread(process.pid())?;
        if !first.any() {
            return Err(if is_switched_on() {
                Declined::OlderThanSwitch { pid: process.pid() }
            } else {
                Declined::SwitchedOff
            });
        }
        let latest = Waits::of(&taskstats.process(process.pid())?);
        Ok(Delays {
            taskstats,
            latest: (latest, clock::now()),
        })
    }

    /// Whether the descriptor is still ours.
    pub(super) fn is_ours(&self) -> bool {
        self.taskstats.is_ours()
    }

    #[cfg(test)]
    pub(super) fn numbers(&self) -> Vec<std::os::fd::RawFd> {
        vec![self.taskstats.number()]
    }

    /// The stalls of all threads, exited ones included, since the process started. `pause`: before an
    /// unlikely reading is repeated.
    pub(super) fn read(&mut self, pid: i32, pause: Option<Duration>) -> Result<Stalled> {
        let (before, then) = self.latest;
        let read_at = clock::now();
        let taskstats = &mut self.taskstats;
        let now = settled(before, read_at - then, pause, &mut || {
            Ok(Waits::of(&taskstats.process(pid)?))
        })?;
        self.latest = (now, read_at);
        Ok(now.stalled)
    }

    /// How long its threads had waited for memory that had been taken from the process, as of the latest
    /// reading.
    pub(super) fn returning(&self) -> Nanos {
        self.latest.0.returning
    }
}

/// A reading in which no thread counts twice, as far as that can be known. A thread that is exiting
/// does for some microseconds: in the sum of those that have exited, and for itself. So a reading
/// that grew by more than the time that passed is read again, and the lowest counts. Several threads that
/// stalled at once look the same, and cost as many readings.
fn settled(
    before: Waits,
    elapsed: Nanos,
    pause: Option<Duration>,
    read: &mut dyn FnMut() -> Result<Waits>,
) -> Result<Waits> {
    let mut now = read()?;
    for _ in 0..MAX_AGAIN {
        if now.time() - before.time() <= elapsed {
            break;
        }
        if let Some(pause) = pause {
            std::thread::sleep(pause);
        }
        let again = read()?;
        if again.time() < now.time() {
            now = again;
        }
    }
    Ok(now)
}

/// Whether the switch is on, so that threads that are made now are counted.
pub fn is_switched_on() -> bool {
    let value = Reader::open(SWITCH).and_then(|reader| reader.number());
    matches!(value, Ok(Some(1..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settle(before: u64, elapsed: u64, readings: &[u64]) -> (u64, usize) {
        let mut used = 0;
        // One of two kinds of waits after the other.
        let waits = |ns, returning| Waits {
            stalled: Stalled {
                count: 1,
                time: Nanos(if returning { 0 } else { ns }),
            },
            returning: Nanos(if returning { ns } else { 0 }),
        };
        let read = settled(waits(before, false), Nanos(elapsed), None, &mut || {
            used += 1;
            Ok(waits(
                readings[(used - 1).min(readings.len() - 1)],
                used % 2 == 0,
            ))
        });
        (read.unwrap().time().0, used)
    }

    #[test]
    fn a_thread_that_counts_twice_while_it_exits_is_waited_for() {
        assert_eq!(settle(100, 50, &[140]), (140, 1), "likely: read once");
        assert_eq!(settle(100, 50, &[900, 900, 130]), (130, 3));
        let long = "a long stall that has just ended counts at its end";
        assert_eq!(settle(100, 50, &[900]), (900, 4), "{long}");
        assert_eq!(settle(900, 50, &[130]), (130, 1), "backwards: read once");
    }

    proptest! {
        #[test]
        fn it_ends_with_one_of_the_readings(
            before in any::<u64>(),
            elapsed in any::<u64>(),
            readings in proptest::collection::vec(any::<u64>(), 1..6),
        ) {
            let (ns, used) = settle(before, elapsed, &readings);
            prop_assert!(readings.contains(&ns) && ns <= readings[0]);
            prop_assert!(used <= 1 + MAX_AGAIN as usize);
        }
    }
}
