//! Against the best static split: two programs share a budget, either both busy or in turn.
//!
//! The rival is found by search, with fixed heaps and no broker: coarse steps in short runs, then
//! finer ones around the best. The best and the even split (or the second best) are run again
//! beside the broker, so that the comparison is neither with the luckiest run of the search nor
//! with what only its noise chose. [`want`] is a family of programs drawn at random.

pub mod want;

use super::Options;
use crate::harness::ground::Ground;
use crate::harness::java::Classes;
use crate::harness::programs::{Jvm, NATIVE, Work, gcbench_java, lucene};
use crate::harness::runner::run;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::report::results::{Results, folder};
use crate::report::statistics::spread;
use std::path::Path;

/// What the two programs share, bytes.
const BUDGET: u64 = 560 << 20;
/// Percent of the heap memory that the first program gets.
const COARSE: [u32; 3] = [30, 50, 70];
const FINE: u32 = 10;
/// To which the others are relative; the best one to expect, for the two programs are alike.
const EVEN: u32 = 50;
/// Iterations of a burst and seconds of the rest after it.
const BURST: u32 = 600;
const REST: u32 = 10;
/// Trees of 4 MB that live during a burst: more than half of what an even split gives.
const TREES: u32 = 30;
const JVM: Jvm = Jvm {
    version: 17,
    collector: "Serial",
};

/// How the two programs want memory.
#[derive(Debug)]
struct Demand {
    name: &'static str,
    claim: &'static str,
    /// Bursts of each program in a run of the search and of the comparison; without any, they work
    /// all the time.
    bursts: Option<[u32; 2]>,
    /// Seconds of such runs; at the most, with bursts.
    seconds: [f64; 2],
}

const DEMANDS: [Demand; 2] = [
    Demand {
        name: "steady",
        claim: "steady: at least the throughput of the best static split",
        bursts: None,
        seconds: [25.0, 45.0],
    },
    Demand {
        name: "in turn",
        claim: "in turn: more than the best static split",
        bursts: Some([2, 3]),
        seconds: [80.0, 120.0],
    },
];

/// Which of the two runs of a [`Demand`].
#[derive(Clone, Copy, Debug)]
enum Stage {
    Search,
    Comparison,
}

/// Runs the measurement.
///
/// # Errors
/// A sentence on what could not be set up or started.
pub fn measure(options: &Options) -> Result<(), String> {
    let ground = Ground::new("split")?;
    let classes = Classes::of("bench/programs/GcBench.java")?;
    let mut results = Results::new(
        "split",
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
        options.repeat,
    )
    .columns(&[
        ("demand", ""),
        ("variant", ""),
        ("first", "work/s"),
        ("second", "work/s"),
        ("throughput, min", ""),
        ("median", ""),
        ("max", ""),
        ("major faults", ""),
        ("failed", ""),
    ]);
    for demand in DEMANDS.iter().filter(|d| options.wants(d.name)) {
        compare(&ground, options, demand, classes.folder(), &mut results)?;
    }
    results.save().map_err(|e| e.to_string())
}

/// What the runs of one variant came to.
#[derive(Clone, Debug, Default)]
struct Outcomes {
    /// Work a second of both programs, one entry a run.
    rates: Vec<[f64; 2]>,
    faults: Vec<f64>,
    failed: usize,
}

impl Outcomes {
    fn add(&mut self, trace: &Trace, seconds: f64, bursts: Option<u32>) {
        self.rates
            .push([0, 1].map(|i| rate(trace, i, seconds, bursts)));
        let faults = [0, 1].map(|i| trace.count(i, |p| p.major_faults));
        self.faults.push((faults[0] + faults[1]) as f64);
        let last = trace.samples.last();
        let short = |line: &String| line.contains("OutOfMemoryError");
        let failed = (0..2).filter(|i| {
            let died = last.is_none_or(|s| !s.programs[*i].alive);
            let done = last.map_or(0.0, |s| s.programs[*i].work);
            let unfinished = bursts.is_some_and(|bursts| done < goal(bursts));
            died || unfinished || trace.endings[*i].output.iter().any(short)
        });
        self.failed += failed.count();
    }

    /// The median of one program's rates.
    fn rate(&self, index: usize) -> f64 {
        spread(&self.rates.iter().map(|r| r[index]).collect::<Vec<_>>()).median
    }

    /// The sum of both programs' rates relative to `reference`, one value a run.
    fn throughputs(&self, reference: [f64; 2]) -> Vec<f64> {
        let sum = |rates: &[f64; 2]| rates[0] / reference[0] + rates[1] / reference[1];
        self.rates.iter().map(sum).collect()
    }

    fn note(&self, demand: &Demand, variant: &str, reference: [f64; 2], results: &mut Results) {
        let throughput = spread(&self.throughputs(reference));
        results.row([
            demand.name.into(),
            variant.into(),
            self.rate(0).into(),
            self.rate(1).into(),
            throughput.min.into(),
            throughput.median.into(),
            throughput.max.into(),
            spread(&self.faults).median.into(),
            (self.failed as f64).into(),
        ]);
    }
}

