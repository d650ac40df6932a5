//! The README's table of targets, out of the files in `bench/results`.

use super::results::{Results, folder, root};
use std::fmt::Write as _;

const BEGIN: &str = "<!-- figures: written by `plimsoll-bench figures` -->";
const END: &str = "<!-- end of figures -->";

/// Writes the table into the README, between its marks.
///
/// # Errors
/// A sentence on what could not be read or written.
pub fn write() -> Result<(), String> {
    let path = root().join("README.md");
    let text = std::fs::read_to_string(&path)
        .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let text = filled(&text, &table(&all()?))?;
    std::fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// `text` with `table` between the marks.
///
/// # Errors
/// When a mark is missing.
pub fn filled(text: &str, table: &str) -> Result<String, String> {
    let missing = || format!("the README lacks the marks {BEGIN:?} and {END:?}");
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// All results, by name.
///
/// # Errors
/// A sentence on which file cannot be read.
pub fn all() -> Result<Vec<Results>, String> {
    let folder = folder();
    let entries =
        std::fs::read_dir(&folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_the_results() {
        let text = std::fs::read_to_string(root().join("README.md")).expect("there is a README");
        let wanted = filled(&text, &table(&all().expect("the results can be read")))
            .expect("the README has marks");
        assert!(
            text == wanted,
            "run `cargo run -p plimsoll-bench -- figures`: the README is not what bench/results says"
        );
    }
}
