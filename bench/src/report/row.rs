//! Rows of a result: the raw figures of a variant, with the commit and the machine that they are from.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};

/// The outcomes of all runs of a variant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The variant.
    pub name: String,
    /// The commit that the measuring program was built from.
    pub commit: String,
    /// The machine, as tables name it.
    pub machine: String,
    /// When the last run ended, seconds since 1970.
    pub ended: u64,
    /// Seconds that its runs took.
    pub took: f64,
    /// The raw figures of each run, in order.
    pub outcomes: Vec<Value>,
}

/// The row whose last run is the oldest.
pub(super) fn oldest(rows: &[Row]) -> Option<&Row> {
    rows.iter().min_by_key(|row| row.ended)
}

/// Where rows were measured, for a table: the oldest commit, the newest if it is another one, and all
/// machines. `None` if there are no rows.
pub(super) fn origin(rows: &[Row]) -> Option<String> {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| row.ended);
    let (first, last) = (sorted.first()?, sorted.last()?);
    let commit = if first.commit == last.commit {
        first.commit.clone()
    } else {
        format!(
            "{} (the oldest row; the newest at {})",
            first.commit, last.commit
        )
    };
    let mut machines: Vec<&str> = Vec::new();
    for row in sorted {
        if !machines.contains(&row.machine.as_str()) {
            machines.push(&row.machine);
        }
    }
    Some(format!("{commit}, {}", machines.join("; other rows on ")))
}

/// A figure with six significant digits, which is more than any table shows; integers in full.
pub(crate) fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let full = number.as_f64().unwrap_or_default();
            let short = if full.fract() == 0.0 {
                full
            } else {
                format!("{full:.5e}").parse().unwrap_or(full)
            };
            Number::from_f64(short).map_or(Value::Null, Value::Number)
        }
        Value::Array(all) => all.into_iter().map(rounded).collect(),
        Value::Object(all) => {
            let each = all.into_iter().map(|(name, value)| (name, rounded(value)));
            Value::Object(each.collect())
        }
        other => other,
    }
}

/// Reads a figure that may be unknown: one that is not finite is kept as `null`.
pub(crate) fn or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(commit: &str, machine: &str, ended: u64) -> Row {
        Row {
            commit: commit.to_owned(),
            machine: machine.to_owned(),
            ended,
            ..Row::default()
        }
    }

    #[test]
    fn the_oldest_commit_and_all_machines_are_named() {
        assert_eq!(origin(&[]), None);
        let same = [row("a", "m", 3), row("a", "m", 5)];
        assert_eq!(origin(&same).as_deref(), Some("a, m"));
        let rows = [row("b", "n", 9), row("a", "m", 3), row("c", "m", 5)];
        let said = "a (the oldest row; the newest at b), m; other rows on n";
        assert_eq!(origin(&rows).as_deref(), Some(said));
        assert_eq!(oldest(&rows), Some(&rows[1]));
    }

    #[test]
    fn figures_have_six_digits_and_counts_all() {
        let value =
            json!({"a": [0.123_456_789, 12_345_678_901_u64, 12_345_678.0], "b": "x", "c": null});
        let short =
            json!({"a": [0.123_457, 12_345_678_901_u64, 12_345_678.0], "b": "x", "c": null});
        assert_eq!(rounded(value), short);
        assert_eq!(rounded(json!(-98_765.432_1)), json!(-98_765.4));
    }
}
