//! The broker is compared with the best static split: two programs share a budget, and are busy either both
//! all the time or in turn.
//!
//! The best split is found by a search with fixed heaps and no broker: coarse steps in short runs,
//! then finer steps around the best. Then the best split and the even split (or the second best)
//! are run again in turn with the broker, so that the broker is not compared with a lucky run, or
//! with a split that only noise selected. The module `want` draws programs at random.

mod best_size;
mod outcome;
pub(super) mod real_shortage;

use crate::Result;
use crate::harness::ground::Ground;
use crate::harness::java::Classes;
use crate::harness::memory_plot::memory_plot;
use crate::harness::programs::{Jvm, NATIVE, Work, gcbench_java, lucene};
use crate::harness::run_scenario::play;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::results::Results;
use crate::report::statistics::spread;
use crate::runner::Runner;
use outcome::{BURST, Outcome, Outcomes, REST, goal};
use std::path::Path;

/// Bytes that the two programs share.
const BUDGET: u64 = 560 << 20;
/// Percent of the heap memory that the first program gets in the coarse steps of the search.
const COARSE: [u32; 3] = [30, 50, 70];
const FINE: u32 = 10;
/// The even split: others are given relative to it. It is expected to be the best, because the two programs
/// are alike.
const EVEN: u32 = 50;
/// Trees of 4 MB that live during a burst: more than half of what an even split gives.
const TREES: u32 = 30;
const JVM: Jvm = Jvm {
    version: 17,
    collector: "Serial",
};

/// How the demand of the two programs for memory changes.
#[derive(Debug)]
struct Demand {
    name: &'static str,
    claim: &'static str,
    /// Number of bursts of each program, in a run of the search and in one of the comparison. `None`: they
    /// work all the time.
    bursts: Option<[u32; 2]>,
    /// Seconds of these two kinds of runs. With bursts, the most seconds.
    seconds: [f64; 2],
}

const STEADY: &str = "steady: at least the throughput of the best static split";
const IN_TURN: &str = "in turn: more than the best static split";

const DEMANDS: [Demand; 2] = [
    Demand {
        name: "steady",
        claim: STEADY,
        bursts: None,
        seconds: [25.0, 45.0],
    },
    Demand {
        name: "in turn",
        claim: IN_TURN,
        bursts: Some([2, 3]),
        seconds: [80.0, 120.0],
    },
];

/// The two kinds of runs.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Search,
    Comparison,
}

/// The measurement `split`.
pub(super) struct Split;

impl Measurement for Split {
    fn about(&self) -> About {
        About {
            name: "split",
            question: "Throughput against the best static split, found by search",
            asks: &[STEADY, IN_TURN],
            minutes: 41,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = runner.ground()?;
        let classes = Classes::of("bench/programs/GcBench.java")?;
        let mut results = empty(runner);
        for demand in &DEMANDS {
            let trial = Trial {
                ground: &ground,
                demand,
                classes: classes.folder(),
            };
            compare(&trial, runner, &mut results)?;
        }
        Ok(results)
    }
}

fn empty(runner: &Runner) -> Results {
    let results = runner.results(
        "Throughput of two programs together: the broker against the best static split.",
        "Two programs on JDK 17 with the Serial collector in 560 MB. Steady: Lucene's benchmark, both \
         work all the time, for 45 s; work is documents. In turn: the trees of GcBench, \
         600 iterations with 126 MB alive, which are dropped for a rest of 10 s, three times; the second \
         begins with its rest; work is iterations. Throughput: work a second, \
         rests left out, of each program relative to the same program under the even split, summed: 2 is \
         as good as an even split. Static: -Xms and -Xmx for both, no broker; \
         30, 50 and 70 % and then 10 % to both sides of the best are tried in runs of 25 s (in turn: two \
         bursts), and the best and the even split (or the second best) are run again beside the broker, \
         interleaved. The \
         rows of the search are single runs.",
    );
    results.columns(&[
        ("demand", ""),
        ("variant", ""),
        ("first", "work/s"),
        ("second", "work/s"),
        ("throughput, min", ""),
        ("median", ""),
        ("max", ""),
        ("major faults", ""),
        ("failed", ""),
    ])
}

/// One demand, and the ground on which it is run.
struct Trial<'a> {
    ground: &'a Ground,
    demand: &'a Demand,
    /// Our Java programs, compiled.
    classes: &'a Path,
}

