//! Runs workloads with a collector, and sums their repetitions up.

use crate::harness::ground::Ground;
use crate::harness::job::{self, Conditions, Ending, Outcome};
use crate::harness::libgc::{Collector, Libraries, Workload};
use crate::progress::Progress;
use crate::report::curves::Curve;
use crate::report::results::{Cell, Results, number};
use crate::report::statistics::spread;
use crate::report::utilization::Utilization;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The ground, our library, and the results that workloads computed. A result must not depend on the
/// collector.
pub(super) struct Stage {
    ground: Ground,
    libraries: Libraries,
    checksums: BTreeMap<String, Option<u64>>,
}

impl Stage {
    /// A stage with a swap file of `swap` bytes.
    pub(super) fn new(name: &str, swap: u64) -> Result<Stage> {
        Stage::on(Ground::with_swap(name, swap)?)
    }

    /// A stage on which nothing can be paged out.
    pub(super) fn without_swap(name: &str) -> Result<Stage> {
        Stage::on(Ground::without_swap(name)?)
    }

    fn on(ground: Ground) -> Result<Stage> {
        let libraries = Libraries::new(&ground)?;
        Ok(Stage {
            ground,
            libraries,
            checksums: BTreeMap::new(),
        })
    }

    /// Runs several copies of a workload at the same time.
    ///
    /// # Errors
    /// When a copy cannot be run, fails by itself, or computes another result than before.
    pub(super) fn run(
        &mut self,
        workload: &Workload,
        copies: usize,
        collector: Collector,
        conditions: &Conditions,
        progress: &Progress,
    ) -> Result<Outcome> {
        let jobs: Vec<_> = (0..copies)
            .map(|number| self.libraries.job(workload, collector, number))
            .collect();
        let progress = progress.part(collector.name);
        let outcomes = job::run(&self.ground, &jobs, conditions, &progress)?;
        for outcome in &outcomes {
            if outcome.ending == Ending::Finished {
                let told = workload.result(outcome);
                let known = *self.checksums.entry(workload.what()).or_insert(told);
                if told.is_none() || told != known {
                    let what = format!("it computed {told:?} instead of {known:?}");
                    return Err(Error::program(progress.label(), what));
                }
            }
        }
        let all = outcomes.into_iter().reduce(Outcome::with);
        all.ok_or_else(|| Error::program(progress.label(), "no copy of it ran"))
    }

    /// As [`Stage::run`], but without a limit, and the workload has to finish.
    pub(super) fn run_freely(
        &mut self,
        workload: &Workload,
        copies: usize,
        collector: Collector,
        progress: &Progress,
    ) -> Result<Outcome> {
        /// Seconds after which it is killed.
        const LONGEST: f64 = 300.0;
        let conditions = Conditions {
            longest: LONGEST,
            ..Conditions::default()
        };
        let outcome = self.run(workload, copies, collector, &conditions, progress)?;
        match &outcome.ending {
            Ending::Finished => Ok(outcome),
            other => {
                let program = progress.part(collector.name);
                Err(Error::program(program.label(), format!("{other:?}")))
            }
        }
    }
}

/// The repetitions of one variant.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Runs(pub(crate) Vec<Outcome>);

impl Runs {
    fn count(&self, ending: &Ending) -> usize {
        self.0.iter().filter(|run| run.ending == *ending).count()
    }

    pub(crate) fn finished(&self) -> usize {
        self.count(&Ending::Finished)
    }

    pub(crate) fn all_finished(&self) -> bool {
        self.finished() == self.0.len()
    }

    /// Whether none was killed for lack of memory, and none gave up.
    pub(crate) fn survived(&self) -> bool {
        self.finished() + self.count(&Ending::TooLong) == self.0.len()
    }

    /// The median of a value over the repetitions that finished; `None` if none did.
    pub(crate) fn median(&self, of: impl Fn(&Outcome) -> f64) -> Option<f64> {
        let finished = self.0.iter().filter(|run| run.ending == Ending::Finished);
        let values: Vec<f64> = finished.map(of).collect();
        (!values.is_empty()).then(|| spread(&values).median)
    }

