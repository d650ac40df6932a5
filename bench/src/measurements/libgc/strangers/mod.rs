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

use super::pairs::Pair;
use super::run_workloads::{Stage, cell, ratio, target};
use crate::Result;
use crate::harness::libgc::{OURS, SYSTEM};
use crate::measurement::{About, Measurement};
use crate::report::results::{Results, number};
use crate::report::statistics::spread;
use crate::runner::Runner;
use kinds::{ASKS, Figure};
use plimsoll_unit::float::MIB;

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
        let pairs = Pair::all(kinds::workloads(), &mut stage, runner)?;
        let mut results = report(&pairs, runner);
        limits::measure(&mut stage, runner, &mut results)?;
        addresses::measure(&mut stage, runner, &mut results)?;
        Ok(results)
    }
}

/// The smallest and the largest ratio of processor time among single pairs.
fn range(pair: &Pair) -> String {
    let [system, ours] = &pair.runs;
    let pairs = system.0.iter().zip(&ours.0);
    let of = |run| Figure::Processor.of(run);
    let ratios: Vec<f64> = pairs
        .filter_map(|(system, ours)| ratio(Some(of(ours)), Some(of(system))))
        .collect();
    let all = spread(&ratios);
    format!("{} to {}", number(all.min), number(all.max))
}

fn note(pair: &Pair, results: &mut Results) {
    for (runs, collector) in pair.runs.iter().zip([SYSTEM, OURS]) {
        let ours = collector == OURS;
        let median = |figure: Figure, unit: f64| {
            let value = runs.median(|run| figure.of(run));
            cell(value.map(|value| value / unit))
        };
        let ratio = |figure: Figure| pair.ratio(|run| figure.of(run));
        let relative = |figure| cell(ratio(figure).filter(|_| ours));
        results.row([
            pair.name.as_str().into(),
            collector.name.into(),
            median(Figure::Processor, 1.0),
            relative(Figure::Processor),
            if ours { range(pair) } else { "-".to_owned() }.into(),
            median(Figure::Seconds, 1.0),
            relative(Figure::Seconds),
            median(Figure::Collections, 1.0),
            median(Figure::Minor, 1.0),
            median(Figure::Peak, MIB),
            relative(Figure::Peak),
        ]);
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
    pairs.iter().for_each(|pair| note(pair, &mut results));
    for ask in &ASKS {
        let figures: Vec<(String, f64)> = pairs
            .iter()
            .filter(|pair| ask.programs.contains(&pair.name.as_str()))
            .filter_map(|pair| {
                let value = if ask.absolute {
                    pair.runs[1].median(|run| ask.figure.of(run))
                } else {
                    pair.ratio(|run| ask.figure.of(run))
                };
                Some((pair.name.clone(), value?))
            })
            .collect();
        target(&mut results, ask.claim, &figures, ask.most);
    }
    results
}