impl Trial<'_> {
    /// Makes one run: with a static split if `part` is given, otherwise with the broker.
    fn run(
        &self,
        part: Option<u32>,
        stage: Stage,
        progress: &Progress,
    ) -> Result<(Scenario, Trace)> {
        let conditions = match part {
            Some(_) => Conditions::Bare,
            None => Conditions::Broker,
        };
        let scenario = scenario(self.demand, self.classes, part, stage);
        let trace = play(self.ground, &scenario, conditions, progress)?;
        Ok((scenario, trace))
    }

    fn search(&self, runner: &Runner) -> Result<Vec<(u32, Outcomes)>> {
        let mut tried = self.tried(&COARSE, runner)?;
        let Some(&best) = ranked(&tried).first() else {
            return Ok(tried);
        };
        tried.extend(self.tried(&[best - FINE, best + FINE], runner)?);
        tried.sort_by_key(|(part, _)| *part);
        Ok(tried)
    }

    /// Makes a single run of each of these splits.
    fn tried(&self, parts: &[u32], runner: &Runner) -> Result<Vec<(u32, Outcomes)>> {
        let label = |part: u32| format!("{}, search, {}", self.demand.name, name(Some(part)));
        let variants = parts.iter().map(|&part| (label(part), part));
        let experiment = runner.experiment(variants).once();
        let wanted = experiment.wanted_by(|_| self.demand.name.to_owned());
        let ran = wanted.run(|&part, turn| {
            let (scenario, trace) = self.run(Some(part), Stage::Search, &turn.progress)?;
            Ok(self.outcome(&scenario, &trace, Stage::Search))
        })?;
        let ran = ran.into_iter();
        Ok(ran
            .map(|variant| (variant.what, Outcomes(variant.outcomes)))
            .collect())
    }

    fn outcome(&self, scenario: &Scenario, trace: &Trace, stage: Stage) -> Outcome {
        let bursts = self.demand.bursts.map(|bursts| bursts[stage as usize]);
        Outcome::of(trace, scenario.seconds, bursts)
    }
}

/// The rates of both programs under the even split. Other rates are given relative to them.
fn reference(outcomes: &Outcomes) -> [f64; 2] {
    [0, 1].map(|i| outcomes.rate(i).max(1e-9))
}

/// The outcomes of the even split, which is always among those that were tried.
fn even(tried: &[(u32, Outcomes)]) -> Outcomes {
    let even = tried.iter().find(|(part, _)| *part == EVEN);
    even.map(|(_, outcomes)| outcomes.clone())
        .unwrap_or_default()
}

/// The two splits that are compared with the broker.
fn rivals(tried: &[(u32, Outcomes)]) -> [u32; 2] {
    let ranked = ranked(tried);
    match ranked[0] {
        EVEN => [EVEN, ranked[1]],
        best => [EVEN, best],
    }
}

