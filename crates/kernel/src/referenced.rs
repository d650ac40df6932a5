//! Working sets by reference bits: clear them (`clear_refs`), wait, and see which were set again
//! (`smaps_rollup`, `smaps`). Source: kernel document `proc.rst` ("clear_refs"); exact to 0.1 %
//! with 4 KiB pages, 2 MiB granular with huge pages.

use crate::mounts::Mounts;
use crate::process::{Process, place};
use crate::reader::write_text;
use crate::smaps::{self, Area, FileKey};
use crate::{Error, Result};
use plimsoll_unit::{Bytes, Nanos};
use std::cell::OnceCell;

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
    /// Cleared; will read at `due`.
    Read {
        since: Nanos,
        due: Nanos,
        /// Processor time so far.
        cost: Nanos,
        /// The middle of the window is past, or nobody wants to look there.
        halved: bool,
    },
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
    /// The window is half over. Nothing, or read them without clearing and call [`Schedule::halfway`].
    Half,
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
            Phase::Read { due, .. } if now >= due => Step::Read,
            Phase::Read {
                since,
                halved: false,
                ..
            } if now >= since + self.pace.window / 2 => Step::Half,
            _ => Step::Wait,
        }
    }

    /// When the next step is due that must not be left out.
    pub fn due(&self) -> Nanos {
        match self.phase {
            Phase::Clear(at) => at,
            Phase::Read { due, .. } => due,
        }
    }

    /// Notes that the bits were cleared, and the processor time that it took.
    pub fn cleared(&mut self, now: Nanos, cost: Nanos) {
        self.phase = Phase::Read {
            since: now,
            due: now + self.pace.window,
            cost,
            halved: false,
        };
    }

    /// Notes that the bits were read in the middle of the window, and the processor time that it took. The
    /// second half lasts at least as long as the first.
    pub fn halfway(&mut self, now: Nanos, took: Nanos) {
        if let Phase::Read {
            since,
            due,
            cost,
            halved,
        } = &mut self.phase
        {
            *due = (*due).max(now + (now - *since));
            *cost += took;
            *halved = true;
        }
    }

    /// Notes that nobody looks in the middle of this window.
    fn undivided(&mut self) {
        if let Phase::Read { halved, .. } = &mut self.phase {
            *halved = true;
        }
    }

    /// Notes that the bits were read, and the processor time that it took. The interval doubles
    /// if the process was idle or unchanged (within 1/16), and returns to the shortest if it
    /// changed. It is never so short that the cost exceeds its share.
    pub fn read(&mut self, now: Nanos, cost: Nanos, mut found: Estimate) -> Estimate {
        let (started, spent) = match self.phase {
            Phase::Read {
                since, cost: spent, ..
            } => (since, spent + cost),
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
        self.step_by(process, now, &mut |step| match step {
            Step::Read => smaps::rollup(process).map(|sums| {
                Some(Estimate {
                    referenced: Bytes(sums.referenced),
                    resident: Bytes(sums.rss),
                    window: Nanos::ZERO,
                })
            }),
            _ => Ok(None),
        })
    }

    /// As [`Sampler::step`], with another way to read the bits: `read` is called with [`Step::Read`], and
    /// before that with [`Step::Half`], where `None` says that it did not read.
    ///
    /// # Errors
    /// [`Error::Gone`]; [`Error::Denied`] for other users' processes; those of the last `read`.
    pub fn step_by(
        &mut self,
        process: &Process,
        now: Nanos,
        read: &mut dyn FnMut(Step) -> Result<Option<Estimate>>,
    ) -> Result<Option<Estimate>> {
        let begin = crate::clock::thread_cpu();
        let cost = || crate::clock::thread_cpu() - begin;
        let step = self.schedule.step(now);
        match step {
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
            Step::Half => {
                match read(step) {
                    Ok(Some(_)) => self.schedule.halfway(now, cost()),
                    // The window goes on without a middle.
                    Ok(None) | Err(_) => self.schedule.undivided(),
                }
                Ok(None)
            }
            Step::Read => match read(step) {
                Ok(found) => {
                    let found = found.unwrap_or_default();
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

/// Whether the kernel notes which pages are used: clears our own bits, and looks whether pages that we use
/// then count as used. User-mode Linux 6.1 leaves them mapped, and sees no further use.
///
/// # Errors
/// As [`clear`] and [`smaps::areas`].
pub fn is_noted() -> Result<bool> {
    /// Bytes of our own that are used for the trial.
    const TRIED: usize = 1 << 20;
    let own = Process::own()?;
    let mut block = vec![0_u8; TRIED];
    let mut touch = |value| {
        for page in block.chunks_mut(512) {
            page[0] = std::hint::black_box(value);
        }
        block.as_ptr() as u64 + TRIED as u64 / 2
    };
    touch(1);
    clear(&own)?;
    let at = touch(2);
    let areas = smaps::areas(&own, usize::MAX)?;
    let ours = areas.iter().find(|area| area.addresses.contains(&at));
    Ok(ours.is_some_and(|area| area.referenced >= TRIED as u64 / 2))
}

/// A segment as one process maps it: a file, or shared memory. While a process maps pages for the
/// first time, each fault maps 16 pages around it and marks them referenced too. So the referenced
/// share shows a rate only once `rss` no longer grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// Memory that a process may share with others, by segment; the largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Shared mappings of memory: tmpfs, memfd, shared anonymous memory.
    pub memory: Vec<Segment>,
    /// Pages of files on all other file systems, in shared and in private mappings. Pages that a process
    /// wrote to in a private mapping are its own, and not among them.
    pub files: Vec<Segment>,
    /// Sums of the whole process.
    pub whole: Estimate,
}

/// The segments of a process, at most `max` of each kind. Areas of one segment are summed. Asks no file
/// system: which devices keep files in memory is told by the list of mounts.
///
/// # Errors
/// As [`smaps::areas`].
pub fn segments(process: &Process, max: usize) -> Result<Segments> {
    let areas = smaps::areas(process, MAX_AREAS)?;
    let mounts = OnceCell::new();
    // File systems on a disk have a major number.
    let is_file = |key: FileKey| {
        key.major != 0
            || mounts
                .get_or_init(|| Mounts::of(process).unwrap_or_default())
                .has_file_pages((key.major, key.minor))
    };
    Ok(segments_of(&areas, &is_file, max))
}

/// Most areas of one process that are looked at.
const MAX_AREAS: usize = 65_536;

/// Sums areas by segment; pure. `is_file`: whether the pages of a mapped file are file pages, not memory.
pub fn segments_of(areas: &[Area], is_file: &dyn Fn(FileKey) -> bool, max: usize) -> Segments {
    let (mut memory, mut files) = (Vec::new(), Vec::new());
    let mut whole = Estimate::default();
    for area in areas {
        whole.referenced += Bytes(area.referenced);
        whole.resident += Bytes(area.rss);
        if area.file.inode == 0 || area.pinned {
            continue;
        }
        if is_file(area.file) {
            files.extend((area.rss > area.anonymous).then_some(area));
        } else if area.shared_mapping {
            memory.push(area);
        }
    }
    Segments {
        memory: summed(memory, max),
        files: summed(files, max),
        whole,
    }
}

fn summed(mut areas: Vec<&Area>, max: usize) -> Vec<Segment> {
    areas.sort_by_key(|area| area.file);
    let mut segments: Vec<Segment> = Vec::new();
    for area in areas {
        // In a private mapping of a file, pages that were written to are anonymous memory.
        let shared = |bytes| Bytes(bytes) - Bytes(area.anonymous);
        if segments.last().is_none_or(|last| last.key != area.file) {
            segments.push(Segment {
                key: area.file,
                name: area.name.clone(),
                ..Segment::default()
            });
        }
        if let Some(last) = segments.last_mut() {
            last.size += Bytes(area.size());
            last.rss += shared(area.rss);
            last.pss += shared(area.pss);
            last.referenced += shared(area.referenced);
        }
    }
    segments.sort_by_key(|segment| std::cmp::Reverse(segment.rss));
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
                Step::Half => {
                    spent += cost;
                    schedule.halfway(now, cost);
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
    fn the_second_half_of_a_window_is_no_shorter_than_the_first() {
        let second = Nanos::seconds;
        let mut schedule = Schedule::new(Pace::default(), Nanos::ZERO);
        schedule.cleared(second(1), Nanos::ZERO);
        assert_eq!(schedule.step(second(5)), Step::Wait);
        assert_eq!(schedule.step(second(8)), Step::Half);
        schedule.halfway(second(8), second(1));
        assert_eq!(schedule.step(second(14)), Step::Wait);
        assert_eq!(schedule.step(second(15)), Step::Read);
        let found = schedule.read(second(15), Nanos::ZERO, Estimate::default());
        assert_eq!(found.window, second(14));
        assert_eq!(schedule.due(), second(201), "it costs a second in 200");
        // A reader that does not look in the middle is not held up.
        schedule.cleared(second(20), Nanos::ZERO);
        assert_eq!(schedule.step(second(26)), Step::Half);
        schedule.undivided();
        assert_eq!(schedule.step(second(29)), Step::Wait);
        assert_eq!(schedule.step(second(30)), Step::Read);
        let mut late = Schedule::new(Pace::default(), Nanos::ZERO);
        late.halfway(second(9), Nanos::ZERO);
        assert_eq!(late.step(second(9)), Step::Clear, "nothing was cleared");
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
