//! The tables and the targets of `isla-vista`.

use super::program_run::{Case, LOSES, Rule, Run};
use super::{FIXED, FREE, OF_SLICE, PRESSED, SAVED, SLICE, cases, is_in_slice, longest};
use crate::report::results::{Cell, Results, Table};
use crate::report::statistics::spread;
use crate::runner::{Runner, Variant};

type Ran = Variant<Case, Run>;

const COLUMNS: [(&str, &str); 13] = [
    ("program", ""),
    ("memory", "MiB"),
    ("fixed heap", "MiB"),
    ("time", "s"),
    ("young collections", ""),
    ("full collections", ""),
    ("in pauses", "s"),
    ("longest pause", "ms"),
    ("major faults", ""),
    ("of them in pauses", ""),
    ("stalls in pauses / in all", ""),
    ("unfinished", ""),
    ("of them killed", ""),
];
const RATIOS: &str =
    "The default's time by Isla Vista's, as in the paper's Table 3; above 1, Isla Vista is faster.";
const RATIO_COLUMNS: [(&str, &str); 10] = [
    ("program", ""),
    ("both short: tight", ""),
    ("both short: largest", ""),
    ("default enough, Isla Vista short: tight", ""),
    ("default enough, Isla Vista short: largest", ""),
    ("both enough: tight", ""),
    ("both enough: largest", ""),
    (
        "largest: the default's loss, the most that can be saved",
        "",
    ),
    ("largest, both short: as printed", ""),
    ("largest, both short: best fixed heap", ""),
];
/// Which runs each pair of the columns compares: the default's, and whether Isla Vista's are short of memory.
const PAIRS: [(bool, bool); 3] = [(true, true), (false, true), (false, false)];
/// The rules that the default is compared with in the last columns, both short of memory.
const OTHERS: [Rule; 2] = [Rule::Printed, Rule::Fixed];

/// How memory is made short, for the tables of all that do it.
pub(super) fn shortage(longest: f64) -> String {
    format!(
        "No broker. `enough`: without a limit. `short`: in a cgroup with swap, with as much memory as the \
         default takes three times as long as with enough. Tried, by one run each: the most anonymous \
         memory that the program took without a limit, by the default, with the tight heap, and a third of \
         what it took more with the largest, a sixth, a twelfth, nothing; the last of them where none is \
         little enough, and the one before that in which the default is killed. The limit is as if others \
         took the rest, unknown to the programs: all run with -XX:-UseContainerSupport. A run that was \
         killed, failed, or took {longest:.0} s counts as {longest:.0} s."
    )
}

/// How it was measured.
fn method(ran: &[Ran], runner: &Runner) -> String {
    let mut method = format!(
        "{} `isla-vista`: `plimsoll run --policy isla-vista --agent auto`; `from-outside`: `--agent never`; \
         `as-printed`: `--policy isla-vista-printed`, the rule of the paper without what we changed. \
         `best-fixed`: the default, with the fastest of six maximum heaps from the tight one to the largest \
         in the same memory: one run of each before, and two more of those within 1.25 times of the \
         shortest, by their medians. \
         Collections and pauses by the machine's own log. Faults and stalls in pauses by the agent, which is \
         loaded to count only in the other `short` rows. liberty answers 12,800 requests; what asks runs \
         outside of the group.",
        shortage(longest(runner))
    );
    if runner.slice() {
        let all = cases().filter(|case| is_in_slice(*case) && runner.wants(&case.name()));
        let left_out = all.count().saturating_sub(ran.len());
        method.push_str(&format!(
            " A slice: {}, which lost most by the default in the slice before; the largest heap with Serial \
             and G1 of JDK 17; as many of the {} rounds that were asked for as fit into {} minutes, \
             {left_out} rows left out.",
            OF_SLICE.join(", "),
            runner.repeat(),
            SLICE.as_secs() / 60,
        ));
    }
    method
}

pub(super) fn report(ran: &[Ran], runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "Java programs by their own rule and steered by their allocation stalls.",
            &method(ran, runner),
        )
        .columns(&COLUMNS);
    // In a slice, rounds may be left out.
    results.repetitions = ran.iter().map(|one| one.outcomes.len()).min().unwrap_or(0);
    for variant in ran {
        results.row(row(variant));
    }
    results.tables.push(ratios(ran));
    targets(&mut results, ran);
    results
}

