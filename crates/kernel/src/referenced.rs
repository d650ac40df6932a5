//! Working sets by reference bits: clear them (`clear_refs`), wait, and see which were set again
//! (`smaps_rollup`, `smaps`). Source: kernel document `proc.rst` ("clear_refs"); exact to 0.1 %
//! with 4 KiB pages, 2 MiB granular with huge pages.

use crate::process::{Process, place};
use crate::reader::write_text;
use crate::smaps::{self, FileKey};
use crate::{Error, Result};
use plimsoll_unit::SECOND;

/// How often a process is sampled, and at what cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Time between clearing and reading, ns.
    pub window_ns: u64,
    /// Shortest time from one sample's start to the next, ns.
    pub shortest_ns: u64,
    /// Longest such time, ns; reached by processes that are idle or steady.
    pub longest_ns: u64,
    /// Largest share of one processor that sampling this process may take, 0 to 1.
    pub share: f64,
}

impl Default for Pace {
    /// Window 10 s, a sample every 20 s to 320 s, at most 0.5 % of one processor.
    fn default() -> Pace {
        Pace {
            window_ns: 10 * SECOND,
            shortest_ns: 20 * SECOND,
            longest_ns: 320 * SECOND,
            share: 0.005,
        }
    }
}

/// The result of a sample, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Touched within the window.
    pub referenced: u64,
    /// Resident at its end.
    pub resident: u64,
    /// Length of the window, ns.
    pub window_ns: u64,
}

/// The state of a sampler. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Will clear at this time.
    Clear(u64),
    /// Cleared at this time, at this cost. Will read one window later.
    Read(u64, u64),
}

/// Decides when to clear and when to read; pure.
#[derive(Clone, Debug)]
pub struct Schedule {
    pace: Pace,
    phase: Phase,
    interval_ns: u64,
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
    /// Starts; the first sample begins at `now_ns`.
    pub fn new(pace: Pace, now_ns: u64) -> Schedule {
        Schedule {
            pace,
            phase: Phase::Clear(now_ns),
            interval_ns: pace.shortest_ns,
            last: None,
        }
    }

    /// The step that is due.
    pub fn step(&self, now_ns: u64) -> Step {
        match self.phase {
            Phase::Clear(at) if now_ns >= at => Step::Clear,
            Phase::Read(at, _) if now_ns >= at.saturating_add(self.pace.window_ns) => Step::Read,
            _ => Step::Wait,
        }
    }

    /// When something is due next, ns.
    pub fn due_ns(&self) -> u64 {
        match self.phase {
            Phase::Clear(at) => at,
            Phase::Read(at, _) => at.saturating_add(self.pace.window_ns),
        }
    }

    /// Notes that the bits were cleared, and the processor time that it took, ns.
    pub fn cleared(&mut self, now_ns: u64, cost_ns: u64) {
        self.phase = Phase::Read(now_ns, cost_ns);
    }

    /// Notes that the bits were read, and the processor time that it took, ns. The interval doubles
    /// if the process was idle or unchanged (within 1/16), and returns to the shortest if it
    /// changed. It is never so short that the cost exceeds its share.
    pub fn read(&mut self, now_ns: u64, cost_ns: u64, mut found: Estimate) -> Estimate {
        let (started, spent) = match self.phase {
            Phase::Read(at, cost) => (at, cost.saturating_add(cost_ns)),
            Phase::Clear(_) => (now_ns, cost_ns),
        };
        found.window_ns = now_ns.saturating_sub(started);
        let steady = self.last.is_some_and(|last| {
            last.referenced.abs_diff(found.referenced) <= last.referenced.max(found.resident) / 16
        });
        let idle = found.referenced <= found.resident / 64;
        self.interval_ns = if steady || idle {
            self.interval_ns.saturating_mul(2)
        } else {
            self.pace.shortest_ns
        };
        let affordable = if self.pace.share > 0.0 {
            (spent as f64 / self.pace.share) as u64
        } else {
            self.pace.longest_ns
        };
        self.interval_ns = self.interval_ns.clamp(
            self.pace.shortest_ns,
            self.pace.longest_ns.max(self.pace.shortest_ns),
        );
        let next = started
            .saturating_add(self.interval_ns.max(affordable))
            .max(now_ns);
        self.phase = Phase::Clear(next);
        self.last = Some(found);
        found
    }

    /// Notes that reading the process failed. Tries again after the present interval.
    pub fn failed(&mut self, now_ns: u64) {
        self.interval_ns = self
            .interval_ns
            .saturating_mul(2)
            .min(self.pace.longest_ns.max(self.pace.shortest_ns));
        self.phase = Phase::Clear(now_ns.saturating_add(self.interval_ns));
    }

    /// The last sample.
    pub fn last(&self) -> Option<Estimate> {
        self.last
    }
}

