//! The samples of principals, and the exchange of the deciding thread and the sampling thread.

use super::file_window::FileWindow;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::referenced;
use plimsoll_kernel::sched::Ran;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::Id;
use std::collections::HashMap;

/// A process with less memory than this is not sampled.
pub(crate) const WORTHWHILE: Bytes = Bytes::mib(8);

/// A principal to be sampled.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The principal.
    pub id: Id,
    /// Process id and start time of each of its processes.
    pub processes: Vec<(i32, u64)>,
    /// Sum of their resident shared memory.
    pub shmem: Bytes,
}

/// Results for a principal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Memory touched recently.
    pub working_set: Option<Bytes>,
    /// Processor time that it wanted lately, in thousandths of that in which it ran; 0 when unknown.
    pub wanted: u32,
    /// Shared memory that it pays for.
    pub shared: Option<Portion>,
    /// Pages of files that it pays for.
    pub files: Bytes,
}

/// A principal's part of the shared memory that its processes map. It is scaled when that
/// memory grows or shrinks, until it is measured again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Portion {
    /// The memory that it pays
    pub pays: Bytes,
    /// when the sum over its processes was this much; a page counts in each mapping.
    pub of: Bytes,
    /// Whether no other principal maps any of it.
    pub alone: bool,
}

impl Portion {
    /// The memory that it pays when the sum over its processes is `sum`.
    #[must_use]
    pub fn now(self, sum: Bytes) -> Bytes {
        self.pays.part(sum.0, self.of.0.max(1)).min(sum)
    }
}

/// Whether shared memory changed enough to be measured again.
pub(crate) fn changed(before: Bytes, now: Bytes) -> bool {
    before.max(now) - before.min(now) > (before / 8).max(WORTHWHILE)
}

/// State that the deciding thread and the sampling thread exchange.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// The principals to sample. Set by the deciding thread.
    pub(super) subjects: Vec<Subject>,
    /// The results. Set by the sampling thread.
    pub(super) found: HashMap<Id, Sampled>,
    /// `subjects` were set and the sampling thread has not taken them over yet.
    pub(super) fresh: bool,
    /// Shared memory changed a lot: the sampling thread must not sleep.
    pub(super) hurry: bool,
    /// There are results about shared memory that the deciding thread should take soon. Set by the sampling
    /// thread, cleared by the deciding one.
    pub(super) news: bool,
}

/// A sampled process. Belongs to the sampling thread.
#[derive(Debug)]
pub(super) struct Probe {
    /// The process.
    pub(super) process: Process,
    /// Its schedule and its estimate.
    pub(super) sampler: referenced::Sampler,
    /// Its reference bits were cleared for a working set and will be read; nothing else may clear
    /// them.
    pub(super) in_window: bool,
    /// The files that it uses, by the windows of its working set.
    pub(super) files: FileWindow,
    /// Working set as estimated last; `None` before the first estimate.
    pub(super) touched: Option<Bytes>,
    /// Processor time of its threads at the last look, and when that was (monotonic); `None` if
    /// not all were read.
    pub(super) ran: Option<(Ran, Nanos)>,
    /// Between the last two looks.
    pub(super) lately: Option<Lately>,
}

/// Processor time of the threads of a process in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lately {
    /// The time in which they ran.
    pub(super) ran: Nanos,
    /// The time in which they waited for others to leave a processor.
    pub(super) waited: Nanos,
    /// The time that passed.
    pub(super) passed: Nanos,
}

impl Probe {
    /// Takes in what its threads used so far, and when that was read (monotonic); `None` if not
    /// all were read. On as many `processors` as it may use.
    pub(super) fn note(&mut self, now: Option<(Ran, Nanos)>, processors: usize) {
        let before = std::mem::replace(&mut self.ran, now);
        self.lately = before.zip(now).and_then(|(before, now)| {
            let ran = Nanos(now.0.ran.0.checked_sub(before.0.ran.0)?);
            let waited = Nanos(now.0.waited.0.checked_sub(before.0.waited.0)?);
            // Threads that wait for others of the same program could not run if it were alone.
            let passed = now.1 - before.1;
            let all = passed * processors as u64;
            Some(Lately {
                ran,
                waited: waited.min(all - ran),
                passed,
            })
        });
    }
}

/// Processor time that threads would get if they never waited for a processor, in thousandths of that in
/// which they ran; 0 if they hardly ran. `lately`: of each process.
///
/// A thread that always computes gets the time for which it waited. One that also sleeps, since its work
/// comes from outside, only does the same work sooner. So the threads of a process that run and wait for less
/// than the time that passed count as one that sleeps for the rest.
pub(super) fn wanted(lately: impl Iterator<Item = Lately>) -> u32 {
    /// A program that ran less than this says nothing about how it runs.
    const HARDLY: Nanos = Nanos::millis(20);
    let (mut ran, mut waited, mut all) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
    for one in lately {
        ran += one.ran;
        waited += one.waited;
        all += (one.ran + one.waited).max(one.passed);
    }
    if ran < HARDLY {
        return 0;
    }
    let without = (all - waited).max(Nanos(1));
    u32::try_from(u128::from(all.0) * 1000 / u128::from(without.0)).unwrap_or(u32::MAX)
}

/// Sampled processes by process id and start time.
pub(super) type Probes = HashMap<(i32, u64), Probe>;

/// The sampled processes of a principal.
pub(super) fn probes_of<'a>(
    subject: &'a Subject,
    probes: &'a Probes,
) -> impl Iterator<Item = &'a Probe> {
    let keys = subject.processes.iter();
    keys.filter_map(move |key| probes.get(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::Nanos;

    /// The program has 64 threads, and two processors that nobody else uses.
    #[test]
    fn threads_that_wait_for_those_of_their_own_program_want_no_more() {
        let at = |seconds: u64, ran: u64, waited: u64| {
            let ran = Ran {
                ran: Nanos(ran * 1_000_000_000),
                waited: Nanos(waited * 1_000_000_000),
                ..Ran::default()
            };
            Some((ran, Nanos::seconds(seconds)))
        };
        let process = Process::own().expect("this process");
        let mut probe = Probe {
            sampler: referenced::Sampler::new(referenced::Pace::default(), Nanos::ZERO),
            process,
            in_window: false,
            files: FileWindow::default(),
            touched: None,
            ran: None,
            lately: None,
        };
        probe.note(at(10, 0, 0), 2);
        probe.note(at(12, 4, 124), 2);
        assert_eq!(wanted(probe.lately.into_iter()), 1000);
        probe.note(at(14, 5, 130), 2);
        assert_eq!(wanted(probe.lately.into_iter()), 4000);
    }

    #[test]
    fn who_waits_for_a_processor_wants_more_than_it_gets() {
        let in_2_s = |ran: u64, waited: u64| Lately {
            ran: Nanos::millis(ran),
            waited: Nanos::millis(waited),
            passed: Nanos::seconds(2),
        };
        assert_eq!(wanted([in_2_s(500, 1500)].into_iter()), 4000);
        let several = [in_2_s(1500, 1500), in_2_s(100, 0)];
        assert_eq!(wanted(several.into_iter()), 1428);
        assert_eq!(
            wanted([in_2_s(100, 400)].into_iter()),
            1250,
            "it sleeps between its requests"
        );
        assert_eq!(wanted([in_2_s(10, 900)].into_iter()), 0, "it hardly ran");
        assert_eq!(wanted(std::iter::empty()), 0);
    }
}
