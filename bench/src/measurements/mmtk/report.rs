//! The report of the runs: one row a program, plan and pressure, with the heaps side by side.

use super::targets::{TARGETS, judge_ends};
use super::{Case, FIXED, HEAPS, LONGEST, PROGRAMS, Row};
use crate::Result;
use crate::harness::job::Outcome;
use crate::measurements::libgc::run_workloads::{Runs, cell, ratio};
use crate::report::grouped_bars::GroupedBars;
use crate::report::results::{Cell, Results, Table};
use crate::runner::{Runner, Variant};
use plimsoll_unit::float::MIB;
use serde_json::Value;

/// The longest bar of a picture: this many times the time of the fixed heap without pressure.
const LONGEST_BAR: f64 = 8.0;

pub(super) type Ran = Variant<Case, Row>;

const TITLE: &str =
    "Programs on a small virtual machine with MMTk 0.33: six kinds of heap under each plan.";
const METHOD: &str = "\
     Two threads of the program, two of the collector. GCBench: trees of depth 16, 4 rounds a thread. \
     Large live set: 40 MiB of records, 600,000 replaced at random. Heaps: fixed, 224 MiB; the best fixed \
     one in the same memory; MMTk's dynamic heap (MemBalancer), 8 to 224 MiB; Isla Vista up to 224 MiB; the \
     same as its paper prints it, from 32 MiB on; and with a broker for the group (or the machine). \
     Pressure: a group of 152 MiB, with swap. The best fixed heap is searched for before: nine sizes from \
     48 to 224 MiB, one run of each; those within 1.25 times of the shortest run twice more. It is the \
     size with the least median of those with which all three runs finish; without pressure, or if there is \
     none, 224 MiB. Time: of the program, without its start; a run over 12 s is ended, and a time is given \
     where all runs finished. Peak: most resident. After: resident when everything is dead and two full \
     collections are over; Isla Vista gives memory back when it is short. Pictures: time relative to the \
     fixed heap without pressure.";
const COLUMNS: [(&str, &str); 10] = [
    ("program", ""),
    ("pressure", ""),
    ("plan", ""),
    ("best fixed heap", "MiB"),
    ("fixed: time", "s"),
    ("best fixed: time", "s"),
    ("MemBalancer: time", "s"),
    ("Isla Vista: time", "s"),
    ("as printed: time", "s"),
    ("with broker: time", "s"),
];
const MEMORY: &str = "Memory of the same runs: at the peak, and after everything is dead.";
const MEMORY_COLUMNS: [(&str, &str); 15] = [
    ("program", ""),
    ("pressure", ""),
    ("plan", ""),
    ("fixed: peak", "MiB"),
    ("best fixed: peak", "MiB"),
    ("MemBalancer: peak", "MiB"),
    ("Isla Vista: peak", "MiB"),
    ("as printed: peak", "MiB"),
    ("with broker: peak", "MiB"),
    ("fixed: after", "MiB"),
    ("best fixed: after", "MiB"),
    ("MemBalancer: after", "MiB"),
    ("Isla Vista: after", "MiB"),
    ("as printed: after", "MiB"),
    ("with broker: after", "MiB"),
];

/// A number at a path of what the machine told, as [`Value::pointer`] takes it.
pub(super) fn told(run: &Outcome, path: &str) -> f64 {
    let told: Option<Value> = serde_json::from_str(&run.said).ok();
    let number = told.as_ref().and_then(|told| told.pointer(path)?.as_f64());
    number.unwrap_or(0.0)
}

/// Seconds of the program itself, without the machine's start.
pub(super) fn seconds(run: &Outcome) -> f64 {
    told(run, "/seconds")
}

/// The runs of a variant with one heap.
pub(super) fn runs(variant: &Ran, heap: usize) -> Runs {
    let rows = variant.outcomes.iter();
    Runs(rows.map(|row| row.runs[heap].clone()).collect())
}

/// The table and the targets.
pub(super) fn table(ran: &[Ran], runner: &Runner) -> Results {
    let mut results = runner.results(TITLE, METHOD).columns(&COLUMNS);
    let mut sorted: Vec<&Ran> = ran.iter().collect();
    // Plans of one program and pressure below each other, so that columns can be compared.
    sorted.sort_by_key(|variant| (variant.what.program, variant.what.pressure));
    let mut memory = Table::new(MEMORY, &MEMORY_COLUMNS);
    for variant in sorted {
        let all: [Runs; HEAPS.len()] = std::array::from_fn(|heap| runs(variant, heap));
        let of = |pick: fn(&Outcome) -> f64| all.each_ref().map(|runs| cell(runs.median(pick)));
        let best = variant.outcomes.first().map(|row| row.best as f64);
        let mut times = names(variant.what).to_vec();
        times.push(cell(best));
        times.extend(all.each_ref().map(time));
        results.rows.push(times);
        let mut sizes = names(variant.what).to_vec();
        sizes.extend(of(|run| run.resident as f64 / MIB));
        sizes.extend(of(|run| told(run, "/after") / MIB));
        memory.rows.push(sizes);
    }
    results.tables.push(memory);
    for target in &TARGETS {
        target.judge(&mut results, ran);
    }
    judge_ends(&mut results, ran);
    results
}

