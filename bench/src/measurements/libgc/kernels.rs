//! Too little memory on other kernels: one that does not track writes, one older than Linux 6.7, and one with
//! cgroup version 2 and the multi-generational LRU, in an emulated virtual machine (the guest).
//!
//! The guest runs this program too, which measures there and prints the results.

use super::limited_memory::{Level, Pressed, Pressure, Series, steady_faults, steady_pause};
use super::run_workloads::{Runs, ratio, target};
use crate::harness::libgc::{Collector, OURS, SYSTEM, Workload, built, heapload};
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::results::{Machine, Results, root};
use crate::runner::Runner;
use crate::{Error, Result};
use plimsoll_testbed::Refused;
use plimsoll_testbed::guest::{Guest, Kind, NoAnswer};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// The collectors. Those that run in the guest come first.
const COLLECTORS: [Collector; 4] = [
    SYSTEM,
    OURS,
    Collector::without(Refused::Tracking, "ours, no tracking"),
    Collector::without(Refused::TrackingAndScan, "ours, as before 6.7"),
];
const INSIDE: &[Collector] = &[SYSTEM, OURS];

const LIMIT: [Pressure; 1] = [Pressure::Limit(60)];

/// The beginning of the line that holds the guest's answer.
const ANSWER: &str = "measured inside: ";
/// How long to wait for the guest: its processor is emulated, which takes ten times as long.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Bytes of swap in the guest, whose disk is small.
const SWAP: u64 = 512 << 20;

fn workloads() -> Vec<Pressed> {
    vec![
        Pressed::new(Workload::largelive(200, 20_000_000, 1), &LIMIT),
        Pressed::new(Workload::bintree(19, 1), &LIMIT),
        Pressed::new(Workload::guile(1_000_000, 40_000), &LIMIT),
    ]
}

fn workloads_inside() -> Vec<Pressed> {
    let guest = |workload| Pressed::new(workload, &LIMIT).named("v2");
    vec![
        guest(Workload::largelive(40, 6_000_000, 1)),
        guest(Workload::bintree(17, 1)),
    ]
}

/// The guest's answer about one workload.
#[derive(Serialize, Deserialize)]
struct Answer {
    machine: Machine,
    /// State of the guest's multi-generational LRU (`/sys/kernel/mm/lru_gen/enabled`).
    generations: String,
    /// The runs, by level and collector.
    runs: Vec<Vec<Runs>>,
}

const FINISH: &str = "every run finishes";
const LESS: &str = "less time than libgc's";
const FAULTS: &str = "at most 100 major faults in a steady collection";
const V2: &str = "v2: steady pauses at most 1.2 times those without a limit";

/// The measurement `libgc-kernels`.
pub(crate) struct Kernels;

