//! The tables of the paper on schedulers that know of allocation, simulated: each entry beside the paper's.
//! No time is measured. The same code always makes the same numbers from a trace, on any machine. The traces
//! of made-up programs are always the same; a program that is recorded again may have taken its locks in
//! another order.
//!
//! - `simulation_cache`: what stays for the next run.
//! - `paper`: what the paper has.
//! - `programs`: what is simulated.
//! - `recorded`, `record_servers`: real programs, run and recorded.
//! - `plots`: the pictures.
//! - `runs`: the simulations.
//! - `tally`: what is judged.

mod paper;
mod plots;
mod programs;
mod record_servers;
mod recorded;
mod runs;
mod simulation_cache;
mod tally;

use crate::Result;
use crate::harness::folder::Folder;
use crate::measurement::{About, Measurement};
use crate::report::results::{Cell, Results};
use crate::runner::Runner;
use paper::ENTRIES;
use programs::{PROGRAMS, Program};
use runs::{QUANTA, Runs, SCHEDULERS};
use tally::{ASKS, Tally};

/// Programs with pictures: one that is made up, and a real one of the same kind.
const PLOTTED: [&str; 2] = ["lusearch", "lucene-search"];

/// `sim-tables`.
pub(super) struct SimTables;

impl Measurement for SimTables {
    fn about(&self) -> About {
        About {
            name: "sim-tables",
            question: "Schedulers that know of allocation, simulated: do the paper's tables come out?",
            asks: &ASKS,
            minutes: 120,
            only: true,
            slice: true,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let folder = Folder::new("sim-tables")?;
        let experiment = runner.experiment(PROGRAMS.iter().map(|one| (one.name, one)));
        let ran = experiment.wanted().once().run(|program, turn| {
            let runs = Runs::of(program, folder.path(), runner.slice(), &turn.progress)?;
            if PLOTTED.contains(&program.name) {
                turn.progress.tell(format_args!("plots"));
                plots::draw(runner, program, &runs)?;
            }
            Ok(runs)
        })?;
        let mut results = empty(runner);
        let mut tally = Tally::default();
        for variant in &ran {
            let (program, runs) = (variant.what, &variant.outcomes[0]);
            sizes(&mut results, program, runs);
            entries(&mut results, program, runs, &mut tally);
            collectors(&mut results, program, runs, &mut tally);
            tally.conserved(program, runs);
        }
        tally.judge(&mut results);
        Ok(results)
    }
}

fn empty(runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "Each entry of the tables beside the paper's. Under RR the numbers themselves, under LARF and \
             MQRR the changes against RR. LARF*: LARF that lets threads with equal rates take turns.",
            "Simulations, no measurements: a trace gives the same numbers on every machine. All with GenMC \
             and a heap of 3 times the largest live size, but Table 4 with one of 1.5 times, and Figures 6 \
             and 7 with other collectors. The made-up programs (hsqldb to ecperf) have the sums of the \
             paper's, specjbb2000 a thirtieth of them; the others are recorded by `plimsoll trace`, built \
             from the same sources, on JDK 17 with a heap of at most 512 MB, and heaps are in the largest \
             live size that they have under RR; of those only changes compare. A quantum of 10 µs has the \
             relation to a phase of allocation that the paper tells: 3 to 22 quanta. In specjappserver2004 \
             and ecperf the paper's quantum has it, so they have no shorter one (–), and count with that in \
             both sums. LARF* and 10 µs are beside GenMC only. In Table 4 the paper's RR follows \
             from its LARF and the reduction; of Figures 3 and 4 it is what its text tells.",
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
            ("LARF*, 1.14 ms", "%"),
            ("LARF*, 10 µs", "%"),
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

/// How much more the others are than the first, percent. `None` where something is missing, or changes from
/// nothing.
fn changes<const N: usize>(base: Option<f64>, others: [Option<f64>; N]) -> [Option<f64>; N] {
    others.map(|value| match (base?, value?) {
        (0.0, 0.0) => Some(0.0),
        (base, value) if base > 0.0 => Some((value / base - 1.0) * 100.0),
        _ => None,
    })
}

/// The changes of the paper under LARF and MQRR, percent.
fn paper_changes(theirs: Option<[f64; 3]>) -> [Option<f64>; 2] {
    let [base, others @ ..] = theirs.map_or([None; 3], |theirs| theirs.map(Some));
    changes(base, others)
}

/// The number under RR, and the changes under the other [`SCHEDULERS`], percent.
type Ours = (Option<f64>, [Option<f64>; SCHEDULERS.len() - 1]);

fn ours(runs: &Runs, collector: &str, heap: f64, field: &str) -> [Ours; 2] {
    QUANTA.map(|quantum| {
        let [base, others @ ..] = runs.each(collector, heap, quantum, field);
        (base, changes(base, others))
    })
}

/// Adds a row: what it is of, the paper's number under RR and its changes, and ours with each quantum.
fn add(
    results: &mut Results,
    (table, entry, program): (&str, &str, &Program),
    base: Option<f64>,
    [larf, mqrr]: [Option<f64>; 2],
    field: &str,
    [long, short]: [Ours; 2],
) {
    let is_time = ["paused", "execution", "turnaround"]
        .iter()
        .any(|it| field.ends_with(it));
    let shown = |value: Option<f64>| cell(value.map(|it| if is_time { it / 1e9 } else { it }));
    let ([a, b, c], [d, e, f]) = (long.1.map(cell), short.1.map(cell));
    let (base, first, second) = (cell(base), shown(long.0), shown(short.0));
    let [larf, mqrr] = [larf, mqrr].map(cell);
    results.row([
        table.into(),
        entry.into(),
        program.name.into(),
        program.beside(),
        base,
        first,
        second,
        larf,
        a,
        d,
        b,
        e,
        mqrr,
        c,
        f,
    ]);
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
            none(),
            none(),
        ]);
    }
}

