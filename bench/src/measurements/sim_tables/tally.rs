//! The judgement: how many entries change the paper's way, of made-up and of recorded programs.

use super::programs::Program;
use super::runs::Runs;
use crate::report::results::Results;

/// The claims. The star stands for a kind of program.
pub(super) const ASKS: [&str; 7] = [
    "Table 2*: every number of collections changes the paper's way",
    "Table 3*: every number of contentions and switches changes the paper's way",
    "Table 4*: every time changes the paper's way",
    "Figures 6 and 7*: MarkCompact and SemiSpace save less collection time than GenMC",
    "Figures 3 and 4*: what the text tells of mark/cons and pauses changes its way",
    "Table 3*: LARF changes switches less where threads with equal rates take turns",
    CONSERVED,
];

const CONSERVED: &str = "in each simulation what is allocated is freed, live or garbage, and each scheduler \
     lets the same threads do the same";

/// The kinds of programs, by whether they are recorded.
const KINDS: [&str; 2] = ["made-up", "recorded"];

/// The tables and figures that are counted, with the claim of each in [`ASKS`].
const TABLES: [(&[&str], usize); 4] = [
    (&["2"], 0),
    (&["3"], 1),
    (&["4"], 2),
    (&["Figure 3", "Figure 4"], 4),
];

/// Smaller changes than this count as none, percent.
const NONE: f64 = 0.5;

/// The entries that are judged. The first index is whether programs are recorded.
#[derive(Default)]
pub(super) struct Tally {
    /// By table and quantum: entries that change the paper's way, and all.
    same: [[[(u32, u32); 2]; TABLES.len()]; 2],
    /// Sizes of the changes of switches under LARF, percent, in both ways with ties.
    ties: [[Vec<f64>; 2]; 2],
    /// Simulations with an outcome, and what is wrong with them.
    conserved: (usize, Vec<String>),
    /// Changes of collection time, percent: under MarkCompact and SemiSpace, and under GenMC.
    whole: [Vec<f64>; 2],
    generational: [Vec<f64>; 2],
}

/// -1, 0 or 1.
fn direction(change: f64) -> f64 {
    if change.abs() < NONE {
        0.0
    } else {
        change.signum()
    }
}

fn median(list: &[f64]) -> f64 {
    let mut list = list.to_vec();
    list.sort_by(f64::total_cmp);
    let middle = list.get(list.len() / 2).copied().unwrap_or_default();
    let below = list.get((list.len().max(1) - 1) / 2).copied();
    (middle + below.unwrap_or_default()) / 2.0
}

impl Tally {
    /// An entry of a table, as changes under LARF and MQRR, percent.
    pub(super) fn entry(
        &mut self,
        is_recorded: bool,
        table: &str,
        quantum: usize,
        paper: [Option<f64>; 2],
        ours: [Option<f64>; 2],
    ) {
        let Some(table) = TABLES.iter().position(|(names, _)| names.contains(&table)) else {
            return;
        };
        let counts = &mut self.same[usize::from(is_recorded)][table][quantum];
        for (paper, ours) in paper.into_iter().zip(ours) {
            let Some(paper) = paper else { continue };
            let is_same = ours.is_some_and(|ours| direction(ours) == direction(paper));
            counts.0 += u32::from(is_same);
            counts.1 += 1;
        }
    }

    /// Changes of collection time under a collector, with the paper's quantum, percent.
    pub(super) fn collector(
        &mut self,
        is_recorded: bool,
        collector: &str,
        changes: [Option<f64>; 2],
    ) {
        let into = match collector {
            "MarkCompact" | "SemiSpace" => &mut self.whole,
            "GenMC" => &mut self.generational,
            _ => return,
        };
        into[usize::from(is_recorded)].extend(changes.into_iter().flatten());
    }

    /// How switches change under LARF: where the newest of equal rates goes first, and where they take turns.
    pub(super) fn ties(&mut self, is_recorded: bool, newest: Option<f64>, oldest: Option<f64>) {
        let [first, second] = &mut self.ties[usize::from(is_recorded)];
        if let (Some(newest), Some(oldest)) = (newest, oldest) {
            first.push(newest.abs());
            second.push(oldest.abs());
        }
    }

