//! The progress of a measurement on standard error: a line that is written over on a terminal, else a line
//! every ten seconds.

use std::fmt::Arguments;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Shortest time between two changes of the line on a terminal.
const PACE: Duration = Duration::from_secs(1);
/// Shortest time between two lines of a log, and before the first.
const LOG_PACE: Duration = Duration::from_secs(10);
/// Columns that are blanked before the line is written again.
const WIDTH: usize = 79;

/// Where it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Terminal,
    Log,
    Nowhere,
}

/// The progress of one part of a measurement. Its line on a terminal is wiped when this is dropped.
#[derive(Debug)]
pub struct Progress {
    label: String,
    place: Place,
    begun: Instant,
    told: Mutex<Option<Instant>>,
}

impl Progress {
    /// Shows progress under this label.
    pub(crate) fn new(label: String) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        Progress::at(
            label,
            if is_terminal {
                Place::Terminal
            } else {
                Place::Log
            },
        )
    }

    /// Shows nothing. For runs that are made at the same time: only one of them may write the line.
    pub fn silent() -> Progress {
        Progress::at(String::new(), Place::Nowhere)
    }

    fn at(label: String, place: Place) -> Progress {
        Progress {
            label,
            place,
            begun: Instant::now(),
            told: Mutex::new(None),
        }
    }

    /// The label.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Progress of a part, whose name is added to the label.
    pub fn part(&self, name: &str) -> Progress {
        Progress::at(format!("{}, {name}", self.label), self.place)
    }

    /// Shows how far it is, unless it was shown a moment ago.
    pub fn tell(&self, what: Arguments<'_>) {
        self.write(Instant::now(), what, &mut std::io::stderr());
    }

    fn write(&self, now: Instant, what: Arguments<'_>, to: &mut dyn Write) {
        let mut told = self
            .told
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let since = |then: Instant| now.saturating_duration_since(then);
        let is_due = match self.place {
            Place::Terminal => told.is_none_or(|at| since(at) >= PACE),
            Place::Log => since(told.unwrap_or(self.begun)) >= LOG_PACE,
            Place::Nowhere => false,
        };
        if !is_due {
            return;
        }
        *told = Some(now);
        let line = format!("{}: {what}", self.label);
        // Nobody may read it.
        let _ = match self.place {
            Place::Terminal => write!(to, "\r{line:WIDTH$.WIDTH$}"),
            _ => writeln!(to, "{line}"),
        };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let told = self.told.get_mut();
        if self.place == Place::Terminal && told.is_ok_and(|told| told.is_some()) {
            eprint!("\r{:WIDTH$}\r", "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_written_over_and_a_log_gets_a_line_every_ten_seconds() {
        let written = |place| {
            let progress = Progress::at("demo".into(), place);
            let mut to = Vec::new();
            for second in 0..=25 {
                let now = progress.begun + Duration::from_secs(second);
                progress.write(now, format_args!("{second} s"), &mut to);
            }
            // Nothing is to be wiped from the standard error of the tests.
            *progress.told.lock().unwrap() = None;
            String::from_utf8(to).unwrap()
        };
        assert_eq!(written(Place::Log), "demo: 10 s\ndemo: 20 s\n");
        assert_eq!(written(Place::Nowhere), "");
        let drawn = written(Place::Terminal);
        assert_eq!(
            (drawn.matches('\r').count(), drawn.matches('\n').count()),
            (26, 0)
        );
    }
}
