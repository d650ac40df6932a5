//! The columns of a simulation where it is one row: of CSV and of Parquet.

use super::run::Run;
use Kind::{Count, Flag, Real, Text};
use plimsoll_sim::threads::QUANTITIES;
use serde_json::{Map, Value};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Flag,
    /// A whole number, 0 to 2^64 - 1.
    Count,
    Real,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// Its name, with the unit at the end: `_ns`, `_ps` for picoseconds, `_bytes`, `_heaps` for parts of the
    /// heap, `_ns_per_byte`. Without one it is a number.
    pub(super) name: &'static str,
    /// Where it is in the JSON of a simulation.
    pointer: &'static str,
    pub(super) kind: Kind,
    /// Whether each row has it. Others are empty where there is no outcome, or no such setting.
    pub(super) always: bool,
}

/// A column that each row has.
const fn always(name: &'static str, pointer: &'static str, kind: Kind) -> Column {
    Column {
        name,
        pointer,
        kind,
        always: true,
    }
}

/// A column that a row may not have.
const fn maybe(name: &'static str, pointer: &'static str, kind: Kind) -> Column {
    Column {
        always: false,
        ..always(name, pointer, kind)
    }
}

/// The settings of a simulation, and whether it has an outcome.
const SETTINGS: [Column; 24] = [
    always("version", "/version", Text),
    always("trace", "/trace", Text),
    always("fingerprint", "/fingerprint", Text),
    always("scheduler", "/scheduler", Text),
    always("collector", "/collector", Text),
    always("heap_bytes", "/heap", Count),
    maybe("new_ratio", "/new_ratio", Real),
    always(
        "recorded_largest_live_bytes",
        "/recorded_largest_live",
        Count,
    ),
    always("processors", "/processors", Count),
    maybe("quantum_ns", "/quantum", Count),
    maybe("memory_quantum_bytes", "/memory_quantum", Count),
    maybe("time_bound_ns", "/time_bound", Count),
    maybe("ties", "/ties", Text),
    always("patience", "/patience", Count),
    always("priorities", "/priorities", Flag),
    always("instructions_per_ns", "/instructions", Real),
    always("copied_byte_cost_ps", "/costs/copied_byte", Count),
    always("marked_byte_cost_ps", "/costs/marked_byte", Count),
    always("compacted_byte_cost_ps", "/costs/compacted_byte", Count),
    always("swept_byte_cost_ps", "/costs/swept_byte", Count),
    always("contention_cost_ps", "/costs/contention", Count),
    always("switch_cost_ps", "/costs/switch", Count),
    always("status", "/status", Text),
    maybe("error", "/error", Text),
];

/// All columns, in their order: settings, then the quantities of the outcome.
pub(super) const COLUMNS: [Column; SETTINGS.len() + QUANTITIES.len()] = {
    let mut columns = [SETTINGS[0]; SETTINGS.len() + QUANTITIES.len()];
    let mut index = 0;
    while index < columns.len() {
        columns[index] = if index < SETTINGS.len() {
            SETTINGS[index]
        } else {
            let it = &QUANTITIES[index - SETTINGS.len()];
            let kind = if it.unit.is_whole() { Count } else { Real };
            maybe(it.column, it.pointer, kind)
        };
        index += 1;
    }
    columns
};

/// The values of a simulation, one for each column; `Null` where there is none.
pub(super) fn row(run: &Run) -> Vec<Value> {
    let json = serde_json::to_value(run).unwrap_or_default();
    let value = |column: &Column| json.pointer(column.pointer).cloned().unwrap_or_default();
    COLUMNS.iter().map(value).collect()
}

/// The simulation of a row, as [`row`] made it; `None` if it is none.
pub(super) fn run(row: Vec<Value>) -> Option<Run> {
    let mut json = Value::Null;
    for (column, value) in COLUMNS.iter().zip(row) {
        if !value.is_null() {
            *place(&mut json, column.pointer)? = value;
        }
    }
    if json.get("outcome").is_some() {
        *place(&mut json, HEAP)? = json.get("heap")?.clone();
    }
    serde_json::from_value(json).ok()
}

/// The one field without a column of its own: an outcome has the size of the heap once more.
const HEAP: &str = "/outcome/heap";

/// The value at a pointer, with all that is missing on the way to it.
fn place<'a>(json: &'a mut Value, pointer: &str) -> Option<&'a mut Value> {
    pointer.split('/').skip(1).try_fold(json, |at, part| {
        if let Ok(index) = part.parse::<usize>() {
            if at.is_null() {
                *at = Value::Array(Vec::new());
            }
            let list = at.as_array_mut()?;
            list.resize(list.len().max(index + 1), Value::Null);
            return list.get_mut(index);
        }
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        Some(at.as_object_mut()?.entry(part).or_insert(Value::Null))
    })
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use std::collections::BTreeSet;

    /// The pointers of all values that are no lists and no objects.
    fn leaves(json: &Value, at: &str, into: &mut BTreeSet<String>) {
        match json {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                leaves(value, &format!("{at}/{name}"), into);
            }),
            Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| {
                leaves(value, &format!("{at}/{index}"), into);
            }),
            _ => {
                into.insert(at.to_owned());
            }
        }
    }

    #[test]
    fn all_that_a_simulation_has_is_in_a_column() {
        let mut found = BTreeSet::new();
        leaves(
            &serde_json::to_value(samples::done()).unwrap(),
            "",
            &mut found,
        );
        let columns: BTreeSet<String> = (COLUMNS.iter().map(|column| column.pointer))
            .chain([HEAP])
            .map(str::to_owned)
            .collect();
        assert_eq!(found, columns);
        let names: BTreeSet<&str> = COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), COLUMNS.len());
    }

    #[test]
    fn rows_are_simulations_again() {
        for it in [samples::done(), samples::failed()] {
            let values = row(&it);
            for (column, value) in COLUMNS.iter().zip(&values) {
                let fits = match column.kind {
                    _ if value.is_null() => !column.always,
                    Text => value.is_string(),
                    Flag => value.is_boolean(),
                    Count => value.is_u64(),
                    Real => value.is_f64(),
                };
                assert!(fits, "{column:?}: {value}");
            }
            assert_eq!(run(values), Some(it));
        }
        assert_eq!(run(vec![Value::Null; COLUMNS.len()]), None);
        assert_eq!(run(vec![Value::from(3); COLUMNS.len()]), None);
    }
}
