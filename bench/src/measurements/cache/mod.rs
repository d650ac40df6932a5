//! A cache of database queries that follows memory: Walfield's section 5.3, Table 3 and Figures 5 and 6.
//!
//! Fixed caches, the paper's adaptive policy and ours, each without a hog, and the large ones with one.
//! The sizes are 0.3 of the paper's, so that a run takes a minute; two policies also have its own sizes.
//!
//! | module | is |
//! |---|---|
//! | `simulation` | the hits that a fixed cache has |
//! | `pictures` | the paper's Figures 5 and 6 |

mod pictures;
mod simulation;

use crate::Result;
use crate::harness::moments::{Moment, moments};
use crate::harness::programs::{hog_that_leaves, made};
use crate::harness::run_scenario::play;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::{Seen, Trace};
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::report::statistics::spread;
use crate::runner::{Runner, Variant};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How large and how long the runs are.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size {
    /// Bytes of an object.
    object: u64,
    /// Bytes that the program and the hog share: those of the paper's largest cache, and what a program needs
    /// beside it.
    budget: u64,
    /// Queries of a run without a hog, and of one with it.
    queries: [u32; 2],
    /// When the hog begins, for how long it holds what it took (seconds), and how fast it takes it (bytes a
    /// second).
    hog: (f64, f64, u64),
    /// Seconds after which a run is given up.
    longest: f64,
}

const SHORT: Size = Size {
    object: 1_500_000,
    budget: 560_000_000,
    queries: [25_000, 100_000],
    hog: (5.0, 15.0, 50_000_000),
    longest: 240.0,
};
/// The hog of the paper.
const FULL: Size = Size {
    object: 5_000_000,
    budget: 1_800_000_000,
    queries: [100_000, 100_000],
    hog: (45.0, 60.0, 20_000_000),
    longest: 1200.0,
};
/// The part of the memory that the hog takes.
const HOGGED: f64 = 0.95;

/// Entries of the paper's fixed caches, and the percent of queries that were hits there.
const FIXED: [(usize, f64); 5] = [(348, 92.3), (256, 82.6), (64, 27.6), (16, 7.1), (4, 2.0)];

/// How a cache keeps its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Fixed(usize),
    /// The paper's: release to 7/8 of what is available, least recently used first.
    Paper,
    /// Ours.
    Adaptive,
}

impl Policy {
    fn name(self) -> String {
        match self {
            Policy::Fixed(entries) => format!("{entries} entries"),
            Policy::Paper => "the paper's policy".to_owned(),
            Policy::Adaptive => "adaptive".to_owned(),
        }
    }

    /// As the program names it.
    fn argument(self) -> String {
        match self {
            Policy::Fixed(entries) => entries.to_string(),
            Policy::Paper => "paper".to_owned(),
            Policy::Adaptive => "adaptive".to_owned(),
        }
    }
}

/// A variant.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case {
    policy: Policy,
    hog: bool,
    size: Size,
}

/// One run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Run {
    /// The last line of the program.
    told: Option<Value>,
    major_faults: u64,
    swap_traffic: u64,
    killed: bool,
    /// For the pictures: of the first run only.
    moments: Vec<Moment>,
}

/// The medians of the runs of a variant.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// Queries done, and the part of them that were hits.
    queries: f64,
    hits: f64,
    seconds: f64,
    faults: f64,
    swap_traffic: f64,
    unfinished: usize,
    killed: usize,
}

const HITS: &str = "fixed caches: hits within 1 point of the simulated rate";
const ALONE: &str =
    "adaptive, without a hog: at most 1.02 of the best fixed cache's time (the paper's 1.05)";
const BESIDE: &str = "adaptive, with the hog: sooner than every fixed cache beside it";
const EXPLAINED: &str = "adaptive, with the hog: no more time than its misses explain, within 5 % (the \
                         paper's lost 284 s where they explain 165)";
const FEWER: &str = "adaptive, without a hog: fewer misses than the fixed cache of the same bytes";

/// The measurement `cache`.
pub(super) struct Cache;

