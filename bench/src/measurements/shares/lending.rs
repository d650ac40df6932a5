//! The cost of lending to those who lend.

use super::outcome::{Outcome, Part, TOLERANCE};
use crate::report::statistics::{quantile, spread};
use std::collections::BTreeMap;

/// The memory that a program lent, and its work with lending in ratio to that without: a value for
/// each pair of runs.
#[derive(Debug, Default)]
pub(super) struct Lender {
    /// Parts of the budget.
    pub(super) lent: Vec<f64>,
    /// By time, and by its own processor time.
    pub(super) work: Vec<f64>,
    pub(super) by_processor: Vec<f64>,
}

/// The programs that lend, by name. A program lends from one change to the next if its limits are below its
/// share by more than the tolerance. Its work is that of all such times of a run, in both runs of a pair.
pub(super) fn lenders(with: &[Outcome], without: &[Outcome]) -> BTreeMap<String, Lender> {
    let mut lenders: BTreeMap<String, Lender> = BTreeMap::new();
    for (with, without) in with.iter().zip(without) {
        let mut pairs: BTreeMap<&str, Vec<(&Part, &Part)>> = BTreeMap::new();
        for (turn, other) in with.turns.iter().zip(&without.turns) {
            for (part, other) in turn.parts.iter().zip(&other.parts) {
                if part.share - part.limit > TOLERANCE && part.work > 0.0 && other.work > 0.0 {
                    pairs.entry(&part.name).or_default().push((part, other));
                }
            }
        }
        for (name, pairs) in pairs {
            let lender = lenders.entry(name.to_owned()).or_default();
            let lent = pairs.iter().map(|(part, _)| part.share - part.limit);
            lender.lent.push(lent.sum::<f64>() / pairs.len() as f64);
            lender.work.push(ratio(&pairs, |part| part.seconds));
            lender
                .by_processor
                .push(ratio(&pairs, |part| part.processor));
        }
    }
    lenders
}

/// Work per time with lending, in ratio to that without.
fn ratio(pairs: &[(&Part, &Part)], time: fn(&Part) -> f64) -> f64 {
    let sum = |which: fn(&Part) -> f64, first: bool| -> f64 {
        let parts = pairs.iter().map(|pair| if first { pair.0 } else { pair.1 });
        parts.map(which).sum()
    };
    let rate = |first| sum(|part| part.work, first) / sum(time, first).max(1e-9);
    rate(true) / f64::max(rate(false), 1e-9)
}

/// The loss of work of lenders: the median of the one that loses most, and nineteen of twenty of all.
pub(super) fn losses(lenders: &BTreeMap<String, Lender>) -> (f64, f64) {
    let medians = lenders.values().map(|one| 1.0 - spread(&one.work).median);
    let all: Vec<f64> = lenders
        .values()
        .flat_map(|one| one.work.iter().map(|work| 1.0 - work))
        .collect();
    (medians.fold(0.0, f64::max), quantile(&all, 0.95).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::shares::outcome::Turn;

    fn outcome(parts: &[(&str, f64, f64)]) -> Outcome {
        let part = |(name, limit, work): &(&str, f64, f64)| Part {
            name: (*name).to_owned(),
            share: 0.5,
            limit: *limit,
            seconds: 8.0,
            processor: 4.0,
            work: *work,
        };
        let turn = Turn {
            what: String::new(),
            over: None,
            incumbents: None,
            arrivals: None,
            rest: Vec::new(),
            used: 1.0,
            parts: parts.iter().map(part).collect(),
        };
        Outcome {
            turns: vec![turn],
            major_faults: 0,
        }
    }

    #[test]
    fn who_has_less_than_its_share_lends_and_may_lose_work() {
        let without = [("a", 0.5, 100.0), ("b", 0.5, 50.0)];
        let with = [
            [("a", 0.3, 90.0), ("b", 0.7, 80.0)],
            [("a", 0.4, 98.0), ("b", 0.49, 1.0)],
        ];
        let with: Vec<Outcome> = with.iter().map(|parts| outcome(parts)).collect();
        let without = [outcome(&without), outcome(&without)];
        let lenders = lenders(&with, &without);
        assert_eq!(lenders.keys().collect::<Vec<_>>(), ["a"]);
        let lender = &lenders["a"];
        assert!((lender.lent[0] - 0.2).abs() < 1e-9 && (lender.work[1] - 0.98).abs() < 1e-9);
        assert_eq!(lender.work, lender.by_processor);
        let (median, often) = losses(&lenders);
        assert!((median - 0.06).abs() < 1e-9, "{median}");
        assert!((often - 0.096).abs() < 1e-9, "{often}");
    }
}
