//! The tables of targets out of the files in `bench/results`: all of them in the book, and in the
//! README those that a reader understands who does not know the measurements.

use super::plot;
use super::results::{Results, Target, folder, root};
use std::fmt::Write as _;

const BEGIN: &str = "<!-- figures: written by `plimsoll-bench figures` -->";
const END: &str = "<!-- end of figures -->";

/// A row of the README's table: a target in words of its own.
struct Row {
    /// The measurement that it is from.
    measurement: &'static str,
    /// How the claim of the target begins.
    claim: &'static str,
    /// What was measured.
    words: &'static str,
    /// What was asked for.
    asked: &'static str,
    /// Whether the measured value goes without what stands in brackets after it.
    brief: bool,
}

const ROWS: [Row; 6] = [
    Row {
        measurement: "demo",
        claim: "the demo: under 1 % of their major faults",
        words: "The demo above: major page faults of the three programs, against those with fixed heap sizes",
        asked: "under 1 %",
        brief: false,
    },
    Row {
        measurement: "demo",
        claim: "the demo: work of all",
        words: "The demo above: work of the three, in ratio to that with fixed heap sizes",
        asked: "at least 1",
        brief: true,
    },
    Row {
        measurement: "libgc-pressure",
        claim: "every run finishes",
        words: "Programs on our `libgc.so.1` that finish in 50 to 60 % of the memory they took before",
        asked: "all",
        brief: false,
    },
    Row {
        measurement: "shares",
        claim: "G1 17: within 3 % of the budget",
        words: "How far Java programs (G1, JDK 17) are from their share 2 s after it changed",
        asked: "at most 3 % of the budget",
        brief: false,
    },
    Row {
        measurement: "container",
        claim: "of those killed alone nine tenths live",
        words: "Java in a container without swap: of the runs killed without us, those that live with us",
        asked: "nine tenths",
        brief: false,
    },
    Row {
        measurement: "broker-cost",
        claim: "at most 6 MiB resident",
        words: "Memory of the broker",
        asked: "at most 6 MiB",
        brief: false,
    },
];

/// Writes the tables into the README and into the book, between their marks, and draws the recorded
/// plots anew.
///
/// # Errors
/// A sentence on what could not be read or written.
pub fn write() -> Result<(), String> {
    for (name, table) in tables(&all()?)? {
        let path = root().join(name);
        let text = std::fs::read_to_string(&path)
            .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let text = filled(&text, &table).map_err(|e| format!("{}: {e}", path.display()))?;
        std::fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    plot::redraw()
}

/// The files with a table, and the table of each.
fn tables(results: &[Results]) -> Result<[(&'static str, String); 2], String> {
    Ok([
        ("README.md", front(results)?),
        ("docs/src/figures.md", table(results)),
    ])
}

/// `text` with `table` between the marks.
fn filled(text: &str, table: &str) -> Result<String, String> {
    let missing = || format!("the marks {BEGIN:?} and {END:?} are not there");
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// All results, by name.
fn all() -> Result<Vec<Results>, String> {
    let folder = folder();
    let entries =
        std::fs::read_dir(&folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    paths.iter().map(|path| Results::read(path)).collect()
}

/// One row a target.
fn table(results: &[Results]) -> String {
    let mut out =
        "| `make bench-…` | asked for | measured | met | at | runs |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for result in results {
        for target in &result.targets {
            let met = target.verdict();
            let (name, commit, runs) = (&result.name, &result.commit, result.repetitions);
            let _ = writeln!(
                out,
                "| {name} | {} | {} | {met} | {commit} | {runs} |",
                target.claim, target.measured
            );
        }
    }
    out
}

/// The README's rows.
fn front(results: &[Results]) -> Result<String, String> {
    let mut out = "| | asked for | measured | met |\n|---|---|---|---|\n".to_owned();
    for row in &ROWS {
        let target = found(results, row).ok_or_else(|| {
            let (name, claim) = (row.measurement, row.claim);
            format!("bench/results/{name}.json has no target that begins with {claim:?}")
        })?;
        let measured = match target.measured.split_once(" (") {
            Some((value, _)) if row.brief => value,
            _ => target.measured.as_str(),
        };
        let met = target.verdict();
        let _ = writeln!(
            out,
            "| {} | {} | {measured} | {met} |",
            row.words, row.asked
        );
    }
    Ok(out)
}

fn found<'a>(results: &'a [Results], row: &Row) -> Option<&'a Target> {
    let result = results
        .iter()
        .find(|result| result.name == row.measurement)?;
    let mut targets = result.targets.iter();
    targets.find(|target| target.claim.starts_with(row.claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_and_the_book_show_the_results() {
        let results = all().expect("the results can be read");
        for (name, table) in tables(&results).expect("every row has its target") {
            let text = std::fs::read_to_string(root().join(name)).expect(name);
            let wanted = filled(&text, &table).expect(name);
            assert!(
                text == wanted,
                "run `cargo run -p plimsoll-bench -- figures`: {name} is not what bench/results says"
            );
        }
    }
}