fn row(variant: &Ran) -> [Cell; COLUMNS.len()] {
    let median = |of: fn(&Run) -> Option<f64>| median(variant, of);
    let cell = |of: fn(&Run) -> Option<f64>| shown(median(of));
    let stalls = |of: fn(&Run) -> Option<f64>| median(of).map(|stalls| format!("{stalls:.0}"));
    let within = stalls(|run| Some(run.counted.stalls?.1 as f64));
    let in_all = stalls(|run| Some(run.counted.stalls?.0 as f64));
    let both = within.zip(in_all);
    let count = |is: fn(&Run) -> bool| variant.outcomes.iter().filter(|run| is(run)).count();
    [
        variant.name.as_str().into(),
        match median(|run| Some((run.room? >> 20) as f64)) {
            Some(room) => room.into(),
            None => "enough".into(),
        },
        cell(|run| Some(run.fixed? as f64)),
        cell(|run| Some(run.seconds)),
        cell(|run| Some(run.logged.young)),
        cell(|run| Some(run.logged.full)),
        cell(|run| Some(run.logged.paused / 1e3)),
        cell(|run| Some(run.logged.longest)),
        cell(|run| Some(run.faults)),
        cell(|run| Some(run.counted.faults? as f64)),
        both.map_or_else(|| "-".into(), |(a, b)| format!("{a} / {b}").into()),
        (count(|run| !run.finished) as f64).into(),
        (count(|run| run.killed) as f64).into(),
    ]
}

/// The median of those runs that have it; `None` of none.
fn median(variant: &Ran, of: fn(&Run) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = variant.outcomes.iter().filter_map(of).collect();
    (!values.is_empty()).then(|| spread(&values).median)
}

fn shown(value: Option<f64>) -> Cell {
    value.map_or_else(|| "-".into(), Cell::from)
}

/// Median seconds of a case, if it ran.
pub(super) fn time(ran: &[Ran], case: Case) -> Option<f64> {
    let found = ran.iter().find(|variant| variant.what == case)?;
    Some(median(found, |run| Some(run.seconds))?.max(1e-9))
}

/// Ratios of times, a row for each program and machine.
fn ratios(ran: &[Ran]) -> Table {
    let mut table = Table::new(RATIOS, &RATIO_COLUMNS);
    let plain = cases().filter(|case| case.is_largest() && !case.short);
    for case in plain.filter(|case| case.rule == Rule::Default) {
        let heaps: Vec<u64> = case.program.heaps(2).collect();
        let ratio = |(above, below), heap| {
            let case = Case { heap, ..case };
            let above = time(ran, case.like(above, Rule::Default))?;
            Some(above / time(ran, case.like(below, Rule::IslaVista))?)
        };
        let ratio = &ratio;
        let pairs = PAIRS.into_iter();
        let mut all: Vec<Option<f64>> = pairs
            .flat_map(|pair| heaps.iter().map(move |heap| ratio(pair, *heap)))
            .collect();
        let short = time(ran, case.like(true, Rule::Default));
        let against = |other| Some(short? / time(ran, other)?);
        all.push(against(case));
        all.extend(OTHERS.map(|rule| against(case.like(true, rule))));
        if all.iter().any(Option::is_some) {
            let name = format!("{} {}", case.program.name, case.jvm.name());
            let cells = all.into_iter().map(shown);
            table
                .rows
                .push([Cell::from(name)].into_iter().chain(cells).collect());
        }
    }
    table
}

fn targets(results: &mut Results, ran: &[Ran]) {
    // Pairs of cases whose times are compared, among the largest heaps or all of them.
    let ratios = |largest: bool, of: &dyn Fn(Case) -> (Case, Case)| {
        let cases = ran.iter().map(|variant| variant.what);
        let cases = cases.filter(|case| !case.short && case.rule == Rule::Default);
        let cases = cases.filter(|case| !largest || case.is_largest());
        let ratio = |case| {
            let (above, below) = of(case);
            Some(time(ran, above)? / time(ran, below)?)
        };
        cases.filter_map(ratio).collect::<Vec<f64>>()
    };
    let ours = |case: Case, short| case.like(short, Rule::IslaVista);
    let by_default = |case: Case| case.like(true, Rule::Default);
    let losses = ratios(true, &|case| (by_default(case), case));
    let saved = ratios(true, &|case| (by_default(case), ours(case, true)));
    let pressed = losses.iter().filter(|&&loss| loss >= LOSES).count();
    let told = format!("{pressed} of {}", losses.len());
    let met = (!losses.is_empty()).then_some(2 * pressed >= losses.len());
    results.target(PRESSED, told, met);
    judge(results, SAVED, part_saved(&losses, &saved), |part| {
        part >= 0.8
    });
    let fixed = |case: Case| case.like(true, Rule::Fixed);
    let fixed = ratios(true, &|case| (ours(case, true), fixed(case)));
    judge_mean(results, FIXED, &fixed, f64::max, |mean| mean <= 1.05);
    let free = ratios(false, &|case| (ours(case, false), case));
    judge_mean(results, FREE, &free, f64::max, |mean| mean <= 1.02);
}

