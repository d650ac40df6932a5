//! A table for people: a row for each quantity and a column for each scheduler, with what it is less or more
//! than under the first.

use super::run::{Cell, Run};
use crate::rows::shown;
use crate::size::Human;
use crate::words::wrap;
use plimsoll_policy::phases::Ties;
use plimsoll_sim::threads::Outcome;
use plimsoll_sim::threads::heap::NewRatio;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Columns of the names of quantities, and of each scheduler.
const WIDTHS: (usize, usize) = (20, 20);
/// Schedulers side by side. Of more, the others follow below, each time beside the first.
const BESIDE: usize = 3;
/// Columns of the whole table.
const WHOLE: usize = WIDTHS.0 + BESIDE * WIDTHS.1;
/// The longest name of a trace that is shown, characters.
const LONGEST_NAME: usize = 60;

/// A quantity: its name, its value, and how that is written.
type Row = (&'static str, fn(&Outcome) -> f64, fn(f64) -> String);

/// The quantities, in the order of the paper: what of Table 1 is not above them, Table 2 and Figure 3, Figure
/// 4, Tables 3 and 4.
const ROWS: [Row; 19] = [
    ("objects", |it| it.objects as f64, number),
    ("minor collections", |it| it.minor as f64, number),
    ("mixed collections", |it| it.mixed as f64, number),
    ("full collections", |it| it.full as f64, number),
    ("mark/cons", Outcome::mark_cons, ratio),
    ("average pause, heaps", Outcome::average_pause, ratio),
    ("greatest pause", Outcome::greatest_pause, ratio),
    ("pause a thread, ns/B", |it| it.thread_pauses.least, ratio),
    ("  a quarter", |it| it.thread_pauses.lower, ratio),
    ("  median", |it| it.thread_pauses.median, ratio),
    ("  three quarters", |it| it.thread_pauses.upper, ratio),
    ("  greatest", |it| it.thread_pauses.greatest, ratio),
    ("collection time", |it| it.paused as f64, time),
    ("contentions", |it| it.contentions as f64, number),
    ("switches", |it| it.switches as f64, number),
    ("execution time", |it| it.execution as f64, time),
    ("elapsed time", |it| it.elapsed as f64, time),
    ("average turnaround", |it| it.turnaround as f64, time),
    ("longest wait", |it| it.longest_wait_time as f64, time),
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

/// What each run is called: its scheduler, and its quantum where that scheduler has several among them.
pub(super) fn names(runs: &[&Run]) -> Vec<String> {
    let mut quanta: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for run in runs {
        let known = quanta.entry(&run.cell.scheduler).or_default();
        known.insert(quantum(&run.cell));
    }
    let name = |run: &&Run| {
        let cell = &run.cell;
        match quanta.get(cell.scheduler.as_str()) {
            Some(several) if several.len() > 1 => format!("{} {}", cell.scheduler, quantum(cell)),
            _ => cell.scheduler.clone(),
        }
    };
    runs.iter().map(name).collect()
}

/// The quantum of a scheduler, with its unit, and whether it is another than ours with ties.
fn quantum(cell: &Cell) -> String {
    let quantum = match (cell.quantum, cell.memory_quantum) {
        (Some(nanoseconds), _) => time(nanoseconds as f64),
        (None, Some(bytes)) => Human(bytes).to_string(),
        (None, None) => String::new(),
    };
    match cell.ties.as_deref() {
        Some(ties) if ties != Ties::Newest.name() => format!("{quantum} {ties}"),
        _ => quantum,
    }
}

/// Runs beside each other; changes are those against the first.
fn columns(text: &mut String, runs: &[(&str, &Run)]) {
    let (names, column) = WIDTHS;
    let _ = write!(text, "\n{:names$}", "");
    for (name, _) in runs {
        let _ = write!(text, "{name:>column$}");
    }
    text.push('\n');
    for (name, value, written) in ROWS {
        let mut line = format!("{name:names$}");
        let base = runs[0].1.outcome.as_ref().map(value);
        for (index, (_, run)) in runs.iter().enumerate() {
            let cell = match run.outcome.as_ref().map(value) {
                None => "-".to_owned(),
                Some(it) if index == 0 => written(it),
                Some(it) => written(it) + &change(base, it),
            };
            let _ = write!(line, "{cell:>column$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// What has to be said of a run beside its numbers.
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

pub(super) fn number(value: f64) -> String {
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
            run.cell.quantum = quantum;
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
            "a quarter",
        ] {
            assert_eq!(
                text.matches(needle).count(),
                if needle == "a quarter" { 2 } else { 1 },
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
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(text.ends_with("\nend\n"));
    }

    #[test]
    fn values_fit_their_columns() {
        for value in [0.0, 1.0, 999_999.0, 1e9 - 1.0, 1e15, 1.8e19] {
            for written in [number(value), time(value), ratio(value)] {
                assert!(written.len() + 9 < WIDTHS.1, "{written}");
            }
        }
        for (base, value) in [(1.0, 1.0), (1.0, 1e9), (3.0, 0.0), (0.0, 7.0)] {
            assert_eq!(change(Some(base), value).len(), 9);
        }
        assert!(change(Some(10.0), 9.0).ends_with("-10.0%"));
        assert!(ROWS.iter().all(|(name, ..)| name.len() <= WIDTHS.0));
    }
}
