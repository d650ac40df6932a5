//! Enough memory: our collector against libgc, by time, pauses and memory.

use super::stage::{Runs, Stage, cell, ratio, target};
use crate::harness::ground::SWAP;
use crate::harness::job::Outcome;
use crate::harness::libgc::{OURS, SYSTEM, Workload};
use crate::report::curves;
use crate::report::results::{Results, folder};
use crate::scenarios::{MIB, Options};

/// A workload, and its runs with libgc and with ours.
struct Pair {
    workload: Workload,
    runs: [Runs; 2],
}

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

/// Runs the measurement.
///
/// # Errors
/// A sentence on what could not be set up or started, or went wrong.
pub fn measure(options: &Options) -> Result<(), String> {
    let mut stage = Stage::new("libgc-plain", SWAP)?;
    let mut pairs: Vec<Pair> = workloads()
        .into_iter()
        .filter(|workload| options.wants(&workload.name))
        .map(|workload| Pair {
            workload,
            runs: Default::default(),
        })
        .collect();
    for repetition in 1..=options.repeat {
        for Pair { workload, runs } in &mut pairs {
            let label = format!(
                "libgc, {}, {repetition} of {}",
                workload.name, options.repeat
            );
            for (runs, collector) in runs.iter_mut().zip([SYSTEM, OURS]) {
                let outcome = stage.run_freely(workload, 1, collector, &label)?;
                runs.0.push(outcome);
            }
        }
    }
    if let Some(pair) = pairs.iter().find(|pair| pair.workload.name == "largelive") {
        let [system, ours] = &pair.runs;
        curves::save(
            "largelive in enough memory: utilization",
            &[
                system.curve(SYSTEM.name, 0, false),
                ours.curve(OURS.name, 1, false),
            ],
            &folder().join("libgc-largelive.svg"),
        )?;
    }
    report(&pairs, options.repeat)
        .save()
        .map_err(|e| e.to_string())
}

fn resident(run: &Outcome) -> f64 {
    run.resident as f64 / MIB
}

/// What our tables take of the resident peak, percent; of programs that tell.
fn tables(run: &Outcome) -> f64 {
    let bytes = run.told("before_heap").unwrap_or(0) as f64;
    bytes / run.resident.max(1) as f64 * 100.0
}

fn longest(run: &Outcome) -> f64 {
    run.pauses.longest() * 1e3
}

impl Pair {
    /// Ours of libgc's.
    fn ratio(&self, of: impl Fn(&Outcome) -> f64) -> Option<f64> {
        let [system, ours] = &self.runs;
        ratio(ours.median(&of), system.median(&of))
    }

    fn tells(&self) -> bool {
        let runs = self.runs[1].0.first();
        runs.is_some_and(|run| run.told("before_heap").is_some())
    }

    fn note(&self, results: &mut Results) {
        for (runs, collector) in self.runs.iter().zip([SYSTEM, OURS]) {
            let ours = collector == OURS;
            let relative = |of: fn(&Outcome) -> f64| cell(self.ratio(of).filter(|_| ours));
            let tables = runs.median(tables).filter(|_| ours && self.tells());
            results.row([
                self.workload.name.as_str().into(),
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
}

const METHOD: &str = "\
     Unchanged programs, each with libgc and with ours in turn. largelive: 9.8 million objects of \
     64 bytes that live (with two threads, half of them each), then 60 million cells that die young. \
     bintree: depth 20. gcbench: five rounds, by each thread. Guile: a hash table of a million entries, \
     20,000 rounds of garbage. Nix: 400,000 attribute sets. Pauses are from before the world is stopped \
     to after it is started again, by the same events of both libraries. Tables: what is resident of the \
     metadata beside our heap at the end, of the resident peak.";

fn report(pairs: &[Pair], repeat: usize) -> Results {
    let mut results = Results::new(
        "libgc",
        "Our collector in the place of Debian's libgc 8.2.2, in enough memory.",
        METHOD,
        repeat,
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
    pairs.iter().for_each(|pair| pair.note(&mut results));
    let figures = |wanted: &dyn Fn(&str) -> bool, of: &dyn Fn(&Pair) -> Option<f64>| {
        let wanted = pairs.iter().filter(|pair| wanted(&pair.workload.name));
        wanted
            .filter_map(|pair| Some((pair.workload.name.clone(), of(pair)?)))
            .collect::<Vec<_>>()
    };
    let large = |name: &str| name.starts_with("largelive");
    let trees = |name: &str| name.starts_with("gcbench") || name.starts_with("bintree");
    let seconds = |pair: &Pair| pair.ratio(|run| run.seconds);
    target(
        &mut results,
        "largelive: longest pause at most 0.25 of libgc's",
        &figures(&large, &|pair| pair.ratio(longest)),
        0.25,
    );
    target(
        &mut results,
        "largelive: time at most 0.5 of libgc's",
        &figures(&large, &seconds),
        0.5,
    );
    target(
        &mut results,
        "gcbench and bintree: time at most libgc's",
        &figures(&trees, &seconds),
        1.0,
    );
    target(
        &mut results,
        "resident peak at most libgc's",
        &figures(&|_| true, &|pair| pair.ratio(resident)),
        1.0,
    );
    target(
        &mut results,
        "metadata at most 2 %",
        &figures(&|_| true, &|pair| {
            pair.runs[1].median(tables).filter(|_| pair.tells())
        }),
        2.0,
    );
    results
}
