//! The table that compares the runs with a broker and the runs with fixed sizes.

use super::{HOG_START, HOLD, SECONDS};
use crate::harness::scenario::{Program, Scenario};
use crate::harness::trace::{Seen, Trace};
use crate::report::results::Results;
use crate::runner::Runner;

/// Work is counted until this time, in seconds since the start of the run. With a broker the programs end 2 s
/// before the run ends.
const END: f64 = SECONDS - 4.0;
/// From when until when the hog holds memory, in seconds since the start of the run. It takes 8 s to get it,
/// and as long to give it back.
const BESIDE: (f64, f64) = (HOG_START, HOG_START + HOLD + 16.0);

pub(super) const WORK: &str = "the demo: work of all (geometric mean) at least that of fixed sizes";
pub(super) const FAULTS: &str = "the demo: under 1 % of their major faults";

/// The runs: with a broker, fixed, fixed, with a broker. Each list is in the order of its runs.
#[derive(Default)]
pub(super) struct Runs {
    pub(super) shared: Vec<Trace>,
    pub(super) fixed: Vec<Trace>,
}

impl Runs {
    /// Whether the first run is over, and no other.
    pub(super) fn are_begun(&self) -> bool {
        self.shared.len() == 1 && self.fixed.is_empty()
    }

    /// The table, with a column for each run.
    pub(super) fn results(&self, scenario: &Scenario, runner: &Runner) -> Results {
        let columns = std::iter::once("")
            .chain(self.shared.iter().map(|_| "broker"))
            .chain(self.fixed.iter().map(|_| "fixed"));
        let columns: Vec<(&str, &str)> = columns.map(|name| (name, "")).collect();
        let mut results = runner.results(TITLE, METHOD).columns(&columns);
        // Each column is one run, so nothing is repeated.
        results.repetitions = 1;
        for (index, program) in ours(scenario) {
            let name = |what: &str| format!("{}: {what}", program.name);
            self.row(&mut results, name("work"), &|t| t.work(index, 0.0, END));
            self.row(&mut results, name("beside the hog"), &|t| {
                t.work(index, BESIDE.0, BESIDE.1)
            });
            self.row(&mut results, name("processor seconds"), &|t| {
                t.count(index, |p| p.processor_ticks) as f64 / 100.0
            });
            self.row(&mut results, name("collections"), &|t| {
                t.count(index, |p| p.collections) as f64
            });
            self.row(&mut results, name("seconds in them"), &|t| {
                t.count(index, |p| p.collection_ns) as f64 / 1e9
            });
            self.row(&mut results, name("major faults"), &|t| {
                t.count(index, |p| p.major_faults) as f64
            });
        }
        self.row(&mut results, "allocation stalls".to_owned(), &|t| {
            sum(scenario, t, |p| p.stalls)
        });
        let last = |trace: &Trace| trace.samples.last().cloned().unwrap_or_default();
        self.row(&mut results, "pages swapped in and out".to_owned(), &|t| {
            last(t).swap_traffic as f64
        });
        self.row(&mut results, "times the limit was hit".to_owned(), &|t| {
            last(t).limit_hits as f64
        });
        self.row(&mut results, "ended before their time".to_owned(), &|t| {
            ended(scenario, t) as f64
        });
        self.row(&mut results, "yardstick, microseconds".to_owned(), &|t| {
            t.yardstick_ns(0.0, END) / 1000.0
        });
        if !self.fixed.is_empty() {
            self.judge(scenario, &mut results);
        }
        results
    }

    fn row(&self, results: &mut Results, name: String, value: &dyn Fn(&Trace) -> f64) {
        let cells = self.shared.iter().chain(&self.fixed);
        let cells = cells.map(|trace| value(trace).into());
        results
            .rows
            .push(std::iter::once(name.into()).chain(cells).collect());
    }

    fn judge(&self, scenario: &Scenario, results: &mut Results) {
        let mean = |traces: &[Trace], value: &dyn Fn(&Trace) -> f64| {
            traces.iter().map(value).sum::<f64>() / traces.len().max(1) as f64
        };
        let ratio = |value: &dyn Fn(&Trace) -> f64| {
            mean(&self.shared, value) / mean(&self.fixed, value).max(1e-9)
        };
        let works: Vec<f64> = ours(scenario)
            .map(|(index, _)| ratio(&|trace| trace.work(index, 0.0, END)))
            .collect();
        let together = works.iter().product::<f64>().powf(1.0 / works.len() as f64);
        let each: Vec<String> = works.iter().map(|work| format!("{work:.2}")).collect();
        let speed = 1.0 / ratio(&|trace| trace.yardstick_ns(0.0, END));
        results.target(
            WORK,
            format!(
                "{together:.2} ({}; by the yardstick the machine was {speed:.2} times as fast)",
                each.join(", ")
            ),
            together >= 1.0,
        );
        let faults = |traces: &[Trace]| mean(traces, &|t| sum(scenario, t, |p| p.major_faults));
        let (with, without) = (faults(&self.shared), faults(&self.fixed));
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

/// The sum of a counter over these programs.
fn sum(scenario: &Scenario, trace: &Trace, counter: fn(&Seen) -> u64) -> f64 {
    let each = ours(scenario).map(|(index, _)| trace.count(index, counter));
    each.sum::<u64>() as f64
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
