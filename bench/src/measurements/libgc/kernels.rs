//! Too little memory on other kernels: one that does not track writes, one older than Linux 6.7, and one with
//! cgroup version 2 and the multi-generational LRU, in an emulated virtual machine (the guest).

use super::limited_memory::{Level, Pressed, Pressure, Series, steady_faults, steady_pause};
use super::run_workloads::{Runs, Stage, ratio, target};
use crate::Result;
use crate::harness::job::Outcome;
use crate::harness::libgc::{Collector, OURS, SYSTEM, Workload, built, heapload};
use crate::measurement::{About, Measurement};
use crate::report::results::{Machine, Results, root};
use crate::runner::{self, Elsewhere, Runner, Turn};
use plimsoll_testbed::Refused;
use serde::{Deserialize, Serialize};

/// The collectors. Those that run in the guest come first.
const COLLECTORS: [Collector; 4] = [
    SYSTEM,
    OURS,
    Collector::without(Refused::Tracking, "ours, no tracking"),
    Collector::without(Refused::TrackingAndScan, "ours, as before 6.7"),
];
const INSIDE: &[Collector] = &[SYSTEM, OURS];

const LIMIT: [Pressure; 1] = [Pressure::Limit(60)];

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
    let guest =
        |workload| Pressed::new(workload, &LIMIT).named(runner::V2.trim_start_matches(", "));
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
    runs: Vec<Vec<Outcome>>,
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
        // By this manifest the program finds the root of its checkout.
        let files = vec![heapload(), built(), root().join("Cargo.toml")];
        let experiment = experiment
            .wanted()
            .by_group()
            .elsewhere(Elsewhere::emulated(files), |_| true);
        let ran = experiment.run(|one, turn| answer(one, runner, turn))?;
        let mut guest = None;
        for variant in ran {
            let mut one = variant.what;
            for answer in variant.outcomes {
                one.keep(answer.runs, INSIDE.len());
                guest = Some((answer.machine, answer.generations));
            }
            series.pressed.push(one);
        }
        Ok(report(&series, runner, guest))
    }
}

/// One run of a workload in the guest.
fn answer(one: &Pressed, runner: &Runner, turn: &Turn<'_>) -> Result<Answer> {
    let mut stage = Stage::new(runner.name(), SWAP)?;
    let runs = one.run(&mut stage, INSIDE, runner, turn)?;
    let generations = std::fs::read_to_string("/sys/kernel/mm/lru_gen/enabled");
    Ok(Answer {
        machine: Machine::this(),
        generations: generations.unwrap_or_default().trim().to_owned(),
        runs,
    })
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