impl Measurement for Kernels {
    fn about(&self) -> About {
        About {
            name: "libgc-kernels",
            question: "Our collector in too little memory by other kernels: without tracking of \
                       writes, as before Linux 6.7, under cgroup version 2 with the \
                       multi-generational LRU",
            asks: &[FINISH, LESS, FAULTS, V2],
            minutes: 120,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let mut series = Series::new(&COLLECTORS, workloads());
        series.run(runner)?;
        let inside = workloads_inside().into_iter();
        let experiment = runner.experiment(inside.map(|one| (one.name.clone(), one)));
        let experiment = experiment.wanted().by_group();
        let ran = experiment.run(|one, turn| ask(&one.name, runner, &turn.progress))?;
        let mut guest = None;
        for variant in ran {
            let mut one = variant.what;
            for answer in variant.outcomes {
                for (level, runs) in one.levels.iter_mut().zip(answer.runs) {
                    level.runs.resize(runs.len(), Runs::default());
                    for (all, runs) in level.runs.iter_mut().zip(runs) {
                        all.0.extend(runs.0);
                    }
                }
                guest = Some((answer.machine, answer.generations));
            }
            series.pressed.push(one);
        }
        Ok(report(&series, runner, guest))
    }

    fn run_inside(&self, runner: &Runner) -> Result<()> {
        let mut series = Series::new(INSIDE, workloads_inside()).swap(SWAP);
        series.run(runner)?;
        let generations = std::fs::read_to_string("/sys/kernel/mm/lru_gen/enabled");
        let levels = series.pressed.into_iter().flat_map(|one| one.levels);
        let answer = Answer {
            machine: Machine::this(),
            generations: generations.unwrap_or_default().trim().to_owned(),
            runs: levels.map(|level| level.runs).collect(),
        };
        let answer = serde_json::to_string(&answer).expect("text and numbers");
        println!("\n{ANSWER}{answer}");
        Ok(())
    }
}

/// Boots the guest, which runs one workload once, and waits for its answer.
fn ask(workload: &str, runner: &Runner, progress: &Progress) -> Result<Answer> {
    let own = Path::new("/proc/self/exe");
    let program = std::env::current_exe().map_err(Error::file("read", own))?;
    let only = workload.split(',').next().unwrap_or_default();
    let arguments = format!("{} --inside --repeat 1 --only {only}", runner.name());
    // By this manifest the program finds the root of its checkout.
    let files = [heapload(), built(), root().join("Cargo.toml")];
    let guest = Guest {
        kind: Kind::Emulated,
        name: "guest-bench",
        scratch: &root().join(".cache"),
        program: &program,
        arguments: &arguments,
        files: &files.each_ref().map(|file| file.as_path()),
        patience: PATIENCE,
    };
    let progress = progress.part("in the guest");
    let said = guest.run(&mut |last| progress.tell(format_args!("{last}")));
    let said = said.map_err(|e| match e {
        NoAnswer::Missing(what) | NoAnswer::Failed(what) => Error::Guest(what),
    })?;
    let answer = said.split_once(ANSWER).map(|(_, rest)| rest);
    let answer = answer.and_then(|rest| rest.lines().next());
    let answer = answer.ok_or_else(|| Error::Guest(format!("it gave no figures: {said}")))?;
    serde_json::from_str(answer).map_err(|e| Error::Guest(format!("its figures: {e}")))
}

fn report(series: &Series, runner: &Runner, guest: Option<(Machine, String)>) -> Results {
    let mut method = "As `libgc-pressure`, with a limit of 60 %. No tracking: `userfaultfd` is refused, as \
                      the profiles of containers do; as before 6.7: `PAGEMAP_SCAN`, too (both by seccomp)."
        .to_owned();
    if let Some((guest, generations)) = guest {
        method += &format!(
            " v2: Linux {} with cgroup {} and \
             the multi-generational LRU (`lru_gen/enabled` {generations}), emulated by QEMU with one \
             processor and {:.1} GiB; largelive with 0.7 million objects and 6 million cells, bintree of \
             depth 17.",
            guest.kernel,
            guest.cgroup,
            guest.memory as f64 / (1u64 << 30) as f64,
        );
    }
    let title = "Our collector in too little memory, by other kernels.";
    let mut results = series.table(title, &method, runner);
    let ours = |level: &Level| level.runs[1..].to_vec();
    let levels = series.pressed.iter().flat_map(Pressed::pressed);
    let runs: Vec<Runs> = levels.flat_map(ours).collect();
    let all: usize = runs.iter().map(|runs| runs.0.len()).sum();
    let finished: usize = runs.iter().map(Runs::finished).sum();
    results.target(FINISH, format!("{finished} of {all}"), finished == all);
    each(&mut results, series, LESS, 1.0, |_, level, index| {
        let (libgc, ours) = (&level.runs[0], &level.runs[index]);
        let both = libgc.survived() && ours.all_finished();
        both.then(|| ours.least_seconds() / libgc.least_seconds().max(1e-9))
    });
    each(&mut results, series, FAULTS, 100.0, |_, level, index| {
        level.runs[index].median(steady_faults)
    });
    let v2 = series.figures(|one, level| {
        let free = one.levels[0].runs[1].median(steady_pause);
        let pause = ratio(level.runs[1].median(steady_pause), free);
        pause.filter(|_| level.runs.len() == INSIDE.len())
    });
    target(&mut results, V2, &v2, 1.2);
    results
}

/// Notes a target for each of our collectors, whether it ran here or in the guest.
fn each(
    results: &mut Results,
    series: &Series,
    claim: &str,
    most: f64,
    of: impl Fn(&Pressed, &Level, usize) -> Option<f64>,
) {
    let mut figures = Vec::new();
    for (index, collector) in COLLECTORS.iter().enumerate().skip(1) {
        let of = |one: &Pressed, level: &Level| {
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
