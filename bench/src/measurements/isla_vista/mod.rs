//! Isla Vista's Figure 3 and Tables 2 and 3 for HotSpot: Java programs with memory short and with enough, by
//! their own rule and steered by stalls. No broker runs.
//!
//! | module | is |
//! |---|---|
//! | `programs` | the programs, and their maximum heaps |
//! | `program_run` | one run, and how much memory it is given |
//! | `collections` | what is counted within and outside of collections |
//! | `report` | the tables and the targets of `isla-vista` |
//! | [`sweep`] | `isla-vista-sweep`: many maximum heaps, and pictures |
//! | [`dynamic`] | `isla-vista-dynamic`: pressure that changes |

mod collections;
pub(super) mod dynamic;
mod program_run;
mod programs;
mod report;
pub(super) mod sweep;

use crate::Result;
use crate::harness::ground::Ground;
use crate::harness::java::read_ahead;
use crate::harness::programs::Jvm;
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::runner::{Runner, Variant};
use program_run::{Case, Rule, Run, Stage};
use programs::ALL;
use std::time::Duration;

const PRESSED: &str = "under pressure the default loses a factor of 3 or more in half of the pairs";
const SAVED: &str = "under pressure at the largest heap, of what the default loses: at least 0.8 saved \
                     (by the logarithms of times)";
const FIXED: &str =
    "under pressure: at most 1.05 times the best fixed heap in the same memory (geometric mean)";
const FREE: &str = "without pressure: within 2 % of the default";

/// Swap behind the cgroup, bytes: more than the largest heap takes beyond the least memory.
const SWAP: u64 = 1 << 30;
/// Seconds after which a run is stopped. It counts as taking that long.
const LONGEST: f64 = 300.0;
/// The same in a slice: a run by the default under pressure is as long as this, or is killed before.
const LONGEST_OF_SLICE: f64 = 90.0;
/// How long the runs of a slice may take.
const SLICE: Duration = Duration::from_secs(55 * 60);
const COLLECTORS: [&str; 3] = ["Serial", "Parallel", "G1"];
const VERSIONS: [u32; 2] = [17, 25];

/// The programs of a slice: those that lost most by the default in the slice before, where memory was
/// short by another rule. How they fare with Isla Vista does not count.
const OF_SLICE: [&str; 3] = ["graph", "lucene", "bank-h2"];

/// Whether a case is in the part that takes less than an hour: the largest heap of these programs, on two
/// collectors of one JDK, without the row from outside.
fn is_in_slice(case: Case) -> bool {
    let is_measured = case.jvm.version == 17 && case.jvm.collector != "Parallel";
    let is_known = OF_SLICE.contains(&case.program.name);
    is_measured && is_known && case.is_largest() && case.rule != Rule::Outside
}

/// The measurement `isla-vista`.
pub(super) struct IslaVista;

impl Measurement for IslaVista {
    fn about(&self) -> About {
        About {
            name: "isla-vista",
            question: "What does a Java heap that follows its stalls save under pressure?",
            asks: &[PRESSED, SAVED, FIXED, FREE],
            minutes: 1230,
            only: true,
            slice: true,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let cases = cases().filter(|case| !runner.slice() || is_in_slice(*case));
        let ran = run_all(runner, cases)?;
        Ok(report::report(&ran, runner))
    }
}

/// Seconds after which a run is stopped.
fn longest(runner: &Runner) -> f64 {
    if runner.slice() {
        LONGEST_OF_SLICE
    } else {
        LONGEST
    }
}

/// Runs cases; of a slice as many rounds as fit into its time.
fn run_all(runner: &Runner, cases: impl Iterator<Item = Case>) -> Result<Vec<Variant<Case, Run>>> {
    read_ahead(jvms())?;
    let ground = Ground::with_swap(runner.name(), SWAP)?;
    let stage = Stage::new(ground, longest(runner), runner)?;
    let named = cases.map(|case| (case.name(), case));
    let mut experiment = runner
        .experiment(named)
        .wanted()
        .rotating(|case| (case.program, case.jvm, case.heap))
        .by_group();
    if runner.slice() {
        experiment = experiment.within(SLICE);
    }
    experiment.run(|case, turn| stage.run(*case, &turn.progress))
}

fn jvms() -> impl Iterator<Item = Jvm> {
    COLLECTORS
        .into_iter()
        .flat_map(|collector| VERSIONS.map(|version| Jvm { version, collector }))
}

/// All cases. Those that are compared follow each other, so that they run at about the same time.
fn cases() -> impl Iterator<Item = Case> {
    let heaps = ALL
        .into_iter()
        .flat_map(|program| program.heaps(2).map(move |heap| (program, heap)));
    let machines = heaps.flat_map(|heap| {
        let runs = jvms().filter(move |jvm| jvm.version <= heap.0.newest);
        runs.map(move |jvm| (heap, jvm))
    });
    machines.flat_map(|((program, heap), jvm)| {
        let four = Case::four(program, jvm, heap);
        let more = [Rule::Outside, Rule::Printed, Rule::Fixed];
        let more = more.map(|rule| four[0].like(true, rule));
        four.into_iter()
            .chain(more.into_iter().filter(|case| case.is_largest()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_own_name_and_its_pair() {
        let all: Vec<Case> = cases().collect();
        let names: std::collections::BTreeSet<String> =
            all.iter().map(|case| case.name()).collect();
        assert_eq!(names.len(), all.len());
        for case in &all {
            let other = match case.rule {
                Rule::Default => Rule::IslaVista,
                _ => Rule::Default,
            };
            assert!(all.contains(&case.like(case.short, other)));
        }
    }

    #[test]
    fn a_slice_has_what_the_targets_compare() {
        let slice: Vec<Case> = cases().filter(|case| is_in_slice(*case)).collect();
        assert_eq!(slice.len(), OF_SLICE.len() * 2 * 6);
        for case in &slice {
            for rule in [Rule::Default, Rule::IslaVista, Rule::Printed, Rule::Fixed] {
                assert!(slice.contains(&case.like(true, rule)));
            }
        }
    }
}
