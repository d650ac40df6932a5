//! The line on standard error that says what goes on.

use std::fmt::Arguments;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two looks of a reader.
const PACE: Duration = Duration::from_secs(1);
/// Columns that are written over.
const WIDTH: usize = 79;

/// What goes on under a label; wiped when it is over.
#[derive(Debug)]
pub struct Progress {
    label: String,
    silent: bool,
    told: Mutex<Option<Instant>>,
}

impl Progress {
    /// Says what goes on under this label.
    pub(crate) fn new(label: String) -> Progress {
        Progress::heard(label, false)
    }

    /// Says nothing: for runs beside one another, of which only one may have the line.
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

    /// What it is about.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The same for a part of it.
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
