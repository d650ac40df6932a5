//! A line on a terminal that shows how far something long is. It is written over, and taken away at the end.

use crate::rows::shown;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Shortest time between two writings.
const PACE: Duration = Duration::from_millis(500);

/// The line, on standard error; nothing is shown where that is no terminal.
#[derive(Debug)]
pub(crate) struct Line {
    is_terminal: bool,
    last: Option<Instant>,
}

impl Line {
    /// A line for the standard error of this process, unless it is to be silent.
    pub(crate) fn new(silent: bool) -> Line {
        Line {
            is_terminal: !silent && std::io::stderr().is_terminal(),
            last: None,
        }
    }

    /// Shows what `words` makes, unless the line was written a moment ago.
    pub(crate) fn show(&mut self, words: impl FnOnce() -> String) {
        let soon = self.last.is_some_and(|last| last.elapsed() < PACE);
        if !self.is_terminal || soon {
            return;
        }
        self.last = Some(Instant::now());
        let line = shown(&words(), WIDTH - 1);
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        let _ = std::io::stderr().flush();
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if self.last.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}