/// Samples one process: call [`Sampler::step`] every second or so, or at [`Schedule::due_ns`].
#[derive(Debug)]
pub struct Sampler {
    schedule: Schedule,
}

impl Sampler {
    /// A sampler whose first sample begins at `now_ns`.
    pub fn new(pace: Pace, now_ns: u64) -> Sampler {
        Sampler {
            schedule: Schedule::new(pace, now_ns),
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
    pub fn step(&mut self, process: &Process, now_ns: u64) -> Result<Option<Estimate>> {
        let begin = crate::clock::thread_cpu().0;
        let cost = || crate::clock::thread_cpu().0.saturating_sub(begin);
        match self.schedule.step(now_ns) {
            Step::Wait => Ok(None),
            Step::Clear => match clear(process) {
                Ok(()) => {
                    self.schedule.cleared(now_ns, cost());
                    Ok(None)
                }
                Err(e) => {
                    self.schedule.failed(now_ns);
                    Err(e)
                }
            },
            Step::Read => match smaps::rollup(process) {
                Ok(sums) => {
                    let found = Estimate {
                        referenced: sums.referenced,
                        resident: sums.rss,
                        window_ns: 0,
                    };
                    Ok(Some(self.schedule.read(now_ns, cost(), found)))
                }
                Err(e) => {
                    self.schedule.failed(now_ns);
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

/// A shared segment as one process maps it. Sizes in bytes. While a process maps pages for the
/// first time, each fault maps 16 pages around it and marks them referenced too. So the referenced
/// share shows a rate only once `rss` no longer grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The same in every process that maps it.
    pub key: FileKey,
    /// Its name, for people.
    pub name: String,
    /// Mapped.
    pub size: u64,
    /// Resident through this process's page tables.
    pub rss: u64,
    /// Proportional resident size: a page that is mapped n times, here or elsewhere, counts 1/n for
    /// each mapping.
    pub pss: u64,
    /// With this process's reference bit set.
    pub referenced: u64,
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
        let size = area.addresses.end.saturating_sub(area.addresses.start);
        match segments.last_mut() {
            Some(last) if last.key == area.file => {
                last.size = last.size.saturating_add(size);
                last.rss = last.rss.saturating_add(area.rss);
                last.pss = last.pss.saturating_add(area.pss);
                last.referenced = last.referenced.saturating_add(area.referenced);
            }
            _ => segments.push(Segment {
                key: area.file,
                name: area.name.clone(),
                size,
                rss: area.rss,
                pss: area.pss,
                referenced: area.referenced,
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
    use proptest::prelude::*;

    /// Runs a schedule for an hour; returns the cost and how many samples there were.
    fn run(pace: Pace, cost_ns: u64, referenced: impl Fn(u64) -> u64) -> (u64, u64) {
        let mut schedule = Schedule::new(pace, 0);
        let (mut spent, mut samples) = (0, 0);
        let mut now = 0;
        while now < 3600 * SECOND {
            match schedule.step(now) {
                Step::Wait => {
                    assert!(schedule.due_ns() > now);
                    now = schedule.due_ns();
                }
                Step::Clear => {
                    spent += cost_ns;
                    schedule.cleared(now, cost_ns);
                }
                Step::Read => {
                    spent += cost_ns;
                    samples += 1;
                    let found = Estimate {
                        referenced: referenced(samples),
                        resident: 1 << 30,
                        window_ns: 0,
                    };
                    let kept = schedule.read(now, cost_ns, found);
                    assert!(kept.window_ns >= pace.window_ns);
                }
            }
        }
        (spent, samples)
    }

    #[test]
    fn idle_and_steady_processes_are_left_in_peace() {
        let pace = Pace::default();
        let (_, idle) = run(pace, 1000, |_| 0);
        let (_, steady) = run(pace, 1000, |_| 400 << 20);
        let (_, restless) = run(pace, 1000, |n| (n % 2) << 29);
        assert!(idle < 20 && steady < 20, "{idle} {steady}");
        assert!(restless > 100, "{restless}");
    }

    #[test]
    fn failures_back_off() {
        let mut schedule = Schedule::new(Pace::default(), 0);
        let mut times = Vec::new();
        for _ in 0..10 {
            let now = schedule.due_ns();
            times.push(now);
            schedule.failed(now);
        }
        assert!(times[9] - times[8] == Pace::default().longest_ns);
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
            let (spent, samples) = run(pace, cost_ms * 1_000_000, bytes);
            // The last sample's rest after it lies beyond the hour.
            let bound = share * 3600.0 * SECOND as f64 + 2.0 * cost_ms as f64 * 1e6;
            prop_assert!(spent as f64 <= bound * 1.001, "{} in {} samples, bound {}", spent, samples, bound);
        }
    }
}
