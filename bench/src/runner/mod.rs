//! Runs a measurement, with all that measurements have in common. Repeats and interleaves variants
//! ([`Experiment`]; a model gives the same figures each time, so it needs none), shows progress, and
//! decides where tables and pictures go.

mod experiment;
mod lanes;

pub use experiment::{Experiment, Turn, Variant};

use crate::Result;
use crate::harness::ground::Ground;
use crate::progress::Progress;
use crate::report::bars::Bars;
use crate::report::breakdown::Breakdown;
use crate::report::curves::{self, Curve};
use crate::report::plot::Plot;
use crate::report::recorded::Picture;
use crate::report::results::{self, Results, root};
use std::path::PathBuf;

/// Which part of a measurement is wanted, how often, and where its results go.
#[derive(Clone, Debug)]
pub struct Options {
    /// Repetitions of each variant, 1 at least.
    pub repeat: usize,
    /// Only variants whose name contains one of these, separated by commas.
    pub only: Option<String>,
    /// Whether a representative part is enough, in a measurement that has one.
    pub slice: bool,
    /// The seed of what is drawn at random, in a measurement that draws; its own when absent.
    pub seed: Option<u64>,
    /// Whether results go to `bench/results`, from which the docs are made; otherwise to `bench/out/NAME`.
    pub record: bool,
}

/// What runs one measurement.
#[derive(Debug)]
pub struct Runner {
    name: &'static str,
    options: Options,
}

impl Runner {
    /// A runner for the measurement of this name.
    pub(crate) fn new(name: &'static str, options: Options) -> Runner {
        Runner { name, options }
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
        let Some(only) = self.only() else { return true };
        only.split(',').any(|part| variant.contains(part))
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

    /// Draws memory by area and state, as `NAME-PART.svg`. What is recorded is kept with what it is
    /// drawn from.
    ///
    /// # Errors
    /// As [`Runner::plot`].
    pub fn breakdown(&self, part: &str, breakdown: &Breakdown) -> Result<()> {
        self.keep(part, Picture::Breakdown(breakdown.clone()))
    }

    /// Draws one bar for each of several things, as `NAME-PART.svg`. What is recorded is kept with what
    /// it is drawn from.
    ///
    /// # Errors
    /// As [`Runner::plot`].
    pub fn bars(&self, part: &str, bars: &Bars) -> Result<()> {
        self.keep(part, Picture::Bars(bars.clone()))
    }

    /// Draws utilization, as `NAME-PART.svg`. What is recorded is kept with what it is drawn from.
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
        if self.options.record {
            return picture.record(&name);
        }
        picture.save(&self.folder().join(format!("{name}.svg")))
    }

    /// Where results and pictures go.
    pub fn folder(&self) -> PathBuf {
        match self.options.record {
            true => results::folder(),
            false => out(self.name),
        }
    }
}

/// Where a measurement of this name leaves what is not recorded.
pub fn out(name: &str) -> PathBuf {
    root().join("bench/out").join(name)
}
