//! A line on a terminal that shows how far something long is. It is written over, and taken away at the end.

use crate::rows::shown;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Shortest time between two writings.
const PACE: Duration = Duration::from_millis(500);

/// Work that takes less time than this shows no line.
const FIRST: Duration = Duration::from_secs(1);

/// The line, on standard error; nothing is shown where that is no terminal.
#[derive(Debug)]
pub struct Line {
    is_terminal: bool,
    last: Option<Instant>,
}

impl Line {
    /// A line for the standard error of this process, unless it is to be silent.
    pub fn new(silent: bool) -> Line {
        Line {
            is_terminal: !silent && std::io::stderr().is_terminal(),
            last: None,
        }
    }

    /// Shows what `words` makes, unless the line was written a moment ago.
    pub fn show(&mut self, words: impl FnOnce() -> String) {
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
    pub fn clear(&mut self) {
        if self.last.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}

/// Does something, and meanwhile shows how far it is, from a second on.
pub fn during<T>(words: impl Fn() -> String + Send, work: impl FnOnce() -> T) -> T {
    let mut line = Line::new(false);
    if !line.is_terminal {
        return work();
    }
    let (over, ends) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let wait = |time| ends.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            let mut time = FIRST;
            while wait(time) {
                line.show(&words);
                time = PACE;
            }
            line.clear();
        });
        let done = work();
        drop(over);
        done
    })
}
