//! A table for people: a row for each quantity and a column for each scheduler, with what it is less or more
//! than under the first.

use super::run::{Cell, Run, Turns};
use plimsoll_cli::rows::shown;
use plimsoll_cli::size::Human;
use plimsoll_cli::terminal_text::wrap;
use plimsoll_policy::phases::Ties;
use plimsoll_sim::threads::heap::NewRatio;
use plimsoll_sim::threads::{Quantity, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Columns of the names of quantities, of the first scheduler, and of each other one.
const NAME: usize = 22;
const FIRST: usize = 18;
const OTHER: usize = 20;
/// Schedulers side by side. Further ones follow below, each time beside the first.
const BESIDE: usize = 3;
/// Columns of the whole table.
const WHOLE: usize = NAME + FIRST + (BESIDE - 1) * OTHER;
/// The longest name of a trace that is shown, characters.
const LONGEST_NAME: usize = 60;

/// The quantities of the table, in the order of the paper: Table 1 without what is above the table, Table 2
/// and Figure 3, Figure 4, Tables 3 and 4.
const ROWS: [&Quantity; 19] = [
    Quantity::of("objects"),
    Quantity::of("minor_collections"),
    Quantity::of("mixed_collections"),
    Quantity::of("full_collections"),
    Quantity::of("mark_cons"),
    Quantity::of("average_pause_heaps"),
    Quantity::of("greatest_pause_heaps"),
    Quantity::of("thread_pause_least_ns_per_byte"),
    Quantity::of("thread_pause_lower_ns_per_byte"),
    Quantity::of("thread_pause_median_ns_per_byte"),
    Quantity::of("thread_pause_upper_ns_per_byte"),
    Quantity::of("thread_pause_greatest_ns_per_byte"),
    Quantity::of("paused_ns"),
    Quantity::of("contentions"),
    Quantity::of("switches"),
    Quantity::of("execution_ns"),
    Quantity::of("elapsed_ns"),
    Quantity::of("turnaround_ns"),
    Quantity::of("longest_wait_ns"),
];

/// The table of runs that differ in their schedulers only.
pub(super) fn text(runs: &[&Run]) -> String {
    let mut text = String::new();
    let Some((first, others)) = runs.split_first() else {
        return text;
    };
    let (heap, live) = (
        Human(first.cell.heap),
        Human(first.cell.recorded_largest_live),
    );
    let _ = writeln!(text, "{}", shown(&first.cell.trace, LONGEST_NAME));
    let _ = write!(
        text,
        "{}, heap {heap}, largest live size {live}",
        collector(&first.cell)
    );
    if let Some(one) = runs.iter().find_map(|run| run.outcome.as_ref()) {
        let allocated = Human(one.allocated);
        let _ = write!(text, "; {} threads allocate {allocated}", one.threads);
    }
    text.push('\n');
    let names = names(runs);
    let mut rest = others;
    let mut at = 1;
    loop {
        let (now, later) = rest.split_at(rest.len().min(BESIDE - 1));
        let beside: Vec<(&str, &Run)> = std::iter::once((names[0].as_str(), *first))
            .chain(
                names[at..]
                    .iter()
                    .map(String::as_str)
                    .zip(now.iter().copied()),
            )
            .collect();
        columns(&mut text, &beside);
        at += now.len();
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    for (run, name) in runs.iter().zip(&names) {
        remarks(&mut text, name, run);
    }
    text.push('\n');
    text
}

/// The most reasons that are named.
const MOST_REASONS: usize = 8;

/// Why simulations have no outcome: a line for each reason, with the simulations that have it.
pub(super) fn failures(text: &mut String, runs: &[Run]) {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for run in runs {
        let Some(error) = run.error.as_deref() else {
            continue;
        };
        let cell = &run.cell;
        let who = format!(
            "{} with {}, heap {}",
            cell.scheduler,
            collector(cell),
            Human(cell.heap)
        );
        match reasons.iter_mut().find(|(known, _)| *known == error) {
            Some((_, all)) => all.push(who),
            None => reasons.push((error, vec![who])),
        }
    }
    for (error, who) in reasons.iter().take(MOST_REASONS) {
        let more = match who.len() {
            1 => String::new(),
            several => format!(" and {} more", several - 1),
        };
        broken(
            &format!("without an outcome: {}{more}: {error}", who[0]),
            text,
        );
    }
    if reasons.len() > MOST_REASONS {
        let _ = writeln!(text, "and {} more reasons", reasons.len() - MOST_REASONS);
    }
}

/// The name of a collector, with the ratio where that is another than the paper's.
pub(super) fn collector(cell: &Cell) -> String {
    match cell.new_ratio {
        Some(ratio) if ratio != NewRatio::PAPER.times() => {
            format!("{} (ratio {ratio})", cell.collector)
        }
        _ => cell.collector.clone(),
    }
}

/// The name of each run: its scheduler, and its quantum where that scheduler has several among them.
pub(super) fn names(runs: &[&Run]) -> Vec<String> {
    let mut quanta: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for run in runs {
        let known = quanta.entry(&run.cell.scheduler).or_default();
        known.insert(quantum(&run.cell.turns));
    }
    let name = |run: &&Run| {
        let cell = &run.cell;
        match quanta.get(cell.scheduler.as_str()) {
            Some(several) if several.len() > 1 => {
                format!("{} {}", cell.scheduler, quantum(&cell.turns))
            }
            _ => cell.scheduler.clone(),
        }
    };
    runs.iter().map(name).collect()
}

/// The quantum of a scheduler, with its unit, and whether it is another than ours with ties.
fn quantum(turns: &Turns) -> String {
    let quantum = match (turns.quantum, turns.memory_quantum) {
        (Some(nanoseconds), _) => time(nanoseconds as f64),
        (None, Some(bytes)) => Human(bytes).to_string(),
        (None, None) => String::new(),
    };
    match turns.ties.as_deref() {
        Some(ties) if ties != Ties::Newest.name() => format!("{quantum} {ties}"),
        _ => quantum,
    }
}

/// Runs beside each other; changes are those against the first.
fn columns(text: &mut String, runs: &[(&str, &Run)]) {
    let width = |index: usize| if index == 0 { FIRST } else { OTHER };
    let _ = write!(text, "\n{:NAME$}", "");
    for (index, (name, _)) in runs.iter().enumerate() {
        let _ = write!(text, "{name:>0$}", width(index));
    }
    text.push('\n');
    for row in ROWS {
        let mut line = format!("{:NAME$}", row.label());
        let value = |run: &Run| run.outcome.as_ref().map(row.value);
        let base = value(runs[0].1);
        for (index, (_, run)) in runs.iter().enumerate() {
            let cell = match value(run) {
                None => "-".to_owned(),
                Some(it) if index == 0 => written(row.unit, it),
                Some(it) => written(row.unit, it) + &change(base, it),
            };
            let _ = write!(line, "{cell:>0$}", width(index));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// Remarks on a run beside its numbers.
fn remarks(text: &mut String, name: &str, run: &Run) {
    if let Some(error) = &run.error {
        broken(&format!("{name}: {error}"), text);
    }
    let Some(outcome) = &run.outcome else { return };
    for (count, what) in [
        (
            outcome.helped,
            "waits were ended because nothing else could go on",
        ),
        (
            outcome.unborn,
            "objects died whose allocations are in the part of the trace that is lost",
        ),
    ] {
        if count > 0 {
            broken(&format!("{name}: {count} {what}"), text);
        }
    }
}

/// Appends lines, each broken between words where it is longer than the table is wide.
fn broken(lines: &str, into: &mut String) {
    for line in lines.lines() {
        wrap(into, "", line, 2, WHOLE);
    }
}

/// How much more or less a value is than the first one.
fn change(base: Option<f64>, value: f64) -> String {
    match base {
        Some(base) if base > 0.0 => {
            let percent = (value / base - 1.0) * 100.0;
            match percent {
                // A change that rounds to nothing has no sign.
                ..1000.0 => format!(
                    " {:>+7.1}%",
                    if percent.abs() < 0.05 { 0.0 } else { percent }
                ),
                _ => format!(" {:>8}", "x".to_owned() + &number(value / base)),
            }
        }
        _ => " ".repeat(9),
    }
}

/// A value in its unit, for people.
pub(crate) fn written(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Number => number(value),
        Unit::Bytes => Human(value as u64).to_string(),
        Unit::Nanoseconds => time(value),
        Unit::Ratio | Unit::Heaps | Unit::NanosecondsPerByte => ratio(value),
    }
}

fn number(value: f64) -> String {
    match value {
        ..1e6 => format!("{value:.0}"),
        ..1e9 => format!("{:.2}M", value / 1e6),
        ..1e12 => format!("{:.2}G", value / 1e9),
        _ => format!("{value:.2e}"),
    }
}

pub(super) fn ratio(value: f64) -> String {
    match value {
        ..1000.0 => format!("{value:.4}"),
        _ => number(value),
    }
}

pub(crate) fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ..1e3 => format!("{nanoseconds:.0}ns"),
        ..1e6 => format!("{:.2}us", nanoseconds / 1e3),
        ..1e9 => format!("{:.2}ms", nanoseconds / 1e6),
        ..1e14 => format!("{:.2}s", nanoseconds / 1e9),
        _ => format!("{:.1e}s", nanoseconds / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn many_schedulers_fit_a_terminal_and_stand_beside_the_first() {
        let with = |scheduler: &str, quantum| {
            let mut run = samples::done();
            run.cell.scheduler = scheduler.into();
            run.cell.turns.quantum = quantum;
            run
        };
        let runs = [
            with("RR", Some(1_140_000)),
            with("RR", Some(10_000)),
            with("LARF", Some(1_140_000)),
            with("LARF", Some(10_000)),
            samples::failed(),
        ];
        let text = text(&runs.iter().collect::<Vec<_>>());
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert_eq!(text.matches("RR 1.14ms").count(), 2, "{text}");
        for needle in [
            "RR 10.00us",
            "LARF 10.00us",
            "                MQRR\n",
            "thread pause 25%",
        ] {
            assert_eq!(
                text.matches(needle).count(),
                if needle == "thread pause 25%" { 2 } else { 1 },
                "{needle}: {text}"
            );
        }
        assert!(text.contains("MQRR: the heap is too small,"));
    }

    #[test]
    fn why_there_is_no_outcome_is_named_once() {
        let mut text = String::new();
        failures(
            &mut text,
            &[samples::done(), samples::failed(), samples::failed()],
        );
        assert_eq!(text.matches("without an outcome: ").count(), 1, "{text}");
        assert!(
            text.contains("MQRR with ") && text.contains(" and 1 more: the heap is too small"),
            "{text}"
        );
    }

    #[test]
    fn long_messages_are_broken() {
        let mut text = String::new();
        broken(
            &format!("{} {}\nend", "word ".repeat(40), "x".repeat(200)),
            &mut text,
        );
        // A word that is wider than the table has a line of its own.
        let fits = |line: &str| line.chars().count() <= 80 || line.trim() == "x".repeat(200);
        assert!(text.lines().all(fits), "{text}");
        assert!(text.ends_with("\nend\n"));
    }

    #[test]
    fn values_fit_their_columns() {
        for value in [0.0, 1.0, 999_999.0, 1e9 - 1.0, 1e15, 1.8e19] {
            for written in [number(value), time(value), ratio(value)] {
                assert!(written.len() + 9 < OTHER, "{written}");
            }
        }
        for (base, value) in [(1.0, 1.0), (1.0, 1e9), (3.0, 0.0), (0.0, 7.0)] {
            assert_eq!(change(Some(base), value).len(), 9);
        }
        assert!(change(Some(10.0), 9.0).ends_with("-10.0%"));
        assert!(ROWS.iter().all(|row| row.label().len() <= NAME));
    }
}
