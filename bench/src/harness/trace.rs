//! What was seen in a run.

/// One program at one moment. Bytes; counts since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Runs.
    pub alive: bool,
    /// Resident anonymous and shared memory of it and its descendants.
    pub uses: u64,
    /// Of it in swap.
    pub swapped: u64,
    /// Major faults.
    pub major_faults: u64,
    /// Allocation stalls of the processes that run now, where the kernel counts them.
    pub stalls: u64,
    /// Collections, and nanoseconds in them, where its runtime counts them.
    pub collections: u64,
    /// See above.
    pub collection_ns: u64,
    /// Processor time, clock ticks (10 ms each), user and system.
    pub processor_ticks: u64,
    /// What it said it has done.
    pub work: f64,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Seconds into the run.
    pub at: f64,
    /// In the order of the scenario.
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
    /// Processor time so far of the broker and of what runs beside the programs, ns; 0 without a broker.
    pub ours_ns: u64,
    /// Processor time that a fixed piece of work took, ns: more on a slower machine.
    pub yardstick_ns: f64,
}

/// How a program ended.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// Killed by a signal that the harness did not send.
    pub killed: bool,
    /// Exit status or signal, as text.
    pub how: String,
    /// The lines that it wrote, the last ones.
    pub output: Vec<String>,
}

/// A whole run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In order.
    pub samples: Vec<Sample>,
    /// In the order of the scenario.
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

    /// Processors that the broker and what runs beside the programs took from `from` to the end, 1
    /// for a whole one.
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
