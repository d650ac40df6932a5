//! What a measurement is: what it says of itself, and how it is run.

use crate::report::results::Results;
use crate::runner::{Options, Runner};
use crate::{Error, Result};

/// What a measurement says of itself.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// As in `make bench-NAME`; its results have this name. `a` to `z` and `-`, like no other's.
    pub name: &'static str,
    /// What it answers, in a sentence with a capital letter; the help shows it.
    pub question: &'static str,
    /// What is asked for, word for word as [`Results::target`] says it; `*` stands for what differs between
    /// variants. Empty where nothing is asked for.
    pub asks: &'static [&'static str],
    /// How long five repetitions take on two processors, about.
    pub minutes: u32,
}

/// One measurement. [`crate::scenarios::ALL`] lists them; `docs/src/adding-a-measurement.md` goes through
/// a new one.
pub trait Measurement: Sync {
    /// What it says of itself.
    fn about(&self) -> About;

    /// Measures, by means of the runner: it repeats, says what goes on, and gives empty results. What comes
    /// back is saved and printed. What was set up is gone when this returns, well or not.
    ///
    /// # Errors
    /// What could not be set up or started, or went wrong.
    fn run(&self, runner: &Runner) -> Result<Results>;

    /// The part of it that runs in a guest, if it boots one; it tells on standard output what came of it.
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
/// What could not be set up, started or written, or went wrong.
pub fn run(measurement: &dyn Measurement, options: &Options) -> Result<()> {
    let runner = Runner::new(measurement.about().name, options.clone());
    let folder = runner.folder();
    std::fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
    let results = measurement.run(&runner)?;
    results.save(&folder)?;
    println!("\n{}", results.text());
    Ok(())
}

/// Runs the part of a measurement that belongs into a guest; we are in it.
///
/// # Errors
/// As [`run`].
pub fn run_inside(measurement: &dyn Measurement, options: &Options) -> Result<()> {
    let runner = Runner::new(measurement.about().name, options.clone());
    measurement.run_inside(&runner)
}

impl About {
    /// Whether a target with this claim was announced.
    pub fn asks_for(&self, claim: &str) -> bool {
        self.asks.iter().any(|pattern| fits(pattern, claim))
    }
}

/// Whether `text` is the pattern, with anything in the place of each `*`.
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
    use super::fits;

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
}
