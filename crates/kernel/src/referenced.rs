//! Working sets by reference bits: clear them (`clear_refs`), wait, and see which were set again
//! (`smaps_rollup`, `smaps`). Source: kernel document `proc.rst` ("clear_refs"); exact to 0.1 %
//! with 4 KiB pages, 2 MiB granular with huge pages.

use crate::process::{Process, place};
use crate::reader::write_text;
use crate::smaps::{self, FileKey};
use crate::{Error, Result};
use plimsoll_unit::{Bytes, Nanos};

/// How often a process is sampled, and at what cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Time between clearing and reading.
    pub window: Nanos,
    /// Shortest time from one sample's start to the next.
    pub shortest: Nanos,
    /// Longest such time; reached by processes that are idle or steady.
    pub longest: Nanos,
    /// Largest share of one processor that sampling this process may take, 0 to 1.
    pub share: f64,
}

impl Default for Pace {
    /// Window 10 s, a sample every 20 s to 320 s, at most 0.5 % of one processor.
    fn default() -> Pace {
        Pace {
            window: Nanos::seconds(10),
            shortest: Nanos::seconds(20),
            longest: Nanos::seconds(320),
            share: 0.005,
        }
    }
}

/// The result of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Touched within the window.
    pub referenced: Bytes,
    /// Resident at its end.
    pub resident: Bytes,
    /// Length of the window.
    pub window: Nanos,
}

/// The state of a sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Will clear at this time.
    Clear(Nanos),
    /// Cleared at this time, at this cost. Will read one window later.
    Read(Nanos, Nanos),
}

/// Decides when to clear and when to read; pure.
#[derive(Clone, Debug)]
pub struct Schedule {
    pace: Pace,
    phase: Phase,
    interval: Nanos,
    last: Option<Estimate>,
}

/// The next step of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing yet.
    Wait,
    /// Clear the reference bits, then call [`Schedule::cleared`].
    Clear,
    /// Read them, then call [`Schedule::read`].
    Read,
}

impl Schedule {
    /// Starts; the first sample begins `now`.
    pub fn new(pace: Pace, now: Nanos) -> Schedule {
        Schedule {
            pace,
            phase: Phase::Clear(now),
            interval: pace.shortest,
            last: None,
        }
    }

    /// The step that is due.
    pub fn step(&self, now: Nanos) -> Step {
        match self.phase {
            Phase::Clear(at) if now >= at => Step::Clear,
            Phase::Read(at, _) if now >= at + self.pace.window => Step::Read,
            _ => Step::Wait,
        }
    }

    /// When something is due next.
    pub fn due(&self) -> Nanos {
        match self.phase {
            Phase::Clear(at) => at,
            Phase::Read(at, _) => at + self.pace.window,
        }
    }

    /// Notes that the bits were cleared, and the processor time that it took.
    pub fn cleared(&mut self, now: Nanos, cost: Nanos) {
        self.phase = Phase::Read(now, cost);
    }

    /// Notes that the bits were read, and the processor time that it took. The interval doubles
    /// if the process was idle or unchanged (within 1/16), and returns to the shortest if it
    /// changed. It is never so short that the cost exceeds its share.
    pub fn read(&mut self, now: Nanos, cost: Nanos, mut found: Estimate) -> Estimate {
        let (started, spent) = match self.phase {
            Phase::Read(at, clearing) => (at, clearing + cost),
            Phase::Clear(_) => (now, cost),
        };
        found.window = now - started;
        let steady = self.last.is_some_and(|last| {
            let change = last.referenced.0.abs_diff(found.referenced.0);
            Bytes(change) <= last.referenced.max(found.resident) / 16
        });
        let idle = found.referenced <= found.resident / 64;
        self.interval = if steady || idle {
            self.interval * 2
        } else {
            self.pace.shortest
        };
        let affordable = if self.pace.share > 0.0 {
            Nanos((spent.0 as f64 / self.pace.share) as u64)
        } else {
            self.pace.longest
        };
        self.interval = self.interval.clamp(
            self.pace.shortest,
            self.pace.longest.max(self.pace.shortest),
        );
        let next = (started + self.interval.max(affordable)).max(now);
        self.phase = Phase::Clear(next);
        self.last = Some(found);
        found
    }