    /// Whether the simulations of a program contradict themselves or each other.
    pub(super) fn conserved(&mut self, program: &Program, runs: &Runs) {
        let (done, faults) = runs.conserved();
        self.conserved.0 += done;
        let faults = faults
            .into_iter()
            .map(|it| format!("{}: {it}", program.name));
        self.conserved.1.extend(faults);
    }

    /// Adds what has come out to the results.
    pub(super) fn judge(&self, results: &mut Results) {
        for (kind, name) in KINDS.iter().enumerate() {
            let claim = |which: usize| ASKS[which].replace('*', &format!(", {name}"));
            for ((_, which), counts) in TABLES.iter().zip(&self.same[kind]) {
                let [(paper, all), (short, _)] = *counts;
                let measured = format!(
                    "{paper} of {all} with a quantum of 1.14 ms, {short} with one of 10 µs"
                );
                let met = (all > 0).then_some(paper.max(short) == all);
                results.target(&claim(*which), measured, met);
            }
            let lists = (&self.whole[kind], &self.generational[kind]);
            let (whole, generational) = (median(lists.0), median(lists.1));
            let measured = format!("in the median {whole:+.1} % and {generational:+.1} %");
            let has_both = !lists.0.is_empty() && !lists.1.is_empty();
            let met = has_both.then_some(whole > generational);
            results.target(&claim(3), measured, met);
            let [newest, oldest] = &self.ties[kind];
            let less = newest
                .iter()
                .zip(oldest)
                .filter(|(newest, oldest)| oldest < newest)
                .count();
            let (all, middle) = (newest.len(), [newest, oldest].map(|it| median(it)));
            let measured = format!(
                "{less} of {all}; in the median by {:.1} instead of {:.1} %",
                middle[1], middle[0]
            );
            results.target(&claim(5), measured, (all > 0).then_some(less == all));
        }
        let (done, faults) = &self.conserved;
        let measured = if faults.is_empty() {
            format!("{done} simulations")
        } else {
            format!(
                "{} faults in {done} simulations: {}",
                faults.len(),
                faults.join("; ")
            )
        };
        results.target(
            CONSERVED,
            measured,
            (*done > 0).then_some(faults.is_empty()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::paper::{self, ENTRIES};
    use super::super::{paper_changes, programs::PROGRAMS};
    use super::*;

    #[test]
    fn the_papers_own_figures_go_its_way() {
        let mut tally = Tally::default();
        for program in PROGRAMS {
            let Some(paper) = program.paper else { continue };
            let is_recorded = program.is_recorded();
            for entry in &ENTRIES {
                let changes = paper_changes((entry.of)(&paper));
                tally.entry(is_recorded, entry.table, 0, changes, changes);
                let other = changes.map(|it| it.map(|change| -change - 1.0));
                tally.entry(is_recorded, entry.table, 1, changes, other);
            }
        }
        for (kind, programs) in [(0, 5), (1, 4)] {
            for (table, each) in [(0, 4), (1, 4), (2, 6)] {
                let entries = programs * each;
                assert_eq!(tally.same[kind][table][0], (entries, entries));
                assert_eq!(tally.same[kind][table][1].1, entries);
                assert!(tally.same[kind][table][1].0 < entries / 2);
            }
        }
        // The text tells mark/cons of four programs, and pauses of hsqldb.
        assert_eq!(tally.same[0][3][0], (4 * 2 + 7 * 2, 4 * 2 + 7 * 2));
        // As section 5.4.1 says of Table 3: at worst 15 % more contentions, in lusearch.
        let worst = paper_changes((ENTRIES[2].of)(&paper::LUSEARCH))[1];
        assert!(
            worst.is_some_and(|it| (15.0..16.0).contains(&it)),
            "{worst:?}"
        );
    }

    #[test]
    fn taking_turns_is_judged_by_how_much_less_switches_change() {
        let mut tally = Tally::default();
        tally.ties(false, Some(-60.0), Some(1.0));
        tally.ties(false, Some(-20.0), Some(-30.0));
        tally.ties(false, None, Some(0.0));
        let mut results = Results::new("sim-tables", "", "", 1);
        tally.judge(&mut results);
        let found = results
            .targets
            .iter()
            .find(|it| it.claim.contains("made-up: LARF"));
        let found = found.map(|it| (it.measured.as_str(), it.met));
        let text = "1 of 2; in the median by 15.5 instead of 40.0 %";
        assert_eq!(found, Some((text, Some(false))));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[5.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 900.0]), 3.0);
    }
}