impl Measurement for Cache {
    fn about(&self) -> About {
        About {
            name: "cache",
            question: "Walfield's Table 3: fixed caches of query results against an adaptive one, with \
                       and without a hog",
            asks: &[HITS, ALONE, BESIDE, EXPLAINED, FEWER],
            minutes: 75,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = runner.ground()?;
        let named = cases().into_iter().map(|case| (case.name(), case));
        let ran = runner
            .experiment(named)
            .wanted()
            .rotating(|case| case.size.object)
            .by_group()
            .run(|case, turn| {
                let conditions = match case.policy {
                    Policy::Fixed(_) => Conditions::Bare,
                    Policy::Paper | Policy::Adaptive => Conditions::Broker,
                };
                let trace = play(&ground, &case.scenario(), conditions, &turn.progress)?;
                Ok(run(&trace, turn.first))
            })?;
        pictures::draw(&ran, runner)?;
        Ok(report(&ran, runner))
    }
}

/// Each policy without a hog, then with one; and the paper's sizes.
fn cases() -> Vec<Case> {
    let fixed = FIXED.map(|(entries, _)| Policy::Fixed(entries));
    let all = [&fixed[..], &[Policy::Paper, Policy::Adaptive]].concat();
    let large = |policy: &Policy| !matches!(policy, Policy::Fixed(16 | 4));
    let case = |size, hog| move |policy: Policy| Case { policy, hog, size };
    let beside = || all.iter().copied().filter(large);
    let full = [Policy::Fixed(348), Policy::Adaptive];
    let each = all.iter().copied().map(case(SHORT, false));
    each.chain(beside().map(case(SHORT, true)))
        .chain(full.map(case(FULL, false)))
        .chain(full.map(case(FULL, true)))
        .collect()
}

impl Case {
    fn name(&self) -> String {
        let hog = if self.hog { " beside a hog" } else { "" };
        let full = if self.size == FULL { " of 5 MB" } else { "" };
        format!("{}{full}{hog}", self.policy.name())
    }

    fn queries(&self) -> u32 {
        self.size.queries[usize::from(self.hog)]
    }

    fn scenario(&self) -> Scenario {
        let cache = Program {
            name: "cache".to_owned(),
            weight: 100,
            command: vec![
                made("cache"),
                self.queries().to_string(),
                self.size.object.to_string(),
                self.policy.argument(),
            ],
            ..Program::default()
        };
        let (start, hold, rate) = self.size.hog;
        let hogged = (self.size.budget as f64 * HOGGED) as u64;
        let hog = Program {
            name: "hog".to_owned(),
            start,
            command: hog_that_leaves(hogged, rate, hold),
            outsider: true,
            ..Program::default()
        };
        Scenario {
            budget: self.size.budget,
            seconds: self.size.longest,
            until_done: true,
            programs: [cache].into_iter().chain(self.hog.then_some(hog)).collect(),
            ..Scenario::default()
        }
    }
}

fn run(trace: &Trace, first: bool) -> Run {
    let ending = trace.endings.first();
    let last = ending.and_then(|ending| ending.output.last());
    let traffic = trace.samples.last().map_or(0, |last| last.swap_traffic);
    Run {
        told: last.and_then(|line| serde_json::from_str(line).ok()),
        major_faults: trace.count(0, |seen: &Seen| seen.major_faults),
        swap_traffic: traffic,
        killed: ending.is_some_and(|ending| ending.killed),
        moments: if first { moments(trace) } else { Vec::new() },
    }
}

impl Outcome {
    fn of(variant: &Variant<Case, Run>) -> Outcome {
        let runs = &variant.outcomes;
        let median = |value: &dyn Fn(&Run) -> f64| {
            spread(&runs.iter().map(value).collect::<Vec<_>>()).median
        };
        let told = |run: &Run, key: &str| {
            let value = run.told.as_ref().and_then(|told| told.get(key));
            value.and_then(Value::as_f64).unwrap_or(0.0)
        };
        let done = |run: &&Run| told(run, "work") >= f64::from(variant.what.queries());
        Outcome {
            queries: median(&|run| told(run, "work")),
            hits: median(&|run| told(run, "hits") / told(run, "work").max(1.0)),
            seconds: median(&|run| told(run, "seconds")),
            faults: median(&|run| run.major_faults as f64),
            swap_traffic: median(&|run| run.swap_traffic as f64),
            unfinished: runs.iter().filter(|run| !done(run)).count(),
            killed: runs.iter().filter(|run| run.killed).count(),
        }
    }

