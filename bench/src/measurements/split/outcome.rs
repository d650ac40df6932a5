//! The outcomes of runs of two programs.

use crate::harness::trace::Trace;
use crate::report::results::Results;
use crate::report::statistics::spread;
use serde::{Deserialize, Serialize};

/// Iterations of a burst and seconds of the rest after it.
pub(super) const BURST: u32 = 600;
pub(super) const REST: u32 = 10;

/// The outcome of one run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Work per second of each program.
    pub(super) rates: [f64; 2],
    pub(super) faults: f64,
    /// Number of programs that died, ran out of memory or did not finish.
    pub(super) failed: usize,
}

impl Outcome {
    pub(super) fn of(trace: &Trace, seconds: f64, bursts: Option<u32>) -> Outcome {
        let faults = [0, 1].map(|i| trace.count(i, |p| p.major_faults));
        let last = trace.samples.last();
        let short = |line: &String| line.contains("OutOfMemoryError");
        let failed = (0..2).filter(|i| {
            let died = last.is_none_or(|s| !s.programs[*i].alive);
            let done = last.map_or(0.0, |s| s.programs[*i].work);
            let unfinished = bursts.is_some_and(|bursts| done < goal(bursts));
            died || unfinished || trace.endings[*i].output.iter().any(short)
        });
        Outcome {
            rates: [0, 1].map(|i| rate(trace, i, seconds, bursts)),
            faults: (faults[0] + faults[1]) as f64,
            failed: failed.count(),
        }
    }
}

/// The outcomes of the runs of one variant.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes(pub(super) Vec<Outcome>);

impl Outcomes {
    fn median(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        spread(&self.0.iter().map(of).collect::<Vec<_>>()).median
    }

    /// The median of one program's rates.
    pub(super) fn rate(&self, index: usize) -> f64 {
        self.median(|run| run.rates[index])
    }

    /// The sum of both programs' rates relative to `reference`, for each run.
    pub(super) fn throughputs(&self, reference: [f64; 2]) -> Vec<f64> {
        let sum = |run: &Outcome| run.rates[0] / reference[0] + run.rates[1] / reference[1];
        self.0.iter().map(sum).collect()
    }

    pub(super) fn note(
        &self,
        demand: &str,
        variant: &str,
        reference: [f64; 2],
        results: &mut Results,
    ) {
        let throughput = spread(&self.throughputs(reference));
        results.row([
            demand.into(),
            variant.into(),
            self.rate(0).into(),
            self.rate(1).into(),
            throughput.min.into(),
            throughput.median.into(),
            throughput.max.into(),
            self.median(|run| run.faults).into(),
            (self.0.iter().map(|run| run.failed).sum::<usize>() as u64).into(),
        ]);
    }
}

/// The work that this number of bursts amounts to.
pub(super) fn goal(bursts: u32) -> f64 {
    f64::from(bursts * BURST)
}

/// Work per second of a program while it did not rest.
fn rate(trace: &Trace, index: usize, seconds: f64, bursts: Option<u32>) -> f64 {
    let Some(bursts) = bursts else {
        return trace.work(index, 0.0, seconds) / seconds;
    };
    let goal = goal(bursts);
    let reached = trace
        .samples
        .iter()
        .find(|s| s.programs[index].work >= goal);
    // The second program rests before each burst, the first one only between two bursts.
    let rests = f64::from(REST * if index == 0 { bursts - 1 } else { bursts });
    match reached {
        Some(sample) => goal / (sample.at - rests),
        None => trace.work(index, 0.0, seconds) / (seconds - rests),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::trace::{Sample, Seen};

    #[test]
    fn rests_do_not_count() {
        let sample = |at, first, second| Sample {
            at,
            programs: [first, second]
                .map(|work| Seen {
                    work,
                    ..Seen::default()
                })
                .into(),
            ..Sample::default()
        };
        let trace = Trace {
            samples: vec![
                sample(30.0, goal(2), goal(1)),
                sample(40.0, goal(2), goal(2)),
            ],
            endings: Vec::new(),
        };
        let rate = |index| rate(&trace, index, 80.0, Some(2));
        assert_eq!(rate(0), 60.0);
        assert_eq!(rate(1), 60.0);
    }
}
