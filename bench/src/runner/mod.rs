//! Runs a measurement, with all that measurements have in common. Repeats and interleaves variants
//! ([`Experiment`]; a model gives the same figures each time, so it needs none), keeps what their runs come
//! to (`ledger`), shows progress, and decides where tables and pictures go.

mod elsewhere;
mod experiment;
mod lanes;
mod ledger;

pub use elsewhere::{Elsewhere, V2};
pub use experiment::{Experiment, Turn, Variant};

use crate::harness::ground::Ground;
use crate::progress::Progress;
use crate::report::bars::Bars;
use crate::report::curves::{self, Curve};
use crate::report::plot::Plot;
use crate::report::recorded::Picture;
use crate::report::results::{self, Results, commit, root};
use crate::report::stacked_bars::Breakdown;
use crate::{Error, Result};
use ledger::Ledger;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Which part of a measurement is wanted, how often, and where its results go.
#[derive(Clone, Debug)]
pub struct Options {
    /// Repetitions of each variant, 1 at least.
    pub repeat: usize,
    /// Only variants whose name contains one of these, separated by commas, or is one of them after its `=`.
    pub only: Option<String>,
    /// Whether a representative part is enough, in a measurement that has one.
    pub slice: bool,
    /// The seed of what is drawn at random, in a measurement that draws; its own when absent.
    pub seed: Option<u64>,
    /// Whether results go to `bench/results`, from which the docs are made; otherwise to `bench/out/NAME`.
    pub record: bool,
    /// Whether rows are recorded that are kept of this commit.
    pub again: bool,
    /// Whether results are recorded although variants have no rows yet: the table names them.
    pub gaps: bool,
    /// Minutes after which no run is begun, nor one that may take longer than what is left of them.
    pub minutes: Option<u64>,
    /// The variant that runs once, and whose outcome is printed: in a guest that was asked for it.
    pub inside: Option<String>,
}

impl Options {
    /// All of a measurement, with so many repetitions; nothing is recorded.
    pub fn of(repeat: usize) -> Options {
        Options {
            repeat,
            only: None,
            slice: false,
            seed: None,
            record: false,
            again: false,
            gaps: false,
            minutes: None,
            inside: None,
        }
    }
}

/// Runs one measurement.
#[derive(Debug)]
pub struct Runner {
    name: &'static str,
    options: Options,
    /// When it was made.
    begun: Instant,
    /// The folder of what is recorded.
    results: PathBuf,
    /// Written by all lanes.
    ledger: Mutex<Ledger>,
}

impl Runner {
    /// A runner for the measurement of this name. One that records goes on where its last recording was cut.
    ///
    /// # Errors
    /// When what is kept cannot be read, or is of another commit, machine or part.
    pub(crate) fn new(name: &'static str, options: Options) -> Result<Runner> {
        let begun = root().join("bench/out/begun").join(name);
        Runner::of(name, options, &commit(), results::folder(), begun)
    }

    /// The same, built from a commit, with the folders of what is recorded and of what was cut.
    fn of(
        name: &'static str,
        options: Options,
        commit: &str,
        results: PathBuf,
        begun: PathBuf,
    ) -> Result<Runner> {
        let recording = options.record.then_some((results.as_path(), begun));
        let ledger = Ledger::open(name, &options, commit, recording)?;
        Ok(Runner {
            name,
            options,
            begun: Instant::now(),
            results,
            ledger: Mutex::new(ledger),
        })
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Name of the measurement.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Repetitions of each variant.
    pub fn repeat(&self) -> usize {
        self.options.repeat
    }

    /// The argument of `--only`.
    pub fn only(&self) -> Option<&str> {
        self.options.only.as_deref()
    }

    /// Whether `--slice` was given.
    pub fn slice(&self) -> bool {
        self.options.slice
    }

    /// The argument of `--seed`.
    pub fn seed(&self) -> Option<u64> {
        self.options.seed
    }

    /// Whether a variant is wanted.
    pub fn wants(&self, variant: &str) -> bool {
        names(self.options.only.as_ref(), variant)
    }

    /// Whether there is time for another run. If not, this recording is cut.
    fn has_time(&self) -> bool {
        let mut ledger = self.ledger();
        let needed = self.begun.elapsed() + ledger.longest;
        let minutes = self.options.minutes;
        let has_time = minutes.is_none_or(|it| needed <= Duration::from_secs(60 * it));
        ledger.is_cut |= !has_time;
        has_time
    }

    /// The time of `--minutes` was over before all was done.
    fn unfinished(&self) -> Error {
        Error::Unfinished {
            name: self.name,
            minutes: self.options.minutes.unwrap_or_default(),
        }
    }

    /// A value that runs need, and that is the same for all of them: measured by the first run that needs it,
    /// and kept as long as the recording takes. `name` is that of a variant, and another one's.
    ///
    /// # Errors
    /// That of `measure`; and when the value cannot be kept.
    pub fn known<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        measure: impl FnOnce(&Progress) -> Result<T>,
    ) -> Result<T> {
        if let Some(known) = self.ledger().begun(name)?.pop() {
            return Ok(known);
        }
        let begun = Instant::now();
        let value = measure(&self.progress(name))?;
        let mut ledger = self.ledger();
        ledger.searched += begun.elapsed();
        ledger.keep(name, begun.elapsed(), &value)?;
        Ok(value)
    }