/// The first cells of a row.
fn names(case: Case) -> [Cell; 3] {
    let pressure = if case.pressure { "yes" } else { "no" };
    [
        PROGRAMS[case.program].0.into(),
        pressure.into(),
        case.plan.into(),
    ]
}

/// The time, or how the runs ended if not all finished.
fn time(runs: &Runs) -> Cell {
    if runs.all_finished() {
        cell(runs.median(seconds))
    } else {
        runs.ended().into()
    }
}

/// Draws the times under pressure, a picture a program.
pub(super) fn draw(ran: &[Ran], runner: &Runner) -> Result<()> {
    for (program, (name, _)) in PROGRAMS.iter().enumerate() {
        let mine: Vec<&Ran> = ran
            .iter()
            .filter(|one| one.what.program == program)
            .collect();
        let pressed: Vec<&Ran> = mine
            .iter()
            .copied()
            .filter(|one| one.what.pressure)
            .collect();
        if pressed.is_empty() {
            continue;
        }
        let part = name.to_lowercase().replace(' ', "-");
        runner.plot(&part, &picture(name, &mine, &pressed).plot())?;
    }
    Ok(())
}

/// Bars: the heaps side by side, plan by plan.
fn picture(name: &str, all: &[&Ran], pressed: &[&Ran]) -> GroupedBars {
    let group = |variant: &&Ran| {
        let calm = Case {
            pressure: false,
            ..variant.what
        };
        let base = all.iter().find(|other| other.what == calm);
        let base = base.and_then(|base| runs(base, FIXED).median(seconds));
        let length = |heap: usize| {
            let runs = runs(variant, heap);
            let time = if runs.all_finished() {
                runs.median(seconds)
            } else {
                Some(LONGEST)
            };
            ratio(time, base).unwrap_or(0.0).min(LONGEST_BAR)
        };
        let lengths = (0..HEAPS.len()).map(length).collect();
        (variant.what.plan.to_owned(), lengths)
    };
    GroupedBars {
        title: format!("{name} under memory pressure"),
        note: format!(
            "time relative to a fixed heap without pressure; a bar of {LONGEST_BAR} is longer, or the \
             program did not finish"
        ),
        unit: "times".to_owned(),
        across: "plans".to_owned(),
        names: HEAPS.iter().map(|heap| heap.name.to_owned()).collect(),
        groups: pressed.iter().map(group).collect(),
        top: LONGEST_BAR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::job::Ending;

    #[test]
    fn a_picture_has_a_bar_for_each_heap_and_names_each_once() {
        let run = Outcome {
            ending: Ending::Finished,
            seconds: 1.0,
            resident: 0,
            faults: 0,
            pauses: Default::default(),
            usage: Default::default(),
            printed: 0,
            said: r#"{"seconds": 2.0}"#.to_owned(),
        };
        let of = |pressure| Variant {
            name: String::new(),
            what: Case {
                program: 0,
                plan: "Immix",
                pressure,
            },
            outcomes: vec![Row {
                runs: vec![run.clone(); HEAPS.len()],
                best: 112,
            }],
        };
        let (calm, pressed) = (of(false), of(true));
        let plot = picture("GCBench", &[&calm, &pressed], &[&pressed]).plot();
        assert_eq!(plot.series.len(), 2 * HEAPS.len());
        assert!(plot.series.iter().all(|one| one.points[0].1 == 1.0));
        let named = plot.series.iter().filter(|one| !one.name.is_empty());
        assert_eq!(named.count(), HEAPS.len());
    }

    #[test]
    fn each_table_has_a_column_for_each_heap() {
        let of = |end: &str, columns: &[(&str, &str)]| {
            let mine = columns.iter().filter(|(name, _)| name.ends_with(end));
            mine.count()
        };
        assert_eq!(of(": time", &COLUMNS), HEAPS.len());
        for end in [": peak", ": after"] {
            assert_eq!(of(end, &MEMORY_COLUMNS), HEAPS.len());
        }
    }
}