/// The splits, the best one first.
fn ranked(tried: &[(u32, Outcomes)]) -> Vec<u32> {
    let reference = reference(&even(tried));
    let value = |outcomes: &Outcomes| spread(&outcomes.throughputs(reference)).median;
    let mut order: Vec<_> = tried.iter().map(|(part, o)| (value(o), *part)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    order.into_iter().map(|(_, part)| part).collect()
}

fn compare(trial: &Trial<'_>, runner: &Runner, results: &mut Results) -> Result<()> {
    let demand = trial.demand;
    let tried = trial.search(runner)?;
    if tried.len() < COARSE.len() + 2 {
        // It is not wanted, and no row of it is kept.
        return Ok(());
    }
    let [even_split, other] = rivals(&tried);
    let variants = [None, Some(even_split), Some(other)];
    let label = |part: Option<u32>| (format!("{}, {}", demand.name, name(part)), part);
    let experiment = runner.experiment(variants.map(label));
    let wanted = experiment.wanted_by(|_| demand.name.to_owned());
    let ran = wanted.run(|part, turn| {
        let (scenario, trace) = trial.run(*part, Stage::Comparison, &turn.progress)?;
        if turn.first && part.is_none() {
            let title = format!("Two programs, demand {}", demand.name);
            let plot = memory_plot(&title, &scenario, &trace);
            runner.plot(&demand.name.replace(' ', "-"), &plot)?;
        }
        Ok(trial.outcome(&scenario, &trace, Stage::Comparison))
    })?;
    let outcomes: Vec<Outcomes> = ran.into_iter().map(|one| Outcomes(one.outcomes)).collect();
    if outcomes.len() < variants.len() {
        return Ok(());
    }
    let reference = reference(&outcomes[1]);
    for (part, outcomes) in variants.iter().zip(&outcomes) {
        outcomes.note(demand.name, &name(*part), reference, results);
    }
    let searched = self::reference(&even(&tried));
    for (part, outcomes) in &tried {
        let variant = format!("search: {}", name(Some(*part)));
        outcomes.note(demand.name, &variant, searched, results);
    }
    let all = [0, 1, 2].map(|i| outcomes[i].throughputs(reference));
    let [ours, first, second] = all.each_ref().map(|single| spread(single).median);
    let best = if first >= second { 1 } else { 2 };
    let ratio = ours / first.max(second).max(1e-9);
    let pairs = all[0].iter().zip(&all[best]);
    let pairs: Vec<f64> = pairs
        .map(|(ours, theirs)| ours / theirs.max(1e-9))
        .collect();
    let pairs = spread(&pairs);
    results.target(
        demand.claim,
        format!(
            "{ratio:.3} of {} (single pairs {:.2} to {:.2})",
            name(variants[best]),
            pairs.min,
            pairs.max
        ),
        ratio >= 1.0 && ours > 0.0,
    );
    Ok(())
}

fn name(part: Option<u32>) -> String {
    part.map_or("broker".to_owned(), |part| {
        format!("static {part}:{}", 100 - part)
    })
}

fn scenario(demand: &Demand, classes: &Path, part: Option<u32>, stage: Stage) -> Scenario {
    let heaps = BUDGET - 2 * NATIVE;
    let program = |index: usize| {
        let part = part.map(|part| if index == 0 { part } else { 100 - part });
        let heap = part.map(|part| heaps * u64::from(part) / 100);
        let command = match demand.bursts {
            None => lucene(JVM, heap, "bench/programs/lucene/share.alg"),
            Some(_) => {
                let rest = REST as i32 * if index == 0 { 1 } else { -1 };
                let work = Work {
                    live: TREES,
                    pace: 0,
                    buffer: 0,
                    burst: Some((BURST, rest)),
                };
                gcbench_java(JVM, heap, classes, work)
            }
        };
        Program {
            name: ["first", "second"][index].to_owned(),
            weight: 100,
            command,
            ..Program::default()
        }
    };
    Scenario {
        budget: BUDGET,
        seconds: demand.seconds[stage as usize],
        until_work: demand.bursts.map(|bursts| goal(bursts[stage as usize])),
        programs: vec![program(0), program(1)],
        ..Scenario::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(rates: [f64; 2]) -> Outcomes {
        Outcomes(vec![Outcome {
            rates,
            ..Outcome::default()
        }])
    }

    #[test]
    fn each_program_counts_relative_to_itself() {
        // The first program does far more work per second, but a loss of the second must count as much.
        let tried = [
            (30, outcomes([9000.0, 108.0])),
            (50, outcomes([10_000.0, 100.0])),
            (70, outcomes([10_100.0, 80.0])),
        ];
        assert_eq!(ranked(&tried), [50, 30, 70]);
        assert_eq!(
            tried[1].1.throughputs(reference(&even(&tried))).as_slice(),
            [2.0]
        );
        assert_eq!(rivals(&tried), [50, 30]);
        let lucky = [tried[1].clone(), (60, outcomes([10_100.0, 101.0]))];
        assert_eq!(rivals(&lucky), [50, 60]);
    }
}
