//! The tables of the paper on schedulers that know of allocation, simulated: each entry beside the paper's.
//! No time is measured. Of made-up programs the same code always gives the same figures, on any machine; a
//! program that is recorded again may have taken its locks in another order.
//!
//! - `paper`: what the paper has.
//! - `programs`: what is simulated.
//! - `recorded`, `servers`: real programs, run and recorded.
//! - `runs`: the simulations.
//! - `tally`: what is judged.

mod paper;
mod programs;
mod recorded;
mod runs;
mod servers;
mod tally;

use crate::Result;
use crate::harness::folder::Folder;
use crate::measurement::{About, Measurement};
use crate::report::results::{Cell, Results};
use crate::runner::Runner;
use paper::ENTRIES;
use programs::{PROGRAMS, Program};
use runs::{QUANTA, Runs};
use tally::{ASKS, Tally};

/// `sim-tables`.
pub(super) struct SimTables;

impl Measurement for SimTables {
    fn about(&self) -> About {
        About {
            name: "sim-tables",
            question: "Schedulers that know of allocation, simulated: do the paper's tables come out?",
            asks: &ASKS,
            minutes: 60,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let folder = Folder::new("sim-tables")?;
        let mut results = empty(runner);
        let mut tally = Tally::default();
        let progress = runner.progress("simulations");
        for program in PROGRAMS.iter().filter(|program| runner.wants(program.name)) {
            let runs = Runs::of(program, folder.path(), runner.slice(), &progress)?;
            sizes(&mut results, program, &runs);
            entries(&mut results, program, &runs, &mut tally);
            collectors(&mut results, program, &runs, &mut tally);
        }
        tally.judge(&mut results);
        Ok(results)
    }
}

fn empty(runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "Each entry of the tables beside the paper's. Under RR the numbers themselves (times in \
             seconds), under LARF and MQRR the changes against RR.",
            "Simulations, no measurements: they give the same figures on every machine. Tables 1 to 3 \
             with GenMC and a heap of 3 times the largest live size, Table 4 with one of 1.5 times, \
             Figures 6 and 7 with 3. The made-up programs (hsqldb to ecperf) have the sums of the paper's, \
             but for how long they are; the others are recorded by `plimsoll trace`, built from the same \
             commit, on JDK 17 with a heap of at most 512 MB, and heaps are in \
             the largest live size that they have under RR. So only changes compare.",
        )
        .columns(&[
            ("table", ""),
            ("entry", ""),
            ("program", ""),
            ("the paper's", ""),
            ("RR, paper", ""),
            ("RR, 1.14 ms", ""),
            ("RR, 10 µs", ""),
            ("LARF, paper", "%"),
            ("LARF, 1.14 ms", "%"),
            ("LARF, 10 µs", "%"),
            ("MQRR, paper", "%"),
            ("MQRR, 1.14 ms", "%"),
            ("MQRR, 10 µs", "%"),
        ]);
    results.repetitions = 1;
    results
}

/// A number, or that there is none.
fn cell(value: Option<f64>) -> Cell {
    value.map_or_else(|| "–".into(), Cell::from)
}

/// How much more the others are than the first, percent.
fn changes([base, larf, mqrr]: [Option<f64>; 3]) -> [Option<f64>; 2] {
    [larf, mqrr].map(|value| match (base?, value?) {
        (0.0, 0.0) => Some(0.0),
        (base, value) if base > 0.0 => Some((value / base - 1.0) * 100.0),
        _ => None,
    })
}

/// Table 1.
fn sizes(results: &mut Results, program: &Program, runs: &Runs) {
    let names = [
        "objects, millions",
        "allocated, MB",
        "largest live size, MB",
        "threads",
    ];
    let under_rr = runs.largest_live();
    let apart = ("bytes seen, more than counted, %", runs.apart, None);
    let recorded = [("largest live size under RR, MB", under_rr, None), apart];
    let sizes = names.into_iter().zip(runs.size()).enumerate();
    let sizes = sizes.map(|(index, (name, ours))| {
        let theirs = program.paper.map(|paper| paper.size[index]);
        (name, ours, theirs)
    });
    let recorded = recorded.into_iter().filter(|_| program.is_recorded());
    for (name, ours, theirs) in sizes.chain(recorded) {
        let none = || Cell::from("");
        let (theirs, ours) = (cell(theirs), cell(ours));
        results.row([
            "1".into(),
            name.into(),
            program.name.into(),
            program.beside(),
            theirs,
            ours.clone(),
            ours,
            none(),
            none(),
            none(),
            none(),
            none(),
            none(),
        ]);
    }
}

/// What an entry is under RR, for the table: times in seconds.
fn shown(field: &str, value: Option<f64>) -> Cell {
    let is_time = matches!(field, "paused" | "execution" | "turnaround");
    cell(value.map(|value| if is_time { value / 1e9 } else { value }))
}

/// Tables 2 to 4.
fn entries(results: &mut Results, program: &Program, runs: &Runs, tally: &mut Tally) {
    for entry in &ENTRIES {
        let theirs = program.paper.map(|paper| (entry.of)(&paper));
        let ours = QUANTA.map(|quantum| runs.three("GenMC", entry.heap, quantum, entry.field));
        let change = ours.map(changes);
        let paper = theirs.map_or([None; 2], |theirs| changes(theirs.map(Some)));
        for (quantum, change) in change.iter().enumerate() {
            tally.entry(program.is_recorded(), entry.table, quantum, paper, *change);
        }
        // Table 4 gives times under LARF and MQRR, and reductions; what RR took is not in it.
        let base = theirs.filter(|_| entry.table != "4").map(|it| it[0]);
        results.row([
            entry.table.into(),
            entry.name.into(),
            program.name.into(),
            program.beside(),
            cell(base),
            shown(entry.field, ours[0][0]),
            shown(entry.field, ours[1][0]),
            cell(paper[0]),
            cell(change[0][0]),
            cell(change[1][0]),
            cell(paper[1]),
            cell(change[0][1]),
            cell(change[1][1]),
        ]);
    }
}

/// Figures 6 and 7, which the paper shows without numbers.
fn collectors(results: &mut Results, program: &Program, runs: &Runs, tally: &mut Tally) {
    for collector in ["MarkCompact", "SemiSpace", "GenCopy", "GenMC"] {
        let ours = QUANTA.map(|quantum| runs.three(collector, 3.0, quantum, "paused"));
        let change = ours.map(changes);
        tally.collector(program.is_recorded(), collector, &change);
        results.row([
            "Figures 6, 7".into(),
            format!("collection time, {collector}").into(),
            program.name.into(),
            program.beside(),
            "–".into(),
            shown("paused", ours[0][0]),
            shown("paused", ours[1][0]),
            "–".into(),
            cell(change[0][0]),
            cell(change[1][0]),
            "–".into(),
            cell(change[0][1]),
            cell(change[1][1]),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_against_round_robin() {
        let some = |three: [f64; 3]| changes(three.map(Some));
        assert_eq!(some([200.0, 100.0, 300.0]), [Some(-50.0), Some(50.0)]);
        assert_eq!(some([0.0, 0.0, 1.0]), [Some(0.0), None]);
        assert_eq!(changes([None, Some(1.0), Some(1.0)]), [None; 2]);
    }
}
