//! Against the best static split: two programs share a budget, either both busy or in turn.
//!
//! The rival is found by search: every split of the heap between the two, in steps, with fixed heaps and no broker.

use super::Options;
use crate::harness::ground::Ground;
use crate::harness::programs::{Jvm, NATIVE, lucene};
use crate::harness::runner::run;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::report::results::{Results, folder};
use crate::report::statistics::{Spread, spread};

const BUDGET: u64 = 560 << 20;
const SECONDS: f64 = 75.0;
/// The part of the heap memory that the first program gets.
const SPLITS: [f64; 5] = [0.3, 0.4, 0.5, 0.6, 0.7];
const JVM: Jvm = Jvm {
    version: 17,
    collector: "Serial",
};

/// Runs the measurement.
///
/// # Errors
/// A sentence on what could not be set up or started.
pub fn measure(options: &Options) -> Result<(), String> {
    let ground = Ground::new("split")?;
    let mut results = Results::new(
        "split",
        "Throughput of two programs together: the broker against the best static split.",
        "Two Lucene benchmarks on JDK 17 with the Serial collector in 560 MB for 75 s; thousands of documents indexed by both. Steady: \
         both work all the time. In turn: each works on 150,000 documents, drops them, rests 10 s; the second begins with its rest. Static: \
         -Xms and -Xmx for both, no broker, the best of five splits.",
        options.repeat,
    )
    .columns(&[
        ("demand", ""),
        ("variant", ""),
        ("documents, min", "thousands"),
        ("median", "thousands"),
        ("max", "thousands"),
        ("major faults", ""),
        ("killed or failed", ""),
    ]);
    for (demand, algorithms) in [
        ("steady", ["share", "share"]),
        ("in turn", ["burst", "burst-late"]),
    ] {
        if options.wants(demand) {
            compare(&ground, options, demand, algorithms, &mut results)?;
        }
    }
    results.save().map_err(|e| e.to_string())
}

#[derive(Default)]
struct Outcomes {
    documents: Vec<f64>,
    faults: Vec<f64>,
    failed: usize,
}

fn compare(
    ground: &Ground,
    options: &Options,
    demand: &str,
    algorithms: [&str; 2],
    results: &mut Results,
) -> Result<(), String> {
    let mut variants: Vec<(String, Option<f64>)> = vec![("broker".to_owned(), None)];
    variants.extend(SPLITS.iter().map(|part| {
        (
            format!("static {:.0}:{:.0}", part * 100.0, (1.0 - part) * 100.0),
            Some(*part),
        )
    }));
    let mut outcomes: Vec<Outcomes> = variants.iter().map(|_| Outcomes::default()).collect();
    for repetition in 1..=options.repeat {
        for ((name, part), outcome) in variants.iter().zip(&mut outcomes) {
            let conditions = if part.is_some() {
                Conditions::Bare
            } else {
                Conditions::Broker
            };
            let scenario = scenario(algorithms, *part);
            let label = format!(
                "split, {demand}, {name}, {repetition} of {}",
                options.repeat
            );
            let trace = run(ground, &scenario, conditions, &label)?;
            if repetition == 1 && part.is_none() {
                let file = folder().join(format!("split-{}.svg", demand.replace(' ', "-")));
                super::plot(&format!("Two programs, demand {demand}"), &scenario, &trace)
                    .save(&file)?;
            }
            outcome.add(&trace);
        }
    }
    for ((name, _), outcome) in variants.iter().zip(&outcomes) {
        let documents = spread(&outcome.documents);
        results.row([
            demand.into(),
            name.as_str().into(),
            documents.min.into(),
            documents.median.into(),
            documents.max.into(),
            spread(&outcome.faults).median.into(),
            (outcome.failed as f64).into(),
        ]);
    }
    judge(demand, &variants, &outcomes, results);
    Ok(())
}

fn judge(
    demand: &str,
    variants: &[(String, Option<f64>)],
    outcomes: &[Outcomes],
    results: &mut Results,
) {
    let medians: Vec<Spread> = outcomes.iter().map(|o| spread(&o.documents)).collect();
    let ours = medians[0].median;
    let best = (1..medians.len())
        .max_by(|a, b| medians[*a].median.total_cmp(&medians[*b].median))
        .unwrap_or(0);
    let ratio = ours / medians[best].median.max(1e-9);
    let claim = match demand {
        "steady" => "steady: at least the throughput of the best static split",
        _ => "in turn: more than the best static split",
    };
    results.target(
        claim,
        format!("{ratio:.3} of {}", variants[best].0),
        ratio >= 1.0,
    );
}

impl Outcomes {
    fn add(&mut self, trace: &Trace) {
        let documents: f64 = (0..2).map(|i| trace.work(i, 0.0, SECONDS)).sum();
        self.documents.push(documents / 1000.0);
        self.faults.push(
            (0..2)
                .map(|i| trace.count(i, |p| p.major_faults))
                .sum::<u64>() as f64,
        );
        let ended_early = trace
            .samples
            .last()
            .map_or(0, |s| s.programs.iter().filter(|p| !p.alive).count());
        let out_of_memory = |line: &String| line.contains("OutOfMemoryError");
        self.failed += ended_early.max(
            trace
                .endings
                .iter()
                .filter(|e| e.output.iter().any(out_of_memory))
                .count(),
        );
    }
}

fn scenario(algorithms: [&str; 2], part: Option<f64>) -> Scenario {
    let heaps = (BUDGET - 2 * NATIVE) as f64;
    let program = |index: usize| {
        let heap = part.map(|part| (heaps * if index == 0 { part } else { 1.0 - part }) as u64);
        let algorithm = format!("bench/programs/lucene/{}.alg", algorithms[index]);
        Program {
            name: ["first", "second"][index].to_owned(),
            weight: 100,
            command: lucene(JVM, heap, &algorithm),
            ..Program::default()
        }
    };
    Scenario {
        budget: BUDGET,
        seconds: SECONDS,
        until_done: false,
        programs: vec![program(0), program(1)],
        changes: Vec::new(),
    }
}
