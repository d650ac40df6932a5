//! Too little memory by other kernels: one that does not track writes, one of before Linux 6.7, and
//! one with cgroup version 2 and the multi-generational LRU, in an emulated guest.
//!
//! The guest runs this very program, which measures there and tells what came of it.

use super::pressed::{Experiment, Level, Pressure, Series, steady_faults, steady_pause};
use super::stage::{Runs, ratio, target};
use crate::harness::libgc::{Collector, OURS, SYSTEM, Workload, built, heapload};
use crate::report::results::{Machine, Results, root};
use crate::scenarios::Options;
use plimsoll_testbed::Refused;
use plimsoll_testbed::guest::{Guest, NoAnswer};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const NAME: &str = "libgc-kernels";

/// Those of the guest come first.
const COLLECTORS: [Collector; 4] = [
    SYSTEM,
    OURS,
    Collector::without(Refused::Tracking, "ours, no tracking"),
    Collector::without(Refused::TrackingAndScan, "ours, as before 6.7"),
];
const INSIDE: &[Collector] = &[SYSTEM, OURS];

const LIMIT: [Pressure; 1] = [Pressure::Limit(60)];

/// What is before the answer of the guest, on a line of its own.
const ANSWER: &str = "measured inside: ";
/// Emulated, so it takes ten times as long.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Bytes of swap in the guest, whose disk is small.
const SWAP: u64 = 512 << 20;

fn experiments() -> Vec<Experiment> {
    vec![
        Experiment::new(Workload::largelive(200, 20_000_000, 1), &LIMIT),
        Experiment::new(Workload::bintree(19, 1), &LIMIT),
        Experiment::new(Workload::guile(1_000_000, 40_000), &LIMIT),
    ]
}

fn experiments_inside() -> Vec<Experiment> {
    let guest = |workload| Experiment::new(workload, &LIMIT).named("v2");
    vec![
        guest(Workload::largelive(40, 6_000_000, 1)),
        guest(Workload::bintree(17, 1)),
    ]
}

/// What the guest tells.
#[derive(Serialize, Deserialize)]
struct Answer {
    machine: Machine,
    /// The kernel's word on the multi-generational LRU.
    generations: String,
    /// By experiment, level and collector.
    runs: Vec<Vec<Vec<Runs>>>,
}

/// Runs the measurement.
///
/// # Errors
/// A sentence on what could not be set up or started, or went wrong.
pub fn measure(options: &Options) -> Result<(), String> {
    let mut series = Series::new(NAME, &COLLECTORS, experiments());
    series.run(options)?;
    let answer = ask(options)?;
    let inside = experiments_inside();
    for (mut one, levels) in wanted(inside, options).zip(answer.runs) {
        for (level, runs) in one.levels.iter_mut().zip(levels) {
            level.runs = runs;
        }
        series.experiments.push(one);
    }
    report(
        &series,
        options.repeat,
        &answer.machine,
        &answer.generations,
    )
    .save()
    .map_err(|e| e.to_string())
}

fn wanted(all: Vec<Experiment>, options: &Options) -> impl Iterator<Item = Experiment> {
    all.into_iter().filter(|one| options.wants(&one.name))
}

/// In the guest: measures, and tells on standard output what came of it.
///
/// # Errors
/// As [`measure`].
pub fn measure_inside(options: &Options) -> Result<(), String> {
    let mut series = Series::new(NAME, INSIDE, experiments_inside()).swap(SWAP);
    series.run(options)?;
    let levels = |one: Experiment| one.levels.into_iter().map(|level| level.runs).collect();
    let generations = std::fs::read_to_string("/sys/kernel/mm/lru_gen/enabled");
    let answer = Answer {
        machine: Machine::this(),
        generations: generations.unwrap_or_default().trim().to_owned(),
        runs: series.experiments.into_iter().map(levels).collect(),
    };
    let answer = serde_json::to_string(&answer).map_err(|e| e.to_string())?;
    println!("\n{ANSWER}{answer}");
    Ok(())
}

