//! The line on standard error that shows the progress of a measurement.

use std::fmt::Arguments;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Shortest time between two changes of the line.
const PACE: Duration = Duration::from_secs(1);
/// Columns that are blanked before the line is written again.
const WIDTH: usize = 79;

/// The progress of one part of a measurement. Its line is wiped when this is dropped.
#[derive(Debug)]
pub struct Progress {
    label: String,
    silent: bool,
    told: Mutex<Option<Instant>>,
}

impl Progress {
    /// Shows progress under this label.
    pub(crate) fn new(label: String) -> Progress {
        Progress::heard(label, false)
    }

    /// Shows nothing. For runs that are made at the same time: only one of them may write the line.
    pub fn silent() -> Progress {
        Progress::heard(String::new(), true)
    }

    fn heard(label: String, silent: bool) -> Progress {
        Progress {
            label,
            silent,
            told: Mutex::new(None),
        }
    }

    /// The label.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Progress of a part, whose name is added to the label.
    pub fn part(&self, name: &str) -> Progress {
        Progress::heard(format!("{}, {name}", self.label), self.silent)
    }

    /// Shows how far it is, at most once a second.
    pub fn tell(&self, what: Arguments<'_>) {
        if self.silent {
            return;
        }
        let mut told = self
            .told
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if told.is_some_and(|at| at.elapsed() < PACE) {
            return;
        }
        *told = Some(Instant::now());
        let line = format!("{}: {what}", self.label);
        eprint!("\r{line:WIDTH$.WIDTH$}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let told = self.told.get_mut();
        if told.is_ok_and(|told| told.is_some()) {
            eprint!("\r{:WIDTH$}\r", "");
        }
    }
}