    fn misses(&self) -> f64 {
        self.queries * (1.0 - self.hits)
    }
}

const TITLE: &str =
    "Queries of an SQLite database through caches of fixed sizes, and through adaptive ones.";
const METHOD: &str = "\
     A query selects twenty rows from temporary tables of 1024 rows; its object has 1.5 MB, all of which \
     are written. The keys are 1000, drawn by an exponential distribution of mean rank 100. 25,000 queries, \
     with the hog 100,000, in 560 MB, which the largest fixed cache fills. The hog begins at 5 s, takes 95 % \
     of the memory at 50 MB/s, holds it for 15 s and gives it back at that rate. A fixed cache drops \
     the fifth that was used least lately when it has more entries. The paper's policy releases to 7/8 of \
     what is available under pressure. Adaptive: gives back what is owed, keeps what is used most. A run \
     that takes longer than 240 s is unfinished. Of 5 MB: the paper's sizes: 100,000 queries in 1800 MB; the \
     hog begins at 45 s, takes 20 MB/s and holds it for 60 s; no target is judged by it.";

fn report(ran: &[Variant<Case, Run>], runner: &Runner) -> Results {
    let mut results = runner.results(TITLE, METHOD).columns(&[
        ("cache", ""),
        ("queries", ""),
        ("hits", "%"),
        ("simulated", "%"),
        ("the paper's", "%"),
        ("time", "s"),
        ("major faults", ""),
        ("swapped pages", ""),
        ("unfinished", ""),
        ("killed", ""),
    ]);
    let outcomes: Vec<(Case, Outcome)> = ran
        .iter()
        .map(|variant| (variant.what, Outcome::of(variant)))
        .collect();
    for (variant, (case, outcome)) in ran.iter().zip(&outcomes) {
        let (simulated, paper) = match (case.policy, case.hog) {
            (Policy::Fixed(entries), false) => {
                let rate = 100.0 * simulation::hit_rate(case.queries(), entries);
                let paper = FIXED.iter().find(|fixed| fixed.0 == entries);
                (rate.into(), paper.map_or("".into(), |fixed| fixed.1.into()))
            }
            _ => ("".into(), "".into()),
        };
        results.row([
            variant.name.as_str().into(),
            outcome.queries.into(),
            (100.0 * outcome.hits).into(),
            simulated,
            paper,
            outcome.seconds.into(),
            outcome.faults.into(),
            outcome.swap_traffic.into(),
            (outcome.unfinished as f64).into(),
            (outcome.killed as f64).into(),
        ]);
    }
    judge(&mut results, &outcomes);
    results
}

/// Judges the runs of the short size. Nothing is judged by rows that are not there.
fn judge(results: &mut Results, outcomes: &[(Case, Outcome)]) {
    let of = |policy: Policy, hog: bool| {
        let size = SHORT;
        let wanted = Case { policy, hog, size };
        outcomes.iter().find(|one| one.0 == wanted).map(|one| one.1)
    };
    let fixed = |hog: bool| {
        FIXED
            .iter()
            .filter_map(move |one| of(Policy::Fixed(one.0), hog))
    };
    let all: Option<Vec<Outcome>> = FIXED
        .iter()
        .map(|one| of(Policy::Fixed(one.0), false))
        .collect();
    let (Some(all), Some(alone), Some(beside)) =
        (all, of(Policy::Adaptive, false), of(Policy::Adaptive, true))
    else {
        return;
    };
    let rates = FIXED.map(|one| simulation::hit_rate(SHORT.queries[0], one.0));
    let off = all
        .iter()
        .zip(rates)
        .map(|(one, rate)| (one.hits - rate).abs());
    let off = 100.0 * off.fold(0.0, f64::max);
    results.target(HITS, format!("{off:.2} points at the most"), off <= 1.0);
    let best = fixed(false)
        .map(|one| one.seconds)
        .fold(f64::INFINITY, f64::min);
    let ended = alone.unfinished == 0;
    results.target(
        ALONE,
        format!("{:.2}", alone.seconds / best),
        ended && alone.seconds <= 1.02 * best,
    );
    let soonest = fixed(true).filter(|one| one.unfinished == 0);
    let soonest = soonest.map(|one| one.seconds).fold(f64::INFINITY, f64::min);
    let ended = beside.unfinished == 0 && beside.killed == 0;
    results.target(
        BESIDE,
        format!(
            "{:.1} s; the soonest fixed one {soonest:.1} s",
            beside.seconds
        ),
        ended && beside.seconds < soonest,
    );
    // The cost of a miss, by the smallest cache: nearly all of its queries are misses.
    let small = all[FIXED.len() - 1];
    let miss = small.seconds / small.misses().max(1.0);
    let explained = beside.misses() * miss;
    results.target(
        EXPLAINED,
        format!(
            "{:.1} s; {:.0} misses explain {explained:.1} s",
            beside.seconds,
            beside.misses()
        ),
        ended && beside.seconds <= 1.05 * explained,
    );
    results.target(
        FEWER,
        format!("{:.0} against {:.0}", alone.misses(), all[0].misses()),
        alone.unfinished == 0 && alone.misses() < all[0].misses(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variant_has_a_name_of_its_own() {
        let mut names: Vec<String> = cases().iter().map(Case::name).collect();
        assert_eq!(names.len(), 16);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 16);
    }

    #[test]
    fn rows_that_are_missing_judge_nothing() {
        let mut results = Results::new("x", "", "", 1);
        judge(&mut results, &[]);
        assert!(results.targets.is_empty());
    }
}
