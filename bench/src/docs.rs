//! What the docs show of the measurements: the README's table of targets, out of the files in
//! `bench/results`, and the book's list of measurements.

use crate::report::results::{Results, folder, root};
use crate::scenarios::ALL;
use crate::{Error, Result};
use std::fmt::Write as _;
use std::path::PathBuf;

/// A text that stands in a document between two lines.
struct Place {
    /// From the root of the checkout.
    document: &'static str,
    begin: &'static str,
    end: &'static str,
    text: fn() -> Result<String>,
}

const PLACES: [Place; 2] = [
    Place {
        document: "README.md",
        begin: "<!-- figures: written by `plimsoll-bench figures` -->",
        end: "<!-- end of figures -->",
        text: || Ok(table(&all()?)),
    },
    Place {
        document: "docs/src/measuring.md",
        begin: "<!-- measurements: written by `plimsoll-bench figures` -->",
        end: "<!-- end of measurements -->",
        text: || Ok(list()),
    },
];

/// Writes the table and the list into the docs, between their marks.
///
/// # Errors
/// When a document or a result cannot be read or written, or has no marks.
pub fn write() -> Result<()> {
    for place in &PLACES {
        let path = place.path();
        std::fs::write(&path, place.filled()?).map_err(Error::file("write", &path))?;
    }
    Ok(())
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

/// One row a target.
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

/// One row a measurement.
pub fn list() -> String {
    let mut out = "| name | question | asked for | minutes |\n|---|---|---|---|\n".to_owned();
    for measurement in ALL {
        let about = measurement.about();
        let asks = match about.asks {
            [] => "nothing: it shows".to_owned(),
            asks => asks.join("; ").replace('*', "…"),
        };
        let _ = writeln!(
            out,
            "| `{}` | {} | {asks} | {} |",
            about.name, about.question, about.minutes
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
                 bench/src/scenarios say",
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
