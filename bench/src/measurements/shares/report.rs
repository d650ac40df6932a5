//! The tables of the measurement, and its verdicts.

use super::kinds::{Kind, without_lending};
use super::lending::{Lender, lenders, losses};
use super::outcome::{Outcome, TOLERANCE, Turn};
use crate::report::results::{Results, Table};
use crate::report::statistics::{quantile, spread};
use crate::runner::{Runner, Variant};
use std::collections::BTreeMap;

/// The most that an arrival may lack, as a part of the budget.
const NEWCOMER: f64 = 0.10;
/// The part of the budget that is to be in use.
const IN_USE: f64 = 0.95;
/// The part of its work that a lender may lose.
const LOSS: f64 = 0.05;

pub(super) const ASKS: &[&str] = &[
    "*: at most 3 % above its share* s after *",
    "*: at most 3 % below * s after a change",
    "*: at most 10 % below * s after it is ready, if it arrives",
    "*: within 3 % of the budget *",
    "*: at least 95 % of the budget in use",
    "*: no lender loses more than 5 % of its work",
];

const METHOD: &str = "\
     Three programs of a kind (weights 10, 40, 20) start 10 s apart; then the first changes its \
     weight to 40, then the second leaves. Thirty programs: twenty start at once, ten 10 s later, and \
     three end. Distances are percent of the budget that the broker shares out; resident memory \
     is read from outside ten times a second, and the farthest program counts. Over: above its \
     share, of programs whose share fell, 2 s after (ZGC: 2.4 s on 17 and 4 s on 25, in which it \
     was measured to give memory back). Under: below its share, or below what it used at its \
     first line of progress and has allocated since, if that is less; of programs that ran before \
     the change as soon after it, of arrivals as soon after their first line. Rest: from 5 s \
     after a change to the next, the distance from its share of the most that a program used in \
     the last second. In use: the sum of all, then. Each with the median of all changes and runs \
     and with what nineteen of twenty are within. The broker is set up without lending. Lending: \
     the same beside it, with lending, in turns: the work of the programs that had less than \
     their share by more than 3 % of the budget, against their work without lending at the same \
     time of the run. The programs are the paper's benchmark, GCBench in our writing: in C on \
     libgc; for ZGC and Shenandoah with 25 MB live and buffers of 4 KiB instead of trees, 400 \
     MB/s at the most: three programs that build all the trees they can leave two processors no \
     time for collectors that run beside them; for the other collectors of Java a service with \
     100 MB of records; a quarter of its allocation replaces some. Agent: with `--agent auto`. \
     Fixed heap: -Xms and -Xmx 1500 MiB, which shrinks only by what the agent gives back. Small: \
     400 MB, 20 s between changes, 25 MB of records. v2: the same in user-mode Linux with one \
     processor under cgroup version 2, where a page fault takes a hundred times as long; small kinds \
     have no targets.";

/// Reports all variants.
pub(super) fn report(ran: &[Variant<Kind, Outcome>], runner: &Runner) -> Results {
    let mut results = empty(runner);
    let mut by_change = Table::new(
        "By change, medians:",
        &[
            ("programs", ""),
            ("change", ""),
            ("over", "%"),
            ("under", "%"),
            ("under, arrivals", "%"),
            ("rest", "%"),
            ("in use", "%"),
        ],
    );
    let mut loans = Table::new(
        "Lenders: how much less than their share they have, and their work against that without lending:",
        &[
            ("programs", ""),
            ("lender", ""),
            ("pairs of runs", ""),
            ("lent, median", "%"),
            ("work, median", ""),
            ("least", ""),
            ("by processor time, median", ""),
        ],
    );
    for variant in ran {
        let Some(plain) = without_lending(&variant.name) else {
            note(&mut results, variant);
            note_changes(&mut by_change, variant);
            continue;
        };
        if let Some(plain) = ran.iter().find(|other| other.name == plain) {
            let lenders = lenders(&variant.outcomes, &plain.outcomes);
            note_lending(&mut results, &mut loans, &variant.name, &lenders);
        }
    }
    for table in [by_change, loans] {
        if !table.rows.is_empty() {
            results.tables.push(table);
        }
    }
    results
}

fn empty(runner: &Runner) -> Results {
    let results = runner.results(
        "How far programs are from their weighted share of 1500 MB.",
        METHOD,
    );
    results.columns(&[
        ("programs", ""),
        ("over, median", "%"),
        ("nineteen of twenty", "%"),
        ("under, median", "%"),
        ("nineteen of twenty", "%"),
        ("under, arrivals, median", "%"),
        ("nineteen of twenty", "%"),
        ("rest, median", "%"),
        ("nineteen of twenty", "%"),
        ("in use, median", "%"),
        ("nineteen of twenty", "%"),
        ("major faults", ""),
    ])
}

/// A figure of several runs: its median, and what nineteen of twenty are within.
#[derive(Clone, Copy, Debug)]
struct Figure {
    median: f64,
    often: f64,
}

impl Figure {
    /// The figure of a distance.
    fn of(values: &[f64]) -> Figure {
        Figure {
            median: spread(values).median,
            often: quantile(values, 0.95),
        }
    }

    /// The figure of a part that should be large.
    fn of_part(values: &[f64]) -> Figure {
        Figure {
            median: spread(values).median,
            often: quantile(values, 0.05),
        }
    }

    fn is_within(self, bound: f64) -> bool {
        self.median.max(self.often) <= bound
    }