/// Tables 2 to 4 and Figures 3 to 5.
fn entries(results: &mut Results, program: &Program, runs: &Runs, tally: &mut Tally) {
    for entry in &ENTRIES {
        let theirs = program.paper.and_then(|paper| (entry.of)(&paper));
        let ours = ours(runs, "GenMC", entry.heap, entry.field);
        let change = paper_changes(theirs);
        let is_recorded = program.is_recorded();
        for quantum in 0..QUANTA.len() {
            let is_absent = quantum > 0 && program.has_long_phases;
            let (_, [larf, in_turn, mqrr]) = ours[if is_absent { 0 } else { quantum }];
            tally.entry(is_recorded, entry.table, quantum, change, [larf, mqrr]);
            if entry.field == "outcome/switches" && !is_absent {
                tally.ties(is_recorded, larf, in_turn);
            }
        }
        let base = theirs.filter(|_| entry.has_base).map(|it| it[0]);
        let of = (entry.table, entry.name, program);
        add(results, of, base, change, entry.field, ours);
    }
}

/// The collectors beside GenMC: those of Figures 6 and 7, which the paper shows with one number, and today's.
const COLLECTORS: [(&str, &str); 6] = [
    ("Figures 6, 7", "MarkCompact"),
    ("Figures 6, 7", "SemiSpace"),
    ("Figures 6, 7", "GenCopy"),
    ("Figures 6, 7", "GenMC"),
    ("today's", "GenMS"),
    ("today's", "G1"),
];
/// The times that are shown of each.
const TIMES: [(&str, &str); 3] = [
    ("collection", "outcome/paused"),
    ("execution", "outcome/execution"),
    ("turnaround", "outcome/turnaround"),
];

/// Figures 6 and 7, and the same with today's collectors.
fn collectors(results: &mut Results, program: &Program, runs: &Runs, tally: &mut Tally) {
    for (table, collector) in COLLECTORS {
        for (time, field) in TIMES {
            let ours = ours(runs, collector, 3.0, field);
            if time == "collection" {
                let (_, [larf, _, mqrr]) = ours[0];
                tally.collector(program.is_recorded(), collector, [larf, mqrr]);
            }
            let name = format!("{time} time, s, {collector}");
            add(
                results,
                (table, &name, program),
                None,
                paper::told(program.name, collector, time),
                field,
                ours,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_against_round_robin() {
        let some = |base: f64, others: [f64; 2]| changes(Some(base), others.map(Some));
        assert_eq!(some(200.0, [100.0, 300.0]), [Some(-50.0), Some(50.0)]);
        assert_eq!(some(0.0, [0.0, 1.0]), [Some(0.0), None]);
        assert_eq!(changes(None, [Some(1.0), Some(1.0)]), [None; 2]);
        assert_eq!(
            paper_changes(Some([50.0, 25.0, 50.0])),
            [Some(-50.0), Some(0.0)]
        );
    }
}