/// Boots the guest, and waits for its answer.
fn ask(options: &Options) -> Result<Answer, String> {
    let program = std::env::current_exe().map_err(|e| format!("our own path: {e}"))?;
    let mut arguments = format!("{NAME} --inside --repeat {}", options.repeat);
    if let Some(only) = &options.only {
        arguments = format!("{arguments} --only {only}");
    }
    // The manifest shows the program where its checkout is.
    let files = [heapload(), built(), root().join("Cargo.toml")];
    let guest = Guest {
        name: "guest-bench",
        scratch: &root().join(".cache"),
        program: &program,
        arguments: &arguments,
        files: &files.each_ref().map(|file| file.as_path()),
        patience: PATIENCE,
    };
    let said = guest.run(&mut |last| eprint!("\rin the guest: {last:<64.64}"));
    eprint!("\r{:79}\r", "");
    let said = match said {
        Ok(said) => said,
        Err(NoAnswer::Missing(what) | NoAnswer::Failed(what)) => {
            return Err(format!("nothing was measured in the guest: {what}"));
        }
    };
    let answer = said.split_once(ANSWER).map(|(_, rest)| rest);
    let answer = answer.and_then(|rest| rest.lines().next());
    let answer = answer.ok_or_else(|| format!("the guest gave no answer: {said}"))?;
    serde_json::from_str(answer).map_err(|e| format!("the guest's answer: {e}"))
}

fn report(series: &Series, repeat: usize, guest: &Machine, generations: &str) -> Results {
    let method = format!(
        "As `libgc-pressure`, with a limit of 60 %. No tracking: `userfaultfd` is refused, as the \
         profiles of containers do; as before 6.7: `PAGEMAP_SCAN`, too (both by seccomp). v2: Linux {} \
         with cgroup {} and \
         the multi-generational LRU (`lru_gen/enabled` {generations}), emulated by QEMU with one \
         processor and {:.1} GiB; largelive with 0.7 million objects and 6 million cells, bintree of \
         depth 17.",
        guest.kernel,
        guest.cgroup,
        guest.memory as f64 / (1u64 << 30) as f64,
    );
    let title = "Our collector in too little memory, by other kernels.";
    let mut results = series.table(title, &method, repeat);
    let ours = |level: &Level| level.runs[1..].to_vec();
    let levels = series.experiments.iter().flat_map(Experiment::pressed);
    let runs: Vec<Runs> = levels.flat_map(ours).collect();
    let all: usize = runs.iter().map(|runs| runs.0.len()).sum();
    let finished: usize = runs.iter().map(Runs::finished).sum();
    results.target(
        "every run finishes",
        format!("{finished} of {all}"),
        finished == all,
    );
    each(
        &mut results,
        series,
        "less time than libgc's",
        1.0,
        |_, level, index| {
            let (libgc, ours) = (&level.runs[0], &level.runs[index]);
            let both = libgc.survived() && ours.all_finished();
            both.then(|| ours.least_seconds() / libgc.least_seconds().max(1e-9))
        },
    );
    let few = "at most 100 major faults in a steady collection";
    each(&mut results, series, few, 100.0, |_, level, index| {
        level.runs[index].median(steady_faults)
    });
    let v2 = series.figures(|one, level| {
        let free = one.levels[0].runs[1].median(steady_pause);
        let pause = ratio(level.runs[1].median(steady_pause), free);
        pause.filter(|_| level.runs.len() == INSIDE.len())
    });
    let claim = "v2: steady pauses at most 1.2 times those without a limit";
    target(&mut results, claim, &v2, 1.2);
    results
}

/// A target of each of our collectors, wherever it was run.
fn each(
    results: &mut Results,
    series: &Series,
    claim: &str,
    most: f64,
    of: impl Fn(&Experiment, &Level, usize) -> Option<f64>,
) {
    let mut figures = Vec::new();
    for (index, collector) in COLLECTORS.iter().enumerate().skip(1) {
        let of = |one: &Experiment, level: &Level| {
            (index < level.runs.len()).then(|| of(one, level, index))?
        };
        let named = |(at, figure): (String, f64)| {
            let at = at.trim_end_matches(':');
            (format!("{at}, {}:", collector.name), figure)
        };
        figures.extend(series.figures(of).into_iter().map(named));
    }
    target(results, claim, &figures, most);
}
