//! What a measurement is: its description, and how it is run.

use crate::report::results::Results;
use crate::runner::{Options, Runner};
use crate::{Error, Result};

/// The description of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The unique name, of `a` to `z` and `-`, as in `make bench-NAME`. Its results have this name
    /// too.
    pub name: &'static str,
    /// The question that it answers, as a sentence with a capital letter. The help shows it.
    pub question: &'static str,
    /// The targets, word for word as in [`Results::target`]. `*` stands for parts that differ
    /// between variants. Empty if there are no targets.
    pub asks: &'static [&'static str],
    /// About how many minutes five repetitions take on two processors.
    pub minutes: u32,
    /// Whether it has a part that represents it and takes at most an hour (`--slice`).
    pub slice: bool,
    /// The seed without `--seed` of what it draws at random. `None` if it draws nothing.
    pub seed: Option<u64>,
}

/// One measurement. [`crate::scenarios::ALL`] lists all. `docs/src/adding-a-measurement.md`
/// explains how to add one.
pub trait Measurement: Sync {
    /// Its description.
    fn about(&self) -> About;

    /// Measures, with the help of the runner, which repeats, shows progress, and provides empty
    /// results. The returned results are saved and printed. Everything that was set up is gone when
    /// this returns, even on an error.
    ///
    /// # Errors
    /// Whatever could not be set up or started, or failed in a run.
    fn run(&self, runner: &Runner) -> Result<Results>;

    /// Runs the part that belongs into a virtual machine, if the measurement boots one. Writes its findings
    /// to standard output.
    ///
    /// # Errors
    /// As [`Measurement::run`]; [`Error::NoGuest`] where it has no such part.
    fn run_inside(&self, _runner: &Runner) -> Result<()> {
        Err(Error::NoGuest(self.about().name))
    }
}

/// Runs a measurement, saves its results and prints its table.
///
/// # Errors
/// Whatever could not be set up, started or written, or failed in a run.
pub fn run(measurement: &dyn Measurement, options: &Options) -> Result<()> {
    let runner = Runner::new(measurement.about().name, options.clone());
    let folder = runner.folder();
    std::fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
    let results = measurement.run(&runner)?;
    results.save(&folder)?;
    println!("\n{}", results.text());
    Ok(())
}

/// Runs the part of a measurement that belongs into a virtual machine. Called inside it.
///
/// # Errors
/// As [`run`].
pub fn run_inside(measurement: &dyn Measurement, options: &Options) -> Result<()> {
    let runner = Runner::new(measurement.about().name, options.clone());
    measurement.run_inside(&runner)
}

impl About {
    /// Its options besides those that every measurement takes, as a person writes them; empty if there are
    /// none.
    pub fn options(&self) -> String {
        let slice = self.slice.then(|| "`--slice`".to_owned());
        let seed = self
            .seed
            .map(|seed| format!("`--seed N` ({seed} when absent)"));
        let options: Vec<String> = slice.into_iter().chain(seed).collect();
        options.join(", ")
    }

    /// Whether the measurement announces a target with this claim.
    pub fn asks_for(&self, claim: &str) -> bool {
        self.asks.iter().any(|pattern| fits(pattern, claim))
    }
}

/// Whether `text` matches the pattern, in which each `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(begin) else {
        return false;
    };
    let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    ends.any(|at| fits(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::{About, fits};

    #[test]
    fn a_star_stands_for_anything() {
        assert!(fits(
            "*: within 3 %, * s after",
            "Z 17: within 3 %, 2.5 s after"
        ));
        assert!(fits("no program is killed", "no program is killed"));
        assert!(!fits("no program is killed", "no program is killed twice"));
        assert!(!fits("*: within 3 %", "Z 17: within 2 %"));
        assert!(fits("*", "") && !fits("", "x"));
    }

    #[test]
    fn options_are_told_as_they_are_written() {
        let about = |slice, seed| About {
            name: "it",
            question: "Is it?",
            asks: &[],
            minutes: 1,
            slice,
            seed,
        };
        assert_eq!(about(false, None).options(), "");
        let both = about(true, Some(7)).options();
        assert_eq!(both, "`--slice`, `--seed N` (7 when absent)");
    }
}