/// The part of the default's losses that was saved, by logarithms: 1 where there is as little loss as with
/// enough memory. `None` where nothing was lost, or not all was measured.
fn part_saved(losses: &[f64], saved: &[f64]) -> Option<f64> {
    let lost = mean(losses).filter(|&lost| lost > 1.0 && losses.len() == saved.len())?;
    Some(mean(saved)?.ln() / lost.ln())
}

/// Judges a geometric mean, and tells that it is one; `worst` is the worse of two.
fn judge_mean(
    results: &mut Results,
    claim: &str,
    values: &[f64],
    worst: fn(f64, f64) -> f64,
    met: fn(f64) -> bool,
) {
    let told = match (mean(values), values.iter().copied().reduce(worst)) {
        (Some(mean), Some(worst)) => format!(
            "{mean:.2} (geometric mean of {} pairs; worst {worst:.2})",
            values.len()
        ),
        _ => "not measured".to_owned(),
    };
    results.target(claim, told, mean(values).map(met));
}

pub(super) fn judge(results: &mut Results, claim: &str, value: Option<f64>, met: fn(f64) -> bool) {
    let told = value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.2}"));
    results.target(claim, told, value.map(met));
}

/// The geometric mean; `None` of nothing.
fn mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

pub(super) fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::programs::ALL;
    use super::*;

    fn variant(case: Case, seconds: f64) -> Ran {
        Variant {
            name: case.name(),
            what: case,
            outcomes: vec![Run {
                seconds,
                ..Run::default()
            }],
        }
    }

    #[test]
    fn the_mean_is_that_of_ratios() {
        assert_eq!(mean(&[]), None);
        assert!((mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-9);
        assert_eq!(most(&[1.0, 3.0, 2.0]), Some(3.0));
    }

    #[test]
    fn what_is_saved_of_a_loss_is_a_part_of_its_logarithm() {
        let part = |losses: &[f64], saved: &[f64]| part_saved(losses, saved);
        assert!((part(&[4.0], &[2.0]).unwrap() - 0.5).abs() < 1e-9);
        assert!((part(&[8.0, 2.0], &[4.0, 4.0]).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(part(&[4.0, 2.0], &[2.0]), None, "one was not measured");
        assert_eq!(part(&[0.9], &[0.9]), None, "nothing was lost");
        assert_eq!(part(&[], &[]), None);
    }

    #[test]
    fn a_judged_mean_is_called_one_and_stands_beside_the_worst() {
        let mut results = Results::new("isla-vista", "", "", 1);
        judge_mean(&mut results, FREE, &[0.5, 2.0, 1.0], f64::max, |mean| {
            mean <= 1.02
        });
        judge_mean(&mut results, FIXED, &[2.0, 8.0], f64::min, |mean| {
            mean >= 3.7
        });
        judge_mean(&mut results, FIXED, &[], f64::min, |mean| mean >= 3.7);
        let told = |index: usize| {
            let target = &results.targets[index];
            (target.measured.as_str(), target.met)
        };
        assert_eq!(
            told(0),
            ("1.00 (geometric mean of 3 pairs; worst 2.00)", Some(true))
        );
        assert_eq!(
            told(1),
            ("4.00 (geometric mean of 2 pairs; worst 2.00)", Some(true))
        );
        assert_eq!(told(2), ("not measured", None));
    }

    #[test]
    fn ratios_are_those_of_the_papers_table() {
        let first = cases()
            .find(|case| case.is_largest())
            .expect("there are some");
        let four = Case::four(ALL[0], first.jvm, first.heap);
        let times = [10.0, 20.0, 60.0, 12.0];
        let ran: Vec<Ran> = four
            .into_iter()
            .zip(times)
            .map(|(c, s)| variant(c, s))
            .collect();
        let table = ratios(&ran);
        assert_eq!(table.rows.len(), 1, "only what was measured");
        let numbers: Vec<Option<f64>> = table.rows[0][1..]
            .iter()
            .map(|cell| match cell {
                Cell::Number(value) => Some(*value),
                Cell::Text(_) => None,
            })
            .collect();
        let wanted = [None, Some(5.0), None, Some(10.0 / 12.0), None, Some(0.5)];
        assert_eq!(numbers[..6], wanted);
        assert_eq!(numbers[6..], [Some(6.0), None, None]);
    }

    #[test]
    fn what_was_not_counted_is_not_shown_as_nothing() {
        let row = row(&variant(cases().next().expect("there are some"), 1.0));
        let told = |index: usize| match &row[index] {
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => value.to_string(),
        };
        assert_eq!(
            [told(1), told(2), told(9), told(10)],
            ["enough", "-", "-", "-"]
        );
    }
}