/// What so many bursts come to.
fn goal(bursts: u32) -> f64 {
    f64::from(bursts * BURST)
}

/// What a program did in a second while it did not rest.
fn rate(trace: &Trace, index: usize, seconds: f64, bursts: Option<u32>) -> f64 {
    let Some(bursts) = bursts else {
        return trace.work(index, 0.0, seconds) / seconds;
    };
    let goal = goal(bursts);
    let reached = trace
        .samples
        .iter()
        .find(|s| s.programs[index].work >= goal);
    // The late one rests before each burst, the other between two.
    let rests = f64::from(REST * if index == 0 { bursts - 1 } else { bursts });
    match reached {
        Some(sample) => goal / (sample.at - rests),
        None => trace.work(index, 0.0, seconds) / (seconds - rests),
    }
}

/// A runner of one demand.
struct Trial<'a> {
    ground: &'a Ground,
    demand: &'a Demand,
    /// Our Java programs, compiled.
    classes: &'a Path,
}

impl Trial<'_> {
    /// Runs once: the broker without `part`, else a static split.
    fn run(
        &self,
        part: Option<u32>,
        stage: Stage,
        label: &str,
        outcomes: &mut Outcomes,
    ) -> Result<(Scenario, Trace), String> {
        let conditions = match part {
            Some(_) => Conditions::Bare,
            None => Conditions::Broker,
        };
        let scenario = scenario(self.demand, self.classes, part, stage);
        let label = format!("split, {}, {}, {label}", self.demand.name, name(part));
        let trace = run(self.ground, &scenario, conditions, &label)?;
        let bursts = self.demand.bursts.map(|bursts| bursts[stage as usize]);
        outcomes.add(&trace, scenario.seconds, bursts);
        Ok((scenario, trace))
    }

    fn search(&self) -> Result<Vec<(u32, Outcomes)>, String> {
        let mut tried = Vec::new();
        for part in COARSE {
            tried.push((part, self.once(part)?));
        }
        let best = ranked(&tried)[0];
        for part in [best - FINE, best + FINE] {
            tried.push((part, self.once(part)?));
        }
        tried.sort_by_key(|(part, _)| *part);
        Ok(tried)
    }

    fn once(&self, part: u32) -> Result<Outcomes, String> {
        let mut outcomes = Outcomes::default();
        self.run(Some(part), Stage::Search, "search", &mut outcomes)?;
        Ok(outcomes)
    }
}

/// The rates under the even split, to which others are relative.
fn reference(outcomes: &Outcomes) -> [f64; 2] {
    [0, 1].map(|i| outcomes.rate(i).max(1e-9))
}

/// The outcomes of the even split, which is always among those that were tried.
fn even(tried: &[(u32, Outcomes)]) -> Outcomes {
    let even = tried.iter().find(|(part, _)| *part == EVEN);
    even.map(|(_, outcomes)| outcomes.clone())
        .unwrap_or_default()
}

/// Which splits are run beside the broker.
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

fn compare(
    ground: &Ground,
    options: &Options,
    demand: &Demand,
    classes: &Path,
    results: &mut Results,
) -> Result<(), String> {
    let trial = Trial {
        ground,
        demand,
        classes,
    };
    let tried = trial.search()?;
    let [even_split, other] = rivals(&tried);
    let variants = [None, Some(even_split), Some(other)];
    let mut outcomes = variants.map(|_| Outcomes::default());
    for repetition in 1..=options.repeat {
        for (part, outcomes) in variants.iter().zip(&mut outcomes) {
            let label = format!("{repetition} of {}", options.repeat);
            let (scenario, trace) = trial.run(*part, Stage::Comparison, &label, outcomes)?;
            if repetition == 1 && part.is_none() {
                let file = folder().join(format!("split-{}.svg", demand.name.replace(' ', "-")));
                super::plot(
                    &format!("Two programs, demand {}", demand.name),
                    &scenario,
                    &trace,
                )
                .save(&file)?;
            }
        }
    }
    let reference = reference(&outcomes[1]);
    for (part, outcomes) in variants.iter().zip(&outcomes) {
        outcomes.note(demand, &name(*part), reference, results);
    }
    let searched = self::reference(&even(&tried));
    for (part, outcomes) in &tried {
        let variant = format!("search: {}", name(Some(*part)));
        outcomes.note(demand, &variant, searched, results);
    }
    let all = outcomes.map(|o| o.throughputs(reference));
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
    use crate::harness::trace::{Sample, Seen};

    fn outcomes(rates: [f64; 2]) -> Outcomes {
        Outcomes {
            rates: vec![rates],
            ..Outcomes::default()
        }
    }

    #[test]
    fn each_program_counts_relative_to_itself() {
        // The first is far faster in documents; what the second loses weighs as much all the same.
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
