//! Enough memory: our collector is compared with libgc by time, pauses and memory.

use super::pairs::Pair;
use super::run_workloads::{Stage, cell, target};
use crate::Result;
use crate::harness::ground::SWAP;
use crate::harness::job::Outcome;
use crate::harness::libgc::{OURS, SYSTEM, Workload};
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::runner::Runner;
use plimsoll_unit::float::MIB;

fn workloads() -> Vec<Workload> {
    let mut all = Vec::new();
    for threads in [1, 2] {
        all.extend([
            Workload::largelive(600, 60_000_000, threads),
            Workload::bintree(20, threads),
            Workload::gcbench(5, threads),
        ]);
    }
    all.push(Workload::guile(1_000_000, 20_000));
    all.extend(Workload::nix(400_000, 1_000_000));
    all
}

const PAUSE: &str = "largelive: longest pause at most 0.25 of libgc's";
const LARGE: &str = "largelive: time at most 0.5 of libgc's";
const TREES: &str = "gcbench and bintree: time at most libgc's";
const PEAK: &str = "resident peak at most libgc's";
const METADATA: &str = "metadata at most 2 %";

/// The measurement `libgc`.
pub(crate) struct Plain;

impl Measurement for Plain {
    fn about(&self) -> About {
        About {
            name: "libgc",
            question: "Our collector in the place of libgc, in enough memory: time, pauses, memory",
            asks: &[PAUSE, LARGE, TREES, PEAK, METADATA],
            minutes: 15,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let mut stage = Stage::new(runner.name(), SWAP)?;
        let pairs = Pair::all(workloads(), &mut stage, runner)?;
        if let Some(pair) = pairs.iter().find(|pair| pair.name == "largelive") {
            let [system, ours] = &pair.runs;
            let lines = [
                system.curve(SYSTEM.name, 0, false),
                ours.curve(OURS.name, 1, false),
            ];
            let title = "largelive in enough memory: utilization";
            runner.curves("largelive", title, &lines)?;
        }
        Ok(report(&pairs, runner))
    }
}

fn resident(run: &Outcome) -> f64 {
    run.resident as f64 / MIB
}

/// Percent of the peak of resident memory that the tables of our collector take, for programs that print it.
fn tables(run: &Outcome) -> f64 {
    let bytes = run.told("before_heap").unwrap_or(0) as f64;
    bytes / run.resident.max(1) as f64 * 100.0
}

fn longest(run: &Outcome) -> f64 {
    run.pauses.longest() * 1e3
}

/// Whether the program prints what the tables take.
fn tells(pair: &Pair) -> bool {
    let runs = pair.runs[1].0.first();
    runs.is_some_and(|run| run.told("before_heap").is_some())
}

fn note(pair: &Pair, results: &mut Results) {
    for (runs, collector) in pair.runs.iter().zip([SYSTEM, OURS]) {
        let ours = collector == OURS;
        let relative = |of: fn(&Outcome) -> f64| cell(pair.ratio(of).filter(|_| ours));
        let tables = runs.median(tables).filter(|_| ours && tells(pair));
        results.row([
            pair.name.as_str().into(),
            collector.name.into(),
            cell(runs.median(|run| run.seconds)),
            relative(|run| run.seconds),
            cell(runs.median(longest)),
            relative(longest),
            cell(runs.median(|run| run.pauses.median() * 1e3)),
            cell(runs.median(|run| run.pauses.0.len() as f64)),
            cell(runs.median(resident)),
            relative(resident),
            cell(tables),
        ]);
    }
}

const METHOD: &str = "\
     Unchanged programs, each with libgc and with ours in turn. largelive: 9.8 million objects of \
     64 bytes that live (with two threads, half of them each), then 60 million cells that die young. \
     bintree: depth 20. gcbench: five rounds, by each thread. Guile: a hash table of a million entries, \
     20,000 rounds of garbage. Nix: 400,000 attribute sets. Pauses are from before the world is stopped \
     to after it is started again, by the same events of both libraries. Tables: what is resident of the \
     metadata beside our heap at the end, of the resident peak.";

fn report(pairs: &[Pair], runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "Our collector in the place of Debian's libgc 8.2.2, in enough memory.",
            METHOD,
        )
        .columns(&[
            ("program", ""),
            ("collector", ""),
            ("time", "s"),
            ("of libgc's", ""),
            ("longest pause", "ms"),
            ("of libgc's", ""),
            ("median pause", "ms"),
            ("pauses", ""),
            ("resident", "MiB"),
            ("of libgc's", ""),
            ("tables", "%"),
        ]);
    pairs.iter().for_each(|pair| note(pair, &mut results));
    let figures = |wanted: &dyn Fn(&str) -> bool, of: &dyn Fn(&Pair) -> Option<f64>| {
        let wanted = pairs.iter().filter(|pair| wanted(&pair.name));
        wanted
            .filter_map(|pair| Some((pair.name.clone(), of(pair)?)))
            .collect::<Vec<_>>()
    };
    let large = |name: &str| name.starts_with("largelive");
    let trees = |name: &str| name.starts_with("gcbench") || name.starts_with("bintree");
    let seconds = |pair: &Pair| pair.ratio(|run| run.seconds);
    target(
        &mut results,
        PAUSE,
        &figures(&large, &|pair| pair.ratio(longest)),
        0.25,
    );
    target(&mut results, LARGE, &figures(&large, &seconds), 0.5);
    target(&mut results, TREES, &figures(&trees, &seconds), 1.0);
    target(
        &mut results,
        PEAK,
        &figures(&|_| true, &|pair| pair.ratio(resident)),
        1.0,
    );
    target(
        &mut results,
        METADATA,
        &figures(&|_| true, &|pair| {
            pair.runs[1].median(tables).filter(|_| tells(pair))
        }),
        2.0,
    );
    results
}
