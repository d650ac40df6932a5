//! A program and the hog beside it over time, for pictures of the first run.

use super::trace::{Sample, Trace};
use serde::{Deserialize, Serialize};

/// One moment of a run. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds since the run began.
    pub at: f64,
    /// Work done until then, in the program's own unit.
    #[serde(alias = "iterations")]
    pub work: f64,
    /// Memory of the program.
    pub uses: u64,
    /// Memory of the hog.
    pub hog: u64,
    /// The broker's limit for the program; 0 without one.
    pub limit: u64,
    /// Memory in swap, of all programs.
    pub swapped: u64,
}

/// The moments of a run while the program lives.
#[must_use]
pub fn moments(trace: &Trace) -> Vec<Moment> {
    let moment = |sample: &Sample| {
        let program = sample.programs.first().filter(|seen| seen.alive)?;
        Some(Moment {
            at: sample.at,
            work: program.work,
            uses: program.uses,
            hog: sample.programs.get(1).map_or(0, |hog| hog.uses),
            limit: sample.limits.first().copied().unwrap_or(0),
            swapped: sample.swapped,
        })
    };
    trace.samples.iter().filter_map(moment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::trace::Seen;

    #[test]
    fn moments_are_those_of_the_living_program() {
        let sample = |at, alive, work| Sample {
            at,
            programs: vec![
                Seen {
                    alive,
                    work,
                    uses: 5,
                    ..Seen::default()
                },
                Seen {
                    uses: 7,
                    ..Seen::default()
                },
            ],
            ..Sample::default()
        };
        let trace = Trace {
            samples: vec![sample(0.0, true, 1.0), sample(0.1, false, 1.0)],
            ..Trace::default()
        };
        let wanted = Moment {
            work: 1.0,
            uses: 5,
            hog: 7,
            ..Moment::default()
        };
        assert_eq!(moments(&trace), [wanted]);
    }
}
