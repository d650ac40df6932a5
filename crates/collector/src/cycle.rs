//! Clocks and counters of one collection.

use libc::rusage;
use plimsoll_heap::mark::Marking;
use plimsoll_heap::{Residency, SweepStatistics};
use std::fmt;
use std::time::{Duration, Instant};

/// Up to this many major faults in a pause may have other causes: code, a stack.
const FEW: i64 = 4;

/// The reason for a collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The heap is at its limit.
    Allocation,
    /// The heap is at its limit although there was a collection of young objects.
    Young,
    /// The heap is at its limit although there was a collection of any kind.
    Lack,
    /// Many finalizers or links are new, and the heap or their table would grow.
    Crowd,
    /// The program asked for a collection.
    Asked,
    /// The program asked for the beginning of a collection.
    Begun,
    /// A broker's limit fell.
    Limit,
}

/// Clocks and counters of one collection. Faults are counted for the whole process.
pub struct Cycle {
    pub(crate) why: Why,
    /// `begin`: when the current step began. `stopped`: when the world was last stopped.
    begin: Instant,
    stopped: Instant,
    /// `pause`: the longest pause so far. `before`: the time that earlier steps took.
    pause: Duration,
    before: Duration,
    /// The total time for which the world was stopped, over all steps. `roots`: for the roots, of that.
    still: Duration,
    roots: Duration,
    /// The time of the last stop that is not spent marking: until all threads stood still, and for the
    /// roots.
    overhead: Duration,
    steps: u32,
    /// Major faults. `faults`: during a step, the process's count when the collection began, plus
    /// the faults between its steps; the difference to the current count is the number during the
    /// steps. `before_pause`: the process's count when the world was last stopped. `in_pause`:
    /// during the last pause.
    faults: i64,
    before_pause: i64,
    in_pause: i64,
}

/// Major faults of this process since its start.
fn major_faults() -> i64 {
    // SAFETY: fills the structure in.
    unsafe {
        let mut usage: rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_majflt
    }
}

impl Cycle {
    /// Begins a collection.
    #[must_use]
    pub fn begin(why: Why) -> Cycle {
        let now = Instant::now();
        Cycle {
            why,
            begin: now,
            stopped: now,
            pause: Duration::ZERO,
            before: Duration::ZERO,
            still: Duration::ZERO,
            roots: Duration::ZERO,
            overhead: Duration::ZERO,
            steps: 1,
            faults: major_faults(),
            before_pause: 0,
            in_pause: 0,
        }
    }

    /// Whether marking had to read from swap.
    pub(crate) fn pages(&self) -> bool {
        self.in_pause > FEW
    }

    /// Notes the end of a step that is not the last.
    pub(crate) fn suspend(&mut self) {
        self.before += self.begin.elapsed();
        self.faults -= major_faults();
    }

    /// Notes the beginning of the next step.
    pub(crate) fn resume(&mut self) {
        self.begin = Instant::now();
        self.steps += 1;
        self.faults += major_faults();
    }

    pub(crate) fn was_in_steps(&self) -> bool {
        self.steps > 1
    }

    /// Notes that the world has been stopped since `stopped`, which was begun at `begun`.
    pub(crate) fn stopped(&mut self, begun: Instant, stopped: Instant) {
        self.stopped = stopped;
        self.overhead = stopped.saturating_duration_since(begun);
        self.before_pause = major_faults();
    }

    /// Notes that the roots were read since `begun`.
    pub(crate) fn read_roots(&mut self, begun: Instant) {
        let roots = begun.elapsed();
        self.roots += roots;
        self.overhead += roots;
    }

    /// The time that the last stop took without marking.
    pub(crate) fn overhead(&self) -> Duration {
        self.overhead
    }

    /// When a step with this time limit ends, if it has just stopped the world.
    pub(crate) fn until(&self, time: Duration) -> Instant {
        self.stopped + time
    }

    /// The collection's duration so far.
    pub(crate) fn so_far(&self) -> Duration {
        self.before + self.begin.elapsed()
    }

    pub(crate) fn started(&mut self) {
        let pause = self.stopped.elapsed();
        self.pause = self.pause.max(pause);
        self.still += pause;
        self.in_pause = major_faults() - self.before_pause;
    }

    /// The collection's record, at its end.
    pub(crate) fn record(&self, work: Work) -> Record {
        Record {
            why: self.why,
            steps: self.steps,
            pause: self.pause,
            still: self.still,
            roots: self.roots,
            whole: self.so_far(),
            faults: major_faults() - self.faults,
            work,
        }
    }
}

/// The superpages that the end of a collection moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settled {
    /// Superpages given back to the kernel.
    pub given: usize,
    /// Superpages paged out.
    pub paged_out: usize,
}

/// The work of one collection.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The objects that it found.
    pub swept: SweepStatistics,
    /// The state of the heap's pages when it began.
    pub residency: Residency,
    /// The marking.
    pub marking: Marking,
    /// It was of young objects only.
    pub young: bool,
    /// Its effect on the heap's memory.
    pub settled: Settled,
    /// The heap's size in bytes after it.
    pub size: usize,
    /// Bytes of summaries after it.
    pub summaries: usize,
}

/// The record of one collection.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its reason.
    pub why: Why,
    /// Its pauses; more than one if it was incremental.
    pub steps: u32,
    /// The longest pause.
    pub pause: Duration,
    /// The sum of all pauses.
    pub still: Duration,
    /// The part of it in which roots were read.
    pub roots: Duration,
    /// The duration of all pauses and of the work outside of them.
    pub whole: Duration,
    /// Major faults of the process meanwhile.
    pub faults: i64,
    /// The work.
    pub work: Work,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work {
            swept,
            residency,
            marking,
            young,
            settled,
            summaries,
            ..
        } = &self.work;
        let why = match self.why {
            Why::Allocation => "heap full",
            Why::Young | Why::Lack => "no room",
            Why::Crowd => "many finalizers",
            Why::Asked | Why::Begun => "asked for",
            Why::Limit => "limit fell",
        };
        let steps = match self.steps {
            1 => String::new(),
            steps => format!("in {steps} steps, "),
        };
        write!(
            f,
            "{}{steps}{why}; pause {} us, whole {} us, {} major faults; live {} KiB in {} objects \
             ({} handed over, {} overflows); {} superpages absent, {} read, {} summaries held, {} dropped, \
             {} made in {} KiB; freed {} superpages, gave back {}, paged out {}",
            if *young { "young, " } else { "" },
            self.pause.as_micros(),
            self.whole.as_micros(),
            self.faults,
            swept.live.0 >> 10,
            swept.objects,
            marking.shared,
            marking.overflows,
            residency.absent,
            marking.read,
            marking.replayed,
            residency.dropped,
            marking.summarised,
            summaries >> 10,
            swept.freed,
            settled.given,
            settled.paged_out,
        )
    }
}