    /// The median time, seconds. A repetition that was killed counts with the time until then, so this is a
    /// lower bound.
    pub(crate) fn least_seconds(&self) -> f64 {
        let values: Vec<f64> = self.0.iter().map(|run| run.seconds).collect();
        spread(&values).median
    }

    /// How the repetitions ended, for tables.
    pub(crate) fn ended(&self) -> String {
        let failed = self.0.iter().filter_map(|run| match &run.ending {
            Ending::Failed(how) => Some(how.as_str()),
            _ => None,
        });
        let failures: Vec<&str> = failed.collect();
        let parts = [
            (self.finished(), "finished".to_owned()),
            (self.count(&Ending::Killed), "killed".to_owned()),
            (self.count(&Ending::TooLong), "took too long".to_owned()),
            (
                failures.len(),
                format!("failed ({})", failures.first().unwrap_or(&"")),
            ),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = parts
            .map(|(count, how)| {
                if count == self.0.len() {
                    how
                } else {
                    format!("{count} {how}")
                }
            })
            .collect();
        words.join(", ")
    }

    /// The utilization in the first repetition, until that ended.
    pub(crate) fn curve(&self, name: &str, colour: usize, reference: bool) -> Curve {
        let Some(run) = self.0.first() else {
            return Curve::default();
        };
        let pauses = run.pauses.0.iter().map(|p| (p.begin, p.length));
        let ended = match run.ending {
            Ending::Finished => "",
            Ending::Killed => " (killed)",
            Ending::TooLong => " (took too long)",
            Ending::Failed(_) => " (failed)",
        };
        Curve {
            name: format!("{name}{ended}"),
            points: Utilization::new(pauses, run.seconds).curve(),
            colour,
            reference,
        }
    }
}

/// A cell with a number, or with a dash if there is none.
pub(crate) fn cell(value: Option<f64>) -> Cell {
    value.map_or("-".into(), Cell::from)
}

/// `value` divided by `base`, if there are both.
pub(crate) fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    Some(value? / base.filter(|base| *base > 0.0)?)
}

/// Notes a target: each of the named figures is to be at most `most`. Without figures the target is open.
pub(super) fn target(results: &mut Results, claim: &str, figures: &[(String, f64)], most: f64) {
    let text = |(name, figure): &(String, f64)| format!("{name} {}", number(*figure));
    let all: Vec<String> = figures.iter().map(text).collect();
    let met = figures.iter().all(|(_, figure)| *figure <= most);
    if all.is_empty() {
        results.target(claim, "nothing to compare".to_owned(), None);
    } else {
        results.target(claim, all.join("; "), met);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::pauses::Pauses;

    fn runs(endings: &[Ending]) -> Runs {
        let run = |(index, ending): (usize, &Ending)| Outcome {
            ending: ending.clone(),
            seconds: index as f64 + 1.0,
            resident: 0,
            faults: 0,
            pauses: Pauses::default(),
            said: String::new(),
            ..Outcome::default()
        };
        Runs(endings.iter().enumerate().map(run).collect())
    }

    #[test]
    fn what_did_not_finish_has_no_figures_but_a_time() {
        let all = runs(&[Ending::Finished, Ending::Finished, Ending::TooLong]);
        assert_eq!(all.ended(), "2 finished, 1 took too long");
        assert_eq!(all.median(|run| run.seconds), Some(1.5));
        assert_eq!(all.least_seconds(), 2.0);
        assert!(all.survived() && !all.all_finished());
        let none = runs(&[Ending::Killed]);
        assert_eq!(none.ended(), "killed");
        assert_eq!(none.median(|run| run.seconds), None);
        assert!(!none.survived());
    }

    #[test]
    fn a_target_is_met_by_all_figures_and_open_without_any() {
        let figures = [("a".to_owned(), 0.5), ("b".to_owned(), 1.5)];
        let mut results = Results::new("x", "", "", 1);
        target(&mut results, "less", &figures, 1.0);
        target(&mut results, "more", &figures, 1.5);
        target(&mut results, "none", &[], 1.0);
        let met: Vec<_> = results.targets.iter().map(|target| target.met).collect();
        assert_eq!(met, [Some(false), Some(true), None]);
        assert_eq!(results.targets[0].measured, "a 0.5; b 1.5");
        assert_eq!(ratio(Some(1.0), Some(0.0)), None);
    }
}
