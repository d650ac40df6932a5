//! The columns of the table, and its rows about costs.

use crate::report::results::Results;

pub(super) const COLUMNS: [(&str, &str); 7] = [
    ("case", ""),
    ("program", ""),
    ("true part", ""),
    ("charged part", ""),
    ("distance", ""),
    ("cost", "%"),
    ("95 % interval", "%"),
];

/// Adds a row: percent that something costs, with its interval.
pub(super) fn note_cost(results: &mut Results, case: &str, who: &str, cost: f64, interval: String) {
    let none = || "".into();
    results.row([
        case.into(),
        who.into(),
        none(),
        none(),
        none(),
        cost.into(),
        interval.into(),
    ]);
}
