//! The distances of programs from their shares in a run.

use crate::harness::scenario::Scenario;
use crate::harness::trace::{Sample, Trace};
use crate::report::statistics::spread;
use serde::{Deserialize, Serialize};

/// Allowed distance from the ideal share, as a part of the budget (paper: 50 MB of 1.6 GB).
pub(super) const TOLERANCE: f64 = 0.03;

/// The outcome of one run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// For each change: the largest distance of a program from its ideal share at the end of the allowed
    /// time, as a fraction of the budget.
    pub(super) at_two_seconds: Vec<f64>,
    /// For each change: whether each program that is below its new share then could fill what it lacks in the
    /// allowed time, by the most that a program of this run allocated within as long.
    pub(super) in_reach: Vec<bool>,
    /// As `at_two_seconds`, but only of programs above their share while another is below its share.
    pub(super) over: Vec<f64>,
    /// As `at_two_seconds`, but only of programs below their share.
    pub(super) under: Vec<f64>,
    /// The largest distance in each sample that was taken after the allowed time, until the next change.
    pub(super) settled: Vec<f64>,
    /// For each change: seconds until all programs stayed within the tolerance.
    pub(super) settle: Vec<f64>,
    pub(super) major_faults: u64,
    pub(super) used: f64,
}

impl Outcome {
    /// Judges a run in which programs may take `soon` seconds after a change, and allocate `unit` bytes in
    /// a unit of their work.
    pub(super) fn of(scenario: &Scenario, soon: f64, unit: u64, trace: &Trace) -> Outcome {
        let mut outcome = Outcome::default();
        let points = scenario.turning_points();
        let mut used = Vec::new();
        let most = most_allocated(trace, soon, unit);
        for (index, (at, _)) in points.iter().enumerate() {
            let next = points.get(index + 1).map_or(scenario.seconds, |p| p.0);
            let mut settled_since = None;
            for sample in trace.between(*at, next) {
                let distance = Distances::of(scenario, sample).farthest();
                if distance > TOLERANCE {
                    settled_since = None;
                } else if settled_since.is_none() {
                    settled_since = Some(sample.at);
                }
                if sample.at >= at + soon {
                    outcome.settled.push(distance);
                    let sum: u64 = sample.programs.iter().map(|p| p.uses).sum();
                    used.push(sum as f64 / sample.budget.max(1) as f64);
                }
            }
            if let Some(sample) = trace.at(at + soon) {
                let distances = Distances::of(scenario, sample);
                outcome.at_two_seconds.push(distances.farthest());
                let before = trace
                    .at(*at)
                    .map(|sample| lack(scenario, sample, at + soon));
                let reach = most / sample.budget.max(1) as f64;
                outcome
                    .in_reach
                    .push(before.is_none_or(|lack| lack <= reach));
                outcome.over.push(distances.over());
                outcome.under.push(distances.under);
            }
            outcome
                .settle
                .push(settled_since.map_or(next - at, |since| since - at));
        }
        outcome.used = spread(&used).median;
        outcome.major_faults = (0..scenario.programs.len())
            .map(|i| trace.count(i, |p| p.major_faults))
            .sum();
        outcome
    }

    /// The distances after the changes, each with whether it could be followed.
    pub(super) fn judged(&self) -> impl Iterator<Item = (f64, bool)> + '_ {
        let reach = self.in_reach.iter().copied();
        self.at_two_seconds.iter().copied().zip(reach)
    }
}

/// The most that one program allocated within `seconds`, bytes, where a unit of its work allocates `unit`
/// bytes. Its memory cannot rise by more in that time, whatever its heap may be.
fn most_allocated(trace: &Trace, seconds: f64, unit: u64) -> f64 {
    let samples = &trace.samples;
    let mut most = 0.0_f64;
    let mut first = 0;
    for last in samples {
        while samples[first].at < last.at - seconds {
            first += 1;
        }
        for (before, now) in samples[first].programs.iter().zip(&last.programs) {
            most = most.max(now.work - before.work);
        }
    }
    most * unit as f64
}

