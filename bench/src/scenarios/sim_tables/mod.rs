//! The tables of the paper on schedulers that know of allocation, simulated: each entry beside the paper's.
//! Nothing is measured: the same code always gives the same figures, on any machine.

mod paper;
mod runs;

use crate::Result;
use crate::harness::folder::Folder;
use crate::measurement::{About, Measurement};
use crate::report::results::{Cell, Results};
use crate::runner::Runner;
use paper::{ENTRIES, Paper};
use runs::{QUANTA, Runs};

const TABLE_2: &str = "Table 2: every number of collections changes the paper's way";
const TABLE_3: &str = "Table 3: every number of contentions and switches changes the paper's way";
const TABLE_4: &str = "Table 4: every time changes the paper's way";
const COLLECTORS: &str =
    "Figures 6 and 7: MarkCompact and SemiSpace save less collection time than GenMC";

/// Smaller changes than this count as none, percent.
const NONE: f64 = 0.5;

/// `sim-tables`.
pub(super) struct SimTables;

/// A program of the tables.
struct Program {
    name: &'static str,
    source: Source,
    /// The row of the paper that it stands beside; `None` for programs that the paper does not have.
    paper: Option<Paper>,
}

/// Where the trace of a program comes from.
enum Source {
    /// `plimsoll trace synth`, shortened.
    MadeUp { name: &'static str, shorten: u32 },
}

/// A made-up program, as short as its largest live size lets it be (`shorten` is the most).
const fn made_up(name: &'static str, shorten: u32, paper: Paper) -> Program {
    Program {
        name,
        source: Source::MadeUp { name, shorten },
        paper: Some(paper),
    }
}

/// The programs, in the order of the tables.
const PROGRAMS: [Program; 5] = [
    made_up("hsqldb", 1, paper::HSQLDB),
    made_up("lusearch", 10, paper::LUSEARCH),
    made_up("specjbb2000", 1000, paper::SPECJBB),
    made_up("specjappserver2004", 1000, paper::APPSERVER),
    made_up("ecperf", 1000, paper::ECPERF),
];

impl Measurement for SimTables {
    fn about(&self) -> About {
        About {
            name: "sim-tables",
            question: "Schedulers that know of allocation, simulated: do the paper's tables come out?",
            asks: &[TABLE_2, TABLE_3, TABLE_4, COLLECTORS],
            minutes: 30,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let folder = Folder::new("sim-tables")?;
        let mut results = empty(runner);
        let mut tally = Tally::default();
        let progress = runner.progress("simulations");
        for program in PROGRAMS.iter().filter(|program| runner.wants(program.name)) {
            progress.tell(format_args!("{}", program.name));
            let runs = Runs::of(program, folder.path(), runner.slice())?;
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
             Figures 6 and 7 with 3. The made-up programs are shorter than those of the paper, so only \
             changes compare.",
        )
        .columns(&[
            ("table", ""),
            ("entry", ""),
            ("program", ""),
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
    for (index, (name, ours)) in names.into_iter().zip(runs.size()).enumerate() {
        let none = || Cell::from("");
        let theirs = program.paper.map(|paper| paper.size[index]);
        let (theirs, ours) = (cell(theirs), cell(ours));
        results.row([
            "1".into(),
            name.into(),
            program.name.into(),
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
            tally.entry(entry.table, quantum, paper, *change);
        }
        // Table 4 gives times under LARF and MQRR, and reductions; what RR took is not in it.
        let base = theirs.filter(|_| entry.table != "4").map(|it| it[0]);
        results.row([
            entry.table.into(),
            entry.name.into(),
            program.name.into(),
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
        tally.collector(collector, &change);
        results.row([
            "Figures 6, 7".into(),
            format!("collection time, {collector}").into(),
            program.name.into(),
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

/// What is judged.
#[derive(Default)]
struct Tally {
    /// By table and quantum: entries that change the paper's way, and all.
    same: [[(u32, u32); 2]; 3],
    /// Changes of collection time, percent: under MarkCompact and SemiSpace, and under GenMC.
    whole: Vec<f64>,
    generational: Vec<f64>,
}

/// -1, 0 or 1.
fn direction(change: f64) -> f64 {
    match change.abs() < NONE {
        true => 0.0,
        false => change.signum(),
    }
}

impl Tally {
    fn entry(
        &mut self,
        table: &str,
        quantum: usize,
        paper: [Option<f64>; 2],
        ours: [Option<f64>; 2],
    ) {
        let table = ["2", "3", "4"].iter().position(|it| *it == table);
        let Some(counts) = table.map(|table| &mut self.same[table][quantum]) else {
            return;
        };
        for (paper, ours) in paper.into_iter().zip(ours) {
            let Some(paper) = paper else { continue };
            let is_same = ours.is_some_and(|ours| direction(ours) == direction(paper));
            counts.0 += u32::from(is_same);
            counts.1 += 1;
        }
    }

    fn collector(&mut self, collector: &str, changes: &[[Option<f64>; 2]; 2]) {
        let into = match collector {
            "MarkCompact" | "SemiSpace" => &mut self.whole,
            "GenMC" => &mut self.generational,
            _ => return,
        };
        into.extend(changes.iter().flatten().flatten());
    }

    fn judge(&self, results: &mut Results) {
        for (claim, [(paper, all), (short, _)]) in
            [TABLE_2, TABLE_3, TABLE_4].into_iter().zip(self.same)
        {
            let measured =
                format!("{paper} of {all} with a quantum of 1.14 ms, {short} with one of 10 µs");
            let met = (all > 0).then_some(paper.max(short) == all);
            results.target(claim, measured, met);
        }
        let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len().max(1) as f64;
        let (whole, generational) = (mean(&self.whole), mean(&self.generational));
        let measured = format!("on average {whole:+.1} % and {generational:+.1} %");
        let has_both = !self.whole.is_empty() && !self.generational.is_empty();
        results.target(
            COLLECTORS,
            measured,
            has_both.then_some(whole > generational),
        );
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

    #[test]
    fn the_papers_own_figures_go_its_way() {
        let mut tally = Tally::default();
        for program in &PROGRAMS {
            let paper = program.paper.expect("made-up programs have a row");
            for entry in &ENTRIES {
                let changes = changes((entry.of)(&paper).map(Some));
                tally.entry(entry.table, 0, changes, changes);
                let other = changes.map(|it| it.map(|change| -change - 1.0));
                tally.entry(entry.table, 1, changes, other);
            }
        }
        for (table, entries) in [(0, 20), (1, 20), (2, 30)] {
            assert_eq!(tally.same[table][0], (entries, entries));
            assert_eq!(tally.same[table][1].1, entries);
            assert!(tally.same[table][1].0 < entries / 2);
        }
        // What section 5.4.1 says of Table 3: at worst 15 % more contentions, in lusearch.
        let worst = changes((ENTRIES[2].of)(&paper::LUSEARCH).map(Some))[1];
        assert!(
            worst.is_some_and(|it| (15.0..16.0).contains(&it)),
            "{worst:?}"
        );
    }
}
