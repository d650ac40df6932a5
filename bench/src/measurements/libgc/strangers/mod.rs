//! Small programs that use libgc as programs of others do, and some of these programs themselves, on libgc
//! and on our library: processor time, memory and collections. Each kind has a row and a target of its own,
//! so that a gain in one does not hide a loss in another.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `kinds` | the programs, and what is asked of them |
//! | `limits` | the time that a program takes near the smallest memory limit in which it runs |
//! | `addresses` | limits of addresses (`ulimit -v`) in which programs run |

mod addresses;
mod kinds;
mod limits;

use super::stage::{Runs, Stage, cell, ratio, target};
use crate::Result;
use crate::harness::job::Outcome;
use crate::harness::libgc::{OURS, SYSTEM};
use crate::measurement::{About, Measurement};
use crate::report::results::{Results, number};
use crate::report::statistics::spread;
use crate::runner::Runner;
use kinds::{ASKS, Figure};
use plimsoll_unit::float::MIB;

/// A program, and its runs with libgc and with our collector, in pairs.
struct Pair {
    name: String,
    runs: [Runs; 2],
}

/// The measurement `libgc-strangers`.
pub(crate) struct Strangers;

impl Measurement for Strangers {
    fn about(&self) -> About {
        About {
            name: "libgc-strangers",
            question: "Our collector in the place of libgc, in programs of many kinds: who loses?",
            asks: &kinds::CLAIMS,
            minutes: 20,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let mut stage = Stage::without_swap(runner.name())?;
        let workloads = kinds::workloads().into_iter();
        let ran = runner
            .experiment(workloads.map(|workload| (workload.name.clone(), workload)))
            .wanted()
            .run(|workload, turn| {
                let mut run = |with| stage.run_freely(workload, 1, with, &turn.progress);
                Ok([run(SYSTEM)?, run(OURS)?])
            })?;
        let pairs: Vec<Pair> = ran
            .into_iter()
            .map(|variant| Pair::of(variant.name, variant.outcomes))
            .collect();
        let mut results = report(&pairs, runner);
        limits::measure(&mut stage, runner, &mut results)?;
        addresses::measure(&mut stage, runner, &mut results)?;
        Ok(results)
    }
}

impl Pair {
    fn of(name: String, outcomes: Vec<[Outcome; 2]>) -> Pair {
        let mut runs = [Runs::default(), Runs::default()];
        for both in outcomes {
            for (runs, outcome) in runs.iter_mut().zip(both) {
                runs.0.push(outcome);
            }
        }
        Pair { name, runs }
    }

    /// The median of a figure with our collector, divided by that with libgc.
    fn ratio(&self, figure: Figure) -> Option<f64> {
        let [system, ours] = &self.runs;
        ratio(
            ours.median(|run| figure.of(run)),
            system.median(|run| figure.of(run)),
        )
    }

    /// The smallest and the largest ratio of processor time among the single pairs.
    fn range(&self) -> String {
        let [system, ours] = &self.runs;
        let pairs = system.0.iter().zip(&ours.0);
        let of = |run| Figure::Processor.of(run);
        let ratios: Vec<f64> = pairs
            .filter_map(|(system, ours)| ratio(Some(of(ours)), Some(of(system))))
            .collect();
        let all = spread(&ratios);
        format!("{} to {}", number(all.min), number(all.max))
    }

    fn note(&self, results: &mut Results) {
        for (runs, collector) in self.runs.iter().zip([SYSTEM, OURS]) {
            let ours = collector == OURS;
            let median = |figure: Figure, unit: f64| {
                let value = runs.median(|run| figure.of(run));
                cell(value.map(|value| value / unit))
            };
            let relative = |figure| cell(self.ratio(figure).filter(|_| ours));
            results.row([
                self.name.as_str().into(),
                collector.name.into(),
                median(Figure::Processor, 1.0),
                relative(Figure::Processor),
                if ours { self.range() } else { "-".to_owned() }.into(),
                median(Figure::Seconds, 1.0),
                relative(Figure::Seconds),
                median(Figure::Collections, 1.0),
                median(Figure::Minor, 1.0),
                median(Figure::Peak, MIB),
                relative(Figure::Peak),
            ]);
        }
    }
}

const METHOD: &str = "\
     Unchanged programs, each with libgc and with ours in turn, in a cgroup without swap. Both compute \
     the same, and that is checked. From threads to servers: bench/programs/libgc/strangers.c, whose \
     first lines say what each kind is. bintree: depth 18; largelive: 100 MiB live, 10 million cells die. \
     Those below them: programs of Debian, most with the input of crates/libgc/tests/programs. Processor: \
     user and system time. Single pairs: the smallest and the largest ratio of processor time. Limits: \
     the smallest limit is searched for each collector by halving to 1 MiB, and is one in which two runs \
     finish within 20 times the time without a limit. Addresses: one run in each limit.";

fn report(pairs: &[Pair], runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "Our collector in the place of Debian's libgc 8.2.2, in programs of many kinds.",
            METHOD,
        )
        .columns(&[
            ("program", ""),
            ("collector", ""),
            ("processor", "s"),
            ("of libgc's", ""),
            ("single pairs", ""),
            ("time", "s"),
            ("of libgc's", ""),
            ("collections", ""),
            ("minor faults", ""),
            ("peak", "MiB"),
            ("of libgc's", ""),
        ]);
    pairs.iter().for_each(|pair| pair.note(&mut results));
    for ask in &ASKS {
        let figures: Vec<(String, f64)> = pairs
            .iter()
            .filter(|pair| ask.programs.contains(&pair.name.as_str()))
            .filter_map(|pair| {
                let value = match ask.absolute {
                    true => pair.runs[1].median(|run| ask.figure.of(run)),
                    false => pair.ratio(ask.figure),
                };
                Some((pair.name.clone(), value?))
            })
            .collect();
        target(&mut results, ask.claim, &figures, ask.most);
    }
    results
}