/// What the program farthest below its share of `then` lacks of it in `sample`, as a fraction of the budget.
fn lack(scenario: &Scenario, sample: &Sample, then: f64) -> f64 {
    let budget = sample.budget.max(1) as f64;
    let programs = scenario.programs.iter().zip(&sample.programs);
    programs
        .map(|(program, seen)| scenario.ideal(&program.name, then) - seen.uses as f64 / budget)
        .fold(0.0, f64::max)
}

/// The largest distances of the running programs from their ideal shares, as fractions of the budget.
#[derive(Clone, Copy, Debug, Default)]
struct Distances {
    above: f64,
    under: f64,
}

impl Distances {
    fn of(scenario: &Scenario, sample: &Sample) -> Self {
        let budget = sample.budget.max(1) as f64;
        let mut distances = Distances::default();
        for (program, seen) in scenario.programs.iter().zip(&sample.programs) {
            let ideal = scenario.ideal(&program.name, sample.at);
            if ideal > 0.0 {
                let excess = seen.uses as f64 / budget - ideal;
                distances.above = distances.above.max(excess);
                distances.under = distances.under.max(-excess);
            }
        }
        distances
    }

    fn farthest(self) -> f64 {
        self.above.max(self.under)
    }

    /// The largest distance above a share, if some program is below its share; otherwise 0. All of these
    /// programs use all that they are given, so an excess harms nobody unless another program lacks memory.
    fn over(self) -> f64 {
        if self.under > 0.0 { self.above } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::scenario::Program;
    use crate::harness::trace::Seen;

    #[test]
    fn a_change_that_is_larger_than_what_programs_take_in_time_is_out_of_reach() {
        let program = |name: &str, weight, start| Program {
            name: name.to_owned(),
            weight,
            start,
            ..Program::default()
        };
        let scenario = Scenario {
            seconds: 40.0,
            programs: vec![program("one", 10, 0.0), program("other", 10, 20.0)],
            ..Scenario::default()
        };
        let sample = |tenth: u32| {
            let at = f64::from(tenth) / 10.0;
            // Both allocate 100 bytes a second; the memory of the first rises by less.
            let uses = [at.min(20.0) * 50.0, (at - 20.0).max(0.0) * 100.0];
            let work = [at, (at - 20.0).max(0.0)];
            Sample {
                at,
                programs: [0, 1]
                    .map(|index| Seen {
                        uses: uses[index] as u64,
                        work: work[index],
                        ..Seen::default()
                    })
                    .into(),
                budget: 1000,
                ..Sample::default()
            }
        };
        let trace = Trace {
            samples: (0..400).map(sample).collect(),
            ..Trace::default()
        };
        assert!((most_allocated(&trace, 2.0, 100) - 200.0).abs() < 1e-6);
        let outcome = Outcome::of(&scenario, 2.0, 100, &trace);
        // 1,000 and 500 bytes are lacking.
        assert_eq!(outcome.in_reach, [false, false]);
        assert_eq!(
            Outcome::of(&scenario, 6.0, 100, &trace).in_reach,
            [false, true]
        );
    }

    #[test]
    fn over_and_under_are_told_apart() {
        let program = |name: &str, weight| Program {
            name: name.to_owned(),
            weight,
            ..Program::default()
        };
        let scenario = Scenario {
            seconds: 50.0,
            programs: vec![
                program("ten", 10),
                program("forty", 40),
                program("twenty", 20),
            ],
            ..Scenario::default()
        };
        let at = |uses: [u64; 3]| {
            let seen = |uses| Seen {
                uses,
                ..Seen::default()
            };
            let sample = Sample {
                at: 25.0,
                programs: uses.map(seen).into(),
                budget: 7000,
                ..Sample::default()
            };
            Distances::of(&scenario, &sample)
        };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        // Ideal: 1000, 4000, 2000. The third is on its way up.
        let growing = at([1000, 4700, 600]);
        assert!(close(growing.over(), 0.1) && close(growing.under, 0.2));
        assert!(close(growing.farthest(), 0.2));
        // No program is below its share.
        let generous = at([1700, 4000, 2000]);
        assert!(close(generous.over(), 0.0) && close(generous.farthest(), 0.1));
    }
}
