//! The table that compares the runs with a broker and the runs with fixed sizes.

use super::{HOG_START, HOLD, SECONDS};
use crate::harness::scenario::{Program, Scenario};
use crate::harness::trace::{Seen, Trace};
use crate::report::results::Results;
use crate::runner::Runner;
use serde::{Deserialize, Serialize};

/// Work is counted until this time, in seconds since the start of the run. With a broker the programs end 2 s
/// before the run ends.
const END: f64 = SECONDS - 4.0;
/// From when until when the hog holds memory, in seconds since the start of the run. It takes 8 s to get it,
/// and as long to give it back.
const BESIDE: (f64, f64) = (HOG_START, HOG_START + HOLD + 16.0);

pub(super) const WORK: &str = "the demo: work of all (geometric mean) at least that of fixed sizes";
pub(super) const FAULTS: &str = "the demo: under 1 % of their major faults";

/// The figures of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    /// Figures of each program that shares memory, as [`OF_EACH`] names them.
    each: Vec<[f64; OF_EACH.len()]>,
    /// Figures of all together, as [`OF_ALL`] names them.
    all: [f64; OF_ALL.len()],
}

/// The rows of each program, and those of all.
const OF_EACH: [&str; 6] = [
    "work",
    "beside the hog",
    "processor seconds",
    "collections",
    "seconds in them",
    "major faults",
];
const OF_ALL: [&str; 5] = [
    "allocation stalls",
    "pages swapped in and out",
    "times the limit was hit",
    "ended before their time",
    "yardstick, microseconds",
];
/// The places of what is judged in them.
const DONE: usize = 0;
const MAJOR: usize = 5;
const YARDSTICK: usize = 4;

impl Run {
    pub(super) fn of(scenario: &Scenario, trace: &Trace) -> Run {
        let count = |index: usize, counter: fn(&Seen) -> u64| trace.count(index, counter) as f64;
        let each = ours(scenario).map(|(index, _)| {
            [
                trace.work(index, 0.0, END),
                trace.work(index, BESIDE.0, BESIDE.1),
                count(index, |p| p.processor_ticks) / 100.0,
                count(index, |p| p.collections),
                count(index, |p| p.collection_ns) / 1e9,
                count(index, |p| p.major_faults),
            ]
        });
        let stalls = ours(scenario).map(|(index, _)| count(index, |p| p.stalls));
        let last = trace.samples.last().cloned().unwrap_or_default();
        Run {
            each: each.collect(),
            all: [
                stalls.sum(),
                last.swap_traffic as f64,
                last.limit_hits as f64,
                ended(scenario, trace) as f64,
                trace.yardstick_ns(0.0, END) / 1000.0,
            ],
        }
    }

    fn faults(&self) -> f64 {
        self.each.iter().map(|each| each[MAJOR]).sum()
    }
}

/// The runs: with a broker, fixed, fixed, with a broker. Each list is in the order of its runs.
#[derive(Default)]
pub(super) struct Runs {
    pub(super) shared: Vec<Run>,
    pub(super) fixed: Vec<Run>,
}

impl Runs {
    /// The table, with a column for each run.
    pub(super) fn results(&self, scenario: &Scenario, runner: &Runner) -> Results {
        let columns = std::iter::once("")
            .chain(self.shared.iter().map(|_| "broker"))
            .chain(self.fixed.iter().map(|_| "fixed"));
        let columns: Vec<(&str, &str)> = columns.map(|name| (name, "")).collect();
        let mut results = runner.results(TITLE, METHOD).columns(&columns);
        // Each column is one run, so nothing is repeated.
        results.repetitions = 1;
        for (place, (_, program)) in ours(scenario).enumerate() {
            for (of, what) in OF_EACH.iter().enumerate() {
                let name = format!("{}: {what}", program.name);
                self.row(&mut results, &name, &|run| run.each[place][of]);
            }
        }
        for (of, what) in OF_ALL.iter().enumerate() {
            self.row(&mut results, what, &|run| run.all[of]);
        }
        if !self.fixed.is_empty() {
            self.judge(&mut results);
        }
        results
    }

    fn row(&self, results: &mut Results, name: &str, value: &dyn Fn(&Run) -> f64) {
        let cells = self.shared.iter().chain(&self.fixed);
        let cells = cells.map(|run| value(run).into());
        results
            .rows
            .push(std::iter::once(name.into()).chain(cells).collect());
    }

    fn judge(&self, results: &mut Results) {
        let mean = |runs: &[Run], value: &dyn Fn(&Run) -> f64| {
            runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64
        };
        let ratio = |value: &dyn Fn(&Run) -> f64| {
            mean(&self.shared, value) / mean(&self.fixed, value).max(1e-9)
        };
        let programs = 0..self.fixed[0].each.len();
        let works: Vec<f64> = programs
            .map(|place| ratio(&|run| run.each[place][DONE]))
            .collect();
        let together = works.iter().product::<f64>().powf(1.0 / works.len() as f64);
        let each: Vec<String> = works.iter().map(|work| format!("{work:.2}")).collect();
        let speed = 1.0 / ratio(&|run| run.all[YARDSTICK]);
        results.target(
            WORK,
            format!(
                "{together:.2} ({}; by the yardstick the machine was {speed:.2} times as fast)",
                each.join(", ")
            ),
            together >= 1.0,
        );
        let (with, without) = (
            mean(&self.shared, &Run::faults),
            mean(&self.fixed, &Run::faults),
        );
        results.target(
            FAULTS,
            format!("{with:.0} against {without:.0}"),
            with < 0.01 * without,
        );
    }
}

/// The programs that share memory, without the hog, and their indices in the scenario.
fn ours(scenario: &Scenario) -> impl Iterator<Item = (usize, &Program)> {
    let all = scenario.programs.iter().enumerate();
    all.filter(|(_, program)| !program.outsider)
}

/// How many of these programs were gone before the end of the run.
fn ended(scenario: &Scenario, trace: &Trace) -> usize {
    // If all ended early, the last sample is earlier too, and there all of them may still run.
    let sample = trace.at(END).filter(|sample| sample.at > END - 2.0);
    ours(scenario)
        .filter(|(i, _)| sample.is_none_or(|s| !s.programs[*i].alive))
        .count()
}

const TITLE: &str = "Side by side with the same programs without a broker.";
const METHOD: &str = "Fixed: no broker, each program has the size of its share of the 1500 MB for good; \
                      libgc collects when its heap reaches it. Runs in the order broker, fixed, fixed, \
                      broker; \
     ratios are of their means. Work: documents indexed (Lucene), replacements (Guile, with the broker \
     on the drop-in). Beside the hog: from 50 s to 81 s. Collections: as the \
     runtime counts them, with concurrent cycles; their time: pauses (Java), all of it (libgc). Stalls: \
     allocations that waited for the kernel to reclaim. Yardstick: processor time of a fixed piece of work.";
