//! Traces: samples of a run, and the ends of its programs.

/// One program at one time. Sizes are in bytes; counts are since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Whether it runs.
    pub alive: bool,
    /// Resident anonymous and shared memory of it and its descendants.
    pub uses: u64,
    /// Memory of it that is in swap.
    pub swapped: u64,
    /// Major faults.
    pub major_faults: u64,
    /// Allocation stalls of the processes that run now; 0 if the kernel does not count them.
    pub stalls: u64,
    /// Number of collections; 0 if its runtime does not count them.
    pub collections: u64,
    /// Time of these collections, nanoseconds.
    pub collection_ns: u64,
    /// Processor time, clock ticks (10 ms each), user and system.
    pub processor_ticks: u64,
    /// Work that it says it has done, in its own unit.
    pub work: f64,
}

/// One sample: all programs, the cgroup and the broker at one time.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// When it was taken, in seconds since the run began.
    pub at: f64,
    /// The programs, in the order of the scenario.
    pub programs: Vec<Seen>,
    /// Bytes used in the cgroup that cannot be dropped for free.
    pub used: u64,
    /// Bytes of the cgroup in swap.
    pub swapped: u64,
    /// Pages swapped in and out on the machine since the run began.
    pub swap_traffic: u64,
    /// Times that the cgroup hit its limit since the run began.
    pub limit_hits: u64,
    /// Bytes that the broker shares out, 0 without one.
    pub budget: u64,
    /// Limits that the broker gave, bytes, in the order of the scenario; 0 without one.
    pub limits: Vec<u64>,
    /// Processor time so far of the broker and of each `plimsoll run`, ns; 0 without a broker.
    pub ours_ns: u64,
    /// Processor time that a fixed piece of work took, ns. It is longer on a slower machine.
    pub yardstick_ns: f64,
}

/// How a program ended.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// Whether it was killed by a signal that the harness did not send.
    pub killed: bool,
    /// Its exit status or the signal that ended it, as text.
    pub how: String,
    /// The last lines that it wrote.
    pub output: Vec<String>,
}

/// The trace of a whole run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The samples, in the order of time.
    pub samples: Vec<Sample>,
    /// How the programs ended, in the order of the scenario.
    pub endings: Vec<Ending>,
}

impl Trace {
    /// The last sample at or before `seconds`.
    pub fn at(&self, seconds: f64) -> Option<&Sample> {
        self.samples
            .iter()
            .take_while(|sample| sample.at <= seconds)
            .last()
    }

    /// The samples in `[from, to)`.
    pub fn between(&self, from: f64, to: f64) -> impl Iterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(move |sample| sample.at >= from && sample.at < to)
    }

    /// Mean time of the fixed piece of work in `[from, to)`, ns.
    pub fn yardstick_ns(&self, from: f64, to: f64) -> f64 {
        let (count, sum) = self
            .between(from, to)
            .fold((0.0, 0.0), |(n, sum), s| (n + 1.0, sum + s.yardstick_ns));
        sum / f64::max(count, 1.0)
    }

    /// Processor time per second that the broker and each `plimsoll run` took from `from` to the end of the
    /// run: 1 means a whole processor.
    pub fn ours(&self, from: f64) -> f64 {
        let ends = self.at(from).zip(self.samples.last());
        ends.map_or(0.0, |(first, last)| {
            let ns = last.ours_ns.saturating_sub(first.ours_ns);
            ns as f64 / 1e9 / (last.at - first.at).max(1e-9)
        })
    }

    /// Work that program `index` did in `[from, to]`.
    pub fn work(&self, index: usize, from: f64, to: f64) -> f64 {
        let at = |seconds| {
            self.at(seconds)
                .and_then(|s| s.programs.get(index))
                .map_or(0.0, |p| p.work)
        };
        at(to) - at(from)
    }

    /// The largest value of a counter of program `index` (counters only grow while it lives).
    pub fn count(&self, index: usize, counter: impl Fn(&Seen) -> u64) -> u64 {
        self.samples
            .iter()
            .filter_map(|s| s.programs.get(index))
            .map(counter)
            .max()
            .unwrap_or(0)
    }
}