    /// Notes that reading the process failed. Tries again after the present interval.
    pub fn failed(&mut self, now: Nanos) {
        self.interval = (self.interval * 2).min(self.pace.longest.max(self.pace.shortest));
        self.phase = Phase::Clear(now + self.interval);
    }

    /// The last sample.
    pub fn last(&self) -> Option<Estimate> {
        self.last
    }
}

/// Samples one process: call [`Sampler::step`] every second or so, or at [`Schedule::due`].
#[derive(Debug)]
pub struct Sampler {
    schedule: Schedule,
}

impl Sampler {
    /// A sampler whose first sample begins `now`.
    pub fn new(pace: Pace, now: Nanos) -> Sampler {
        Sampler {
            schedule: Schedule::new(pace, now),
        }
    }

    /// Its schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Does what is due, and returns a new estimate if there is one. Clearing and reading take
    /// 36-80 ms/GiB with 4 KiB pages, so call it from a worker thread for large processes.
    ///
    /// # Errors
    /// [`Error::Gone`]; [`Error::Denied`] for other users' processes.
    pub fn step(&mut self, process: &Process, now: Nanos) -> Result<Option<Estimate>> {
        let begin = crate::clock::thread_cpu();
        let cost = || crate::clock::thread_cpu() - begin;
        match self.schedule.step(now) {
            Step::Wait => Ok(None),
            Step::Clear => match clear(process) {
                Ok(()) => {
                    self.schedule.cleared(now, cost());
                    Ok(None)
                }
                Err(e) => {
                    self.schedule.failed(now);
                    Err(e)
                }
            },
            Step::Read => match smaps::rollup(process) {
                Ok(sums) => {
                    let found = Estimate {
                        referenced: Bytes(sums.referenced),
                        resident: Bytes(sums.rss),
                        window: Nanos::ZERO,
                    };
                    Ok(Some(self.schedule.read(now, cost(), found)))
                }
                Err(e) => {
                    self.schedule.failed(now);
                    Err(e)
                }
            },
        }
    }
}

/// Clears the reference bits of a process. 36 ms/GiB with 4 KiB pages, 0.14 ms/GiB with huge ones;
/// the process sets them again at a small cost.
///
/// # Errors
/// [`Error::Gone`]; [`Error::Denied`] for other users' processes.
pub fn clear(process: &Process) -> Result<()> {
    if !process.alive() {
        return Err(Error::Gone { pid: process.pid() });
    }
    write_text(&place(process.pid(), "clear_refs"), b"1")
}

/// A shared segment as one process maps it. While a process maps pages for the
/// first time, each fault maps 16 pages around it and marks them referenced too. So the referenced
/// share shows a rate only once `rss` no longer grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The same in every process that maps it.
    pub key: FileKey,
    /// Its name, for people.
    pub name: String,
    /// Mapped.
    pub size: Bytes,
    /// Resident through this process's page tables.
    pub rss: Bytes,
    /// Proportional resident size: a page that is mapped n times, here or elsewhere, counts 1/n for
    /// each mapping.
    pub pss: Bytes,
    /// With this process's reference bit set.
    pub referenced: Bytes,
}

/// The shared segments of a process (shared mappings of files, tmpfs, shared anonymous memory).
/// Areas of one segment are summed. Returns at most `max` segments, those with the largest resident
/// size first.
///
/// # Errors
/// As [`smaps::areas`].
pub fn shared_segments(process: &Process, max: usize) -> Result<Vec<Segment>> {
    Ok(segments_of(&smaps::areas(process, MAX_AREAS)?, max))
}

