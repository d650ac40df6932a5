//! Workloads in enough memory, with libgc and with our collector in turn.

use super::run_workloads::{Runs, Stage, ratio};
use crate::Result;
use crate::harness::job::Outcome;
use crate::harness::libgc::{OURS, SYSTEM, Workload};
use crate::runner::Runner;

/// A workload: its name, and its runs with libgc and with our collector, in pairs.
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) runs: [Runs; 2],
}

impl Pair {
    /// Runs the wanted workloads.
    pub(super) fn all(
        workloads: impl IntoIterator<Item = Workload>,
        stage: &mut Stage,
        runner: &Runner,
    ) -> Result<Vec<Pair>> {
        let named = workloads
            .into_iter()
            .map(|workload| (workload.name.clone(), workload));
        let ran = runner.experiment(named).wanted().run(|workload, turn| {
            let mut run = |with| stage.run_freely(workload, 1, with, &turn.progress);
            Ok([run(SYSTEM)?, run(OURS)?])
        })?;
        let pairs = ran.into_iter().map(|variant| {
            let pairs = variant.outcomes.into_iter().map(<(Outcome, Outcome)>::from);
            let (system, ours) = pairs.unzip();
            Pair {
                name: variant.name,
                runs: [Runs(system), Runs(ours)],
            }
        });
        Ok(pairs.collect())
    }

    /// The median of a value with our collector, divided by that with libgc.
    pub(super) fn ratio(&self, of: impl Fn(&Outcome) -> f64) -> Option<f64> {
        let [system, ours] = &self.runs;
        ratio(ours.median(&of), system.median(&of))
    }
}