    /// Progress of a part of the measurement.
    pub fn progress(&self, part: &str) -> Progress {
        Progress::new(format!("{}, {part}", self.name))
    }

    /// A cgroup with swap behind it to run in, named after the measurement.
    ///
    /// # Errors
    /// As [`Ground::new`].
    pub fn ground(&self) -> Result<Ground> {
        Ground::new(self.name)
    }

    /// Empty results of the measurement. `title` is a sentence on what the table shows; `method` says how it
    /// was measured.
    pub fn results(&self, title: &str, method: &str) -> Results {
        Results::new(self.name, title, method, self.repeat())
    }

    /// Draws a plot over time, as `NAME-PART.svg` (`NAME.svg` without a part). If results are recorded, the
    /// plot's data are saved beside the picture.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn plot(&self, part: &str, plot: &Plot) -> Result<()> {
        self.keep(part, Picture::Plot(plot.clone()))
    }

    /// Draws memory by area and state, as `NAME-PART.svg`. A recorded picture is kept with its data.
    ///
    /// # Errors
    /// As [`Runner::plot`].
    pub fn breakdown(&self, part: &str, breakdown: &Breakdown) -> Result<()> {
        self.keep(part, Picture::Breakdown(breakdown.clone()))
    }

    /// Draws one bar for each of several things, as `NAME-PART.svg`. A recorded picture is kept with its
    /// data.
    ///
    /// # Errors
    /// As [`Runner::plot`].
    pub fn bars(&self, part: &str, bars: &Bars) -> Result<()> {
        self.keep(part, Picture::Bars(bars.clone()))
    }

    /// Draws utilization, as `NAME-PART.svg`. A recorded picture is kept with its data.
    ///
    /// # Errors
    /// As [`Runner::plot`].
    pub fn curves(&self, part: &str, title: &str, lines: &[Curve]) -> Result<()> {
        self.keep(part, Picture::Plot(curves::plot(title, lines)))
    }

    fn keep(&self, part: &str, picture: Picture) -> Result<()> {
        let name = match part {
            "" => self.name.to_owned(),
            part => format!("{}-{part}", self.name),
        };
        let folder = self.folder()?;
        if self.options.record {
            return picture.record(&folder, &name);
        }
        picture.save(&folder.join(format!("{name}.svg")))
    }

    /// Where pictures go, which is there then. Those of a recording wait for its result.
    fn folder(&self) -> Result<PathBuf> {
        let waiting = self.ledger().pictures();
        let folder = waiting.unwrap_or_else(|| out(self.name));
        std::fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        Ok(folder)
    }

    /// Saves results with the rows that they are made of: in `bench/results` if they are recorded and no
    /// variant lacks its row (or it may, and another has one), in `bench/out/NAME` otherwise.
    ///
    /// # Errors
    /// When a file cannot be written, and when `--only` names no variant.
    pub(crate) fn save(&self, results: &mut Results) -> Result<()> {
        let ledger = self.ledger();
        let has_none = ledger.wanted == 0 && ledger.asked > 0 || results.rows.is_empty();
        if let (Some(only), true) = (&self.options.only, has_none) {
            return Err(Error::NoVariant { only: only.clone() });
        }
        ledger.complete(results, self.repeat());
        let is_enough = ledger.missing.is_empty() || self.options.gaps && !results.rows.is_empty();
        let is_recorded = self.options.record && is_enough;
        let folder = if is_recorded {
            self.results.clone()
        } else {
            out(self.name)
        };
        std::fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        results.save(&folder)?;
        if is_recorded {
            ledger.settle(&folder)
        } else {
            Ok(())
        }
    }

    /// Says, after an error, whether the same command would go on.
    pub(crate) fn say_what_is_kept(&self) {
        if self.options.record && !self.ledger().is_empty() {
            eprintln!(
                "plimsoll-bench: what was measured until here is kept: the same command goes on"
            );
        }
    }

    /// Says what is to be done yet.
    ///
    /// # Errors
    /// When there was no time for all runs.
    pub(crate) fn end(&self) -> Result<()> {
        let ledger = self.ledger();
        if ledger.is_cut {
            return Err(self.unfinished());
        }
        if self.options.record && !self.options.gaps && !ledger.missing.is_empty() {
            println!(
                "\n{} variants have no rows yet, so bench/results is as it was. These runs wait for them: \
                 `make bench-{}` measures the others; with GAPS=1 the table is recorded without them.",
                ledger.missing.len(),
                self.name
            );
        }
        Ok(())
    }
}

/// Whether `--only` names a variant. Without it, all are named.
fn names(only: Option<&String>, variant: &str) -> bool {
    let is_named = |part: &str| match part.strip_prefix('=') {
        Some(whole) => variant == whole,
        None => variant.contains(part),
    };
    only.is_none_or(|only| only.split(',').any(is_named))
}

/// Where a measurement of this name leaves what is not recorded.
pub fn out(name: &str) -> PathBuf {
    root().join("bench/out").join(name)
}
