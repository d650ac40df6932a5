//! How far something long is. On a terminal it is a line that is written over, and taken away at the end.
//! Elsewhere it is a line of a log every ten seconds: nobody can write over those.

use crate::rows::shown;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Shortest time between two writings on a terminal.
const PACE: Duration = Duration::from_millis(500);
/// Shortest time between two lines of a log, and before the first.
const LOG_PACE: Duration = Duration::from_secs(10);

/// Work that takes less time than this shows no line on a terminal.
const FIRST: Duration = Duration::from_secs(1);

/// Where a line is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Terminal,
    Log,
    Nowhere,
}

/// The line, on standard error.
#[derive(Debug)]
pub struct Line {
    place: Place,
    begun: Instant,
    last: Option<Instant>,
}

impl Line {
    /// A line for work that ends, unless it is to be silent.
    pub fn new(silent: bool) -> Line {
        Line::at(match (silent, std::io::stderr().is_terminal()) {
            (true, _) => Place::Nowhere,
            (false, true) => Place::Terminal,
            (false, false) => Place::Log,
        })
    }

    /// A line for work that may last for ever: a log does not get it.
    pub fn on_terminal(silent: bool) -> Line {
        match Line::new(silent) {
            line if line.place == Place::Terminal => line,
            _ => Line::at(Place::Nowhere),
        }
    }

    fn at(place: Place) -> Line {
        Line {
            place,
            begun: Instant::now(),
            last: None,
        }
    }

    /// Whether it is drawn, so that it may have a bar.
    pub fn is_drawn(&self) -> bool {
        self.place == Place::Terminal
    }

    /// Shows what `words` makes, unless the line was written a moment ago.
    pub fn show(&mut self, words: impl FnOnce() -> String) {
        self.write(Instant::now(), words, &mut std::io::stderr());
    }

    fn write(&mut self, now: Instant, words: impl FnOnce() -> String, to: &mut dyn Write) {
        let since = |then: Instant| now.saturating_duration_since(then);
        let is_due = match self.place {
            Place::Terminal => self.last.is_none_or(|last| since(last) >= PACE),
            Place::Log => since(self.last.unwrap_or(self.begun)) >= LOG_PACE,
            Place::Nowhere => false,
        };
        if !is_due {
            return;
        }
        self.last = Some(now);
        let line = shown(&words(), WIDTH - 1);
        // Nobody may read it.
        let _ = match self.place {
            Place::Terminal => write!(to, "\r\x1b[K{line}"),
            _ => writeln!(to, "plimsoll: {line}"),
        };
        let _ = to.flush();
    }

    /// Takes the line away. Those of a log stay.
    pub fn clear(&mut self) {
        if self.is_drawn() && self.last.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}

/// Does something, and meanwhile shows how far it is, from a second on.
pub fn during<T>(words: impl Fn() -> String + Send, work: impl FnOnce() -> T) -> T {
    let mut line = Line::new(false);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The text after 25 seconds with something to show every tenth of a second.
    fn written(place: Place) -> String {
        let mut line = Line::at(place);
        let (begun, mut to) = (line.begun, Vec::new());
        for tenth in 0..=250 {
            let now = begun + Duration::from_millis(100 * tenth);
            line.write(now, || format!("{tenth} of 250"), &mut to);
        }
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn a_terminal_is_written_over_twice_a_second() {
        let text = written(Place::Terminal);
        assert_eq!(text.matches("\r\x1b[K").count(), 51);
        assert!(text.starts_with("\r\x1b[K0 of 250\r") && !text.contains('\n'));
    }

    #[test]
    fn a_log_gets_a_line_every_ten_seconds() {
        let text = written(Place::Log);
        assert_eq!(text, "plimsoll: 100 of 250\nplimsoll: 200 of 250\n");
        assert_eq!(written(Place::Nowhere), "");
    }
}