    fn text(self) -> String {
        let (median, often) = (percent(self.median), percent(self.often));
        format!("median {median:.1} %, nineteen of twenty {often:.1} %")
    }
}

fn percent(part: f64) -> f64 {
    part * 100.0
}

/// The figures of some turns.
struct Figures {
    over: Figure,
    incumbents: Figure,
    arrivals: Figure,
    rest: Figure,
    used: Figure,
}

impl Figures {
    fn of(turns: &[&Turn]) -> Figures {
        let some = |pick: fn(&Turn) -> Option<f64>| {
            let values: Vec<f64> = turns.iter().filter_map(|turn| pick(turn)).collect();
            Figure::of(&values)
        };
        let rest: Vec<f64> = turns.iter().flat_map(|turn| turn.rest.clone()).collect();
        let used: Vec<f64> = turns.iter().map(|turn| turn.used).collect();
        Figures {
            over: some(|turn| turn.over),
            incumbents: some(|turn| turn.incumbents),
            arrivals: some(|turn| turn.arrivals),
            rest: Figure::of(&rest),
            used: Figure::of_part(&used),
        }
    }

    fn all(&self) -> [Figure; 5] {
        [
            self.over,
            self.incumbents,
            self.arrivals,
            self.rest,
            self.used,
        ]
    }
}

fn note(results: &mut Results, variant: &Variant<Kind, Outcome>) {
    let outcomes = &variant.outcomes;
    let turns: Vec<&Turn> = outcomes.iter().flat_map(|run| &run.turns).collect();
    let figures = Figures::of(&turns);
    let [over, incumbents, arrivals, rest, used] = figures
        .all()
        .map(|it| [percent(it.median).into(), percent(it.often).into()]);
    let faults = outcomes.iter().map(|run| run.major_faults).max();
    let [[a, b], [c, d], [e, f], [g, h], [i, j]] = [over, incumbents, arrivals, rest, used];
    results.row([
        variant.name.as_str().into(),
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        i,
        j,
        faults.unwrap_or(0).into(),
    ]);
    if variant.what.asked {
        judge(results, &variant.name, variant.what.rules.soon, &figures);
    }
}

fn judge(results: &mut Results, name: &str, soon: f64, figures: &Figures) {
    let mut target = |what: String, figure: Figure, met: bool| {
        results.target(&format!("{name}: {what}"), figure.text(), met);
    };
    target(
        format!("at most 3 % above its share {soon:.1} s after it fell"),
        figures.over,
        figures.over.is_within(TOLERANCE),
    );
    target(
        format!("at most 3 % below {soon:.1} s after a change"),
        figures.incumbents,
        figures.incumbents.is_within(TOLERANCE),
    );
    target(
        format!("at most 10 % below {soon:.1} s after it is ready, if it arrives"),
        figures.arrivals,
        figures.arrivals.is_within(NEWCOMER),
    );
    target(
        "within 3 % of the budget at rest".to_owned(),
        figures.rest,
        figures.rest.is_within(TOLERANCE),
    );
    target(
        "at least 95 % of the budget in use".to_owned(),
        figures.used,
        figures.used.median.min(figures.used.often) >= IN_USE,
    );
}

fn note_changes(table: &mut Table, variant: &Variant<Kind, Outcome>) {
    let changes = variant.outcomes.first().map_or(0, |run| run.turns.len());
    for change in 0..changes {
        let turns = variant.outcomes.iter();
        let turns: Vec<&Turn> = turns.filter_map(|run| run.turns.get(change)).collect();
        let figures = Figures::of(&turns);
        let applies = [
            turns[0].over.is_some(),
            turns[0].incumbents.is_some(),
            turns[0].arrivals.is_some(),
            true,
            true,
        ];
        let mut row = vec![variant.name.as_str().into(), turns[0].what.as_str().into()];
        for (figure, applies) in figures.all().into_iter().zip(applies) {
            row.push(if applies {
                percent(figure.median).into()
            } else {
                "".into()
            });
        }
        table.rows.push(row);
    }
}

fn note_lending(
    results: &mut Results,
    table: &mut Table,
    name: &str,
    lenders: &BTreeMap<String, Lender>,
) {
    for (program, lender) in lenders {
        table.rows.push(vec![
            name.into(),
            program.as_str().into(),
            (lender.work.len() as u64).into(),
            percent(spread(&lender.lent).median).into(),
            spread(&lender.work).median.into(),
            spread(&lender.work).min.into(),
            spread(&lender.by_processor).median.into(),
        ]);
    }
    let (median, often) = losses(lenders);
    let (measured, met) = if lenders.is_empty() {
        ("nobody lent".to_owned(), None)
    } else {
        (
            Figure { median, often }.text(),
            Some(median.max(often) <= LOSS),
        )
    };
    results.target(
        &format!("{name}: no lender loses more than 5 % of its work"),
        measured,
        met,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_meets_its_bound_with_its_median_and_nineteen_of_twenty() {
        let mut values = vec![0.01; 19];
        values.push(0.02);
        assert!(Figure::of(&values).is_within(TOLERANCE));
        values.extend([0.4, 0.4]);
        let figure = Figure::of(&values);
        assert!(figure.median < TOLERANCE && !figure.is_within(TOLERANCE));
        let used = Figure::of_part(&[0.99, 0.98, 0.97, 0.5]);
        assert!(used.often < 0.6 && used.median > 0.97, "{used:?}");
        assert_eq!(
            Figure::of(&[0.5]).text(),
            "median 50.0 %, nineteen of twenty 50.0 %"
        );
    }
}