/// Most areas of one process that are looked at.
const MAX_AREAS: usize = 65_536;

/// Sums the shared areas by segment; pure.
pub fn segments_of(areas: &[smaps::Area], max: usize) -> Vec<Segment> {
    let mut shared: Vec<&smaps::Area> = areas
        .iter()
        .filter(|a| a.shared_mapping && a.file.inode != 0 && !a.pinned)
        .collect();
    shared.sort_by_key(|a| a.file);
    let mut segments: Vec<Segment> = Vec::new();
    for area in shared {
        let size = Bytes(area.addresses.end) - Bytes(area.addresses.start);
        match segments.last_mut() {
            Some(last) if last.key == area.file => {
                last.size += size;
                last.rss += Bytes(area.rss);
                last.pss += Bytes(area.pss);
                last.referenced += Bytes(area.referenced);
            }
            _ => segments.push(Segment {
                key: area.file,
                name: area.name.clone(),
                size,
                rss: Bytes(area.rss),
                pss: Bytes(area.pss),
                referenced: Bytes(area.referenced),
            }),
        }
    }
    segments.sort_by_key(|s| std::cmp::Reverse(s.rss));
    segments.truncate(max);
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::SECOND;
    use proptest::prelude::*;

    /// Runs a schedule for an hour; returns the cost and how many samples there were.
    fn run(pace: Pace, cost: Nanos, referenced: impl Fn(u64) -> u64) -> (Nanos, u64) {
        let mut schedule = Schedule::new(pace, Nanos::ZERO);
        let (mut spent, mut samples) = (Nanos::ZERO, 0);
        let mut now = Nanos::ZERO;
        while now < Nanos::seconds(3600) {
            match schedule.step(now) {
                Step::Wait => {
                    assert!(schedule.due() > now);
                    now = schedule.due();
                }
                Step::Clear => {
                    spent += cost;
                    schedule.cleared(now, cost);
                }
                Step::Read => {
                    spent += cost;
                    samples += 1;
                    let found = Estimate {
                        referenced: Bytes(referenced(samples)),
                        resident: Bytes(1 << 30),
                        window: Nanos::ZERO,
                    };
                    let kept = schedule.read(now, cost, found);
                    assert!(kept.window >= pace.window);
                }
            }
        }
        (spent, samples)
    }

    #[test]
    fn idle_and_steady_processes_are_left_in_peace() {
        let pace = Pace::default();
        let (_, idle) = run(pace, Nanos(1000), |_| 0);
        let (_, steady) = run(pace, Nanos(1000), |_| 400 << 20);
        let (_, restless) = run(pace, Nanos(1000), |n| (n % 2) << 29);
        assert!(idle < 20 && steady < 20, "{idle} {steady}");
        assert!(restless > 100, "{restless}");
    }

    #[test]
    fn failures_back_off() {
        let mut schedule = Schedule::new(Pace::default(), Nanos::ZERO);
        let mut times = Vec::new();
        for _ in 0..10 {
            let now = schedule.due();
            times.push(now);
            schedule.failed(now);
        }
        assert!(times[9] - times[8] == Pace::default().longest);
    }

    proptest! {
        #[test]
        fn the_cost_stays_within_its_share(
            cost_ms in 0u64..10_000,
            share in 0.001f64..0.5,
            seed in any::<u64>(),
        ) {
            let pace = Pace { share, ..Pace::default() };
            let bytes = |n: u64| (n.wrapping_mul(seed) >> 34) % (1 << 30);
            let (spent, samples) = run(pace, Nanos::millis(cost_ms), bytes);
            // The last sample's rest after it lies beyond the hour.
            let bound = share * 3600.0 * SECOND as f64 + 2.0 * cost_ms as f64 * 1e6;
            prop_assert!(spent.0 as f64 <= bound * 1.001, "{spent:?} in {samples} samples, bound {bound}");
        }
    }
}
