//! Writes measurements into the docs, from the files in `bench/results` and the list. The book gets
//! all targets and all measurements. The README gets the targets that can be understood without
//! knowing the measurements.

use crate::measurements::ALL;
use crate::report::recorded::redraw;
use crate::report::results::{Results, Target, folder, root};
use crate::{Error, Result};
use plimsoll_sim::threads::QUANTITIES;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The place of a generated text: between two lines of a document.
struct Place {
    /// Path of the document, from the root of the checkout.
    document: &'static str,
    begin: &'static str,
    end: &'static str,
    text: fn() -> Result<String>,
}

const FIGURES: &str = "<!-- figures: written by `plimsoll-bench figures` -->";
const END_OF_FIGURES: &str = "<!-- end of figures -->";

const PLACES: [Place; 4] = [
    Place {
        document: "README.md",
        begin: FIGURES,
        end: END_OF_FIGURES,
        text: || front(&all()?),
    },
    Place {
        document: "docs/src/figures.md",
        begin: FIGURES,
        end: END_OF_FIGURES,
        text: || Ok(table(&all()?)),
    },
    Place {
        document: "docs/src/measuring.md",
        begin: "<!-- measurements: written by `plimsoll-bench figures` -->",
        end: "<!-- end of measurements -->",
        text: || Ok(list()),
    },
    Place {
        document: "docs/src/json.md",
        begin: "<!-- quantities: written by `plimsoll-bench figures` -->",
        end: "<!-- end of quantities -->",
        text: || Ok(quantities()),
    },
];

/// A row of the README's table: a target of a measurement, in simpler words.
struct Row {
    /// Name of the measurement that has the target.
    measurement: &'static str,
    /// The beginning of the target's claim; it selects the target.
    claim: &'static str,
    /// The measured quantity.
    words: &'static str,
    /// The required value.
    asked: &'static str,
    /// Whether to leave out the text in brackets after the measured value.
    brief: bool,
}

const ROWS: [Row; 7] = [
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
        words: "How far Java programs (G1, JDK 17) are from their share of memory",
        asked: "at most 3 % of the budget",
        brief: false,
    },
    Row {
        measurement: "container",
        claim: "of those killed alone nine tenths live",
        words: "Java in a small container without swap: runs that the kernel ends without Plimsoll, and that \
                live with it",
        asked: "at least 90 %",
        brief: false,
    },
    Row {
        measurement: "ordinary-user",
        claim: "three Java programs of an ordinary user",
        words: "As an ordinary user: the most that three Java programs use together, under a budget that \
                nothing enforces",
        asked: "at most a tenth above it",
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

/// Writes the tables and the lists into the docs, between their marks, and redraws the recorded
/// plots.
///
/// # Errors
/// When a document, a result or a plot cannot be read or written, a document has no marks, or a row of
/// the README no target.
pub fn write() -> Result<()> {
    for place in &PLACES {
        let path = place.path();
        std::fs::write(&path, place.filled()?).map_err(Error::file("write", &path))?;
    }
    redraw()
}

impl Place {
    fn path(&self) -> PathBuf {
        root().join(self.document)
    }

    fn read(&self) -> Result<String> {
        let path = self.path();
        std::fs::read_to_string(&path).map_err(Error::file("read", &path))
    }

    /// The document as it should be.
    fn filled(&self) -> Result<String> {
        let missing = || Error::Marks {
            path: self.path(),
            begin: self.begin,
            end: self.end,
        };
        let (document, text) = (self.read()?, (self.text)()?);
        let (before, rest) = document.split_once(self.begin).ok_or_else(missing)?;
        let (_, after) = rest.split_once(self.end).ok_or_else(missing)?;
        Ok([before, self.begin, "\n", &text, self.end, after].concat())
    }
}

/// All results, by name.
///
/// # Errors
/// When the folder or one of its results cannot be read.
pub fn all() -> Result<Vec<Results>> {
    let folder = folder();
    let entries = std::fs::read_dir(&folder).map_err(Error::file("read", &folder))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    paths.iter().map(|path| Results::read(path)).collect()
}

/// The book's table, with one row for each target.
pub fn table(results: &[Results]) -> String {
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
fn front(results: &[Results]) -> Result<String> {
    let mut out = "| | aim | measured | met |\n|---|---|---|---|\n".to_owned();
    for row in &ROWS {
        let target = row.target(results).ok_or(Error::NoTarget {
            measurement: row.measurement,
            claim: row.claim,
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

impl Row {
    /// The target that this row is about.
    fn target<'a>(&self, results: &'a [Results]) -> Option<&'a Target> {
        let mut results = results.iter();
        let result = results.find(|result| result.name == self.measurement)?;
        let mut targets = result.targets.iter();
        targets.find(|target| target.claim.starts_with(self.claim))
    }
}

/// Minutes after which `make bench-NAME` stops, so that the next one goes on.
const GO: u32 = 40;

/// The book's list, with one row for each measurement.
pub fn list() -> String {
    let mut out =
        "| name | question | asked for | minutes | options |\n|---|---|---|---|---|\n".to_owned();
    for measurement in ALL {
        let about = measurement.about();
        let asks = match about.asks {
            [] => "nothing: it shows".to_owned(),
            asks => asks.join("; ").replace('*', "…"),
        };
        let goes = match about.minutes.div_ceil(GO) {
            1 => String::new(),
            goes => format!(", in {goes} goes"),
        };
        let _ = writeln!(
            out,
            "| `{}` | {} | {asks} | {}{goes} | {} |",
            about.name,
            about.question,
            about.minutes,
            about.options()
        );
    }
    out
}

/// The quantities of a simulation, with one row for each.
fn quantities() -> String {
    let mut out = "| name | in JSON | column | meaning |\n|---|---|---|---|\n".to_owned();
    for it in QUANTITIES {
        let field = it.pointer.trim_start_matches('/').replace('/', ".");
        let _ = writeln!(
            out,
            "| {} | `{field}` | `{}` | {} |",
            it.label(),
            it.column,
            it.what
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_show_the_results_and_the_measurements() {
        for place in &PLACES {
            assert!(
                place.read().unwrap() == place.filled().unwrap(),
                "run `cargo run -p plimsoll-bench -- figures`: {} is not what bench/results and \
                 bench/src/measurements say",
                place.document
            );
        }
    }

    #[test]
    fn what_was_recorded_was_asked_for() {
        for result in all().unwrap() {
            let known = ALL.iter().map(|one| one.about());
            let about = known.into_iter().find(|about| about.name == result.name);
            let about = about.unwrap_or_else(|| panic!("no measurement {}", result.name));
            for target in &result.targets {
                let claim = &target.claim;
                assert!(
                    about.asks_for(claim),
                    "{}: {claim:?} is not asked for",
                    about.name
                );
            }
        }
    }
}
