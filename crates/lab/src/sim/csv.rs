//! Simulations as comma-separated values: a line of names, and a line for each.

use super::columns::{COLUMNS, row};
use super::run::Run;
use serde_json::Value;
use std::io::{self, Write};

/// Writes the names and the simulations.
///
/// # Errors
/// Those of the writer.
pub(super) fn write(runs: &[Run], out: &mut dyn Write) -> io::Result<()> {
    let names = COLUMNS.iter().map(|column| column.name);
    table(names, runs.iter().map(row), out)
}

/// Writes a line of names, and rows of values.
///
/// # Errors
/// Those of the writer.
pub(crate) fn table(
    names: impl IntoIterator<Item = &'static str>,
    rows: impl IntoIterator<Item = Vec<Value>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    let names: Vec<&str> = names.into_iter().collect();
    writeln!(out, "{}", names.join(","))?;
    for row in rows {
        let fields: Vec<String> = row.iter().map(field).collect();
        writeln!(out, "{}", fields.join(","))?;
    }
    out.flush()
}

/// A value as RFC 4180 has it. What is not printable is written as `?`, because a terminal may be what reads
/// it.
fn field(value: &Value) -> String {
    let Value::String(text) = value else {
        return match value {
            Value::Null => String::new(),
            other => other.to_string(),
        };
    };
    let text = plimsoll_cli::rows::shown(text, usize::MAX);
    if text.contains(['"', ',', '?']) || text.starts_with([' ', '=', '+', '-', '@']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn each_simulation_is_a_line() {
        let mut out = Vec::new();
        write(&[samples::done(), samples::failed()], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("version,trace,fingerprint,scheduler,"));
        assert!(
            lines[1].starts_with("0.1.0,\"dir/some \"\"trace\"\", é.plt\",00ff00ff00ff00ff,RR,")
        );
        assert!(lines[1].contains(",18446744073709551615,"), "{}", lines[1]);
        assert!(lines[2].contains(",\"the heap is too small,?says \"\"it\"\"\",,,"));
        // Commas within quotes apart, all lines have the same fields.
        let fields = |line: &str| {
            line.split('"')
                .step_by(2)
                .map(|it| it.matches(',').count())
                .sum::<usize>()
        };
        assert!(lines.iter().all(|line| fields(line) == COLUMNS.len() - 1));
    }
}
