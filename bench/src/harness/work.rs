//! How much a program has done, read off its output.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Lines kept of what a program wrote.
const KEPT: usize = 200;
/// Bytes looked at, at the end of a file.
const TAIL: u64 = 4096;

/// The reading end of a program's output.
#[derive(Clone, Debug, Default)]
pub struct Work {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    done: f64,
    lines: VecDeque<String>,
}

impl Work {
    /// Reads `output` to its end in a thread of its own.
    pub fn follow(&self, output: impl Read + Send + 'static) {
        let state = Arc::clone(&self.state);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let mut state = state
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                if let Some(done) = done(&line) {
                    state.done = state.done.max(done);
                }
                if state.lines.len() == KEPT {
                    state.lines.pop_front();
                }
                state.lines.push_back(line);
            }
        });
    }

    /// What it has done so far.
    pub fn done(&self) -> f64 {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .done
    }

    /// The last lines that it wrote.
    pub fn lines(&self) -> Vec<String> {
        let state = self
            .state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        state.lines.iter().cloned().collect()
    }
}

/// The work that the last lines of a growing file speak of; 0 when they do not.
pub fn latest(path: &Path) -> f64 {
    let Ok(mut file) = std::fs::File::open(path) else {
        return 0.0;
    };
    let end = file.seek(SeekFrom::End(0)).unwrap_or(0);
    let mut tail = Vec::new();
    if file
        .seek(SeekFrom::Start(end.saturating_sub(TAIL)))
        .is_err()
        || file.read_to_end(&mut tail).is_err()
    {
        return 0.0;
    }
    String::from_utf8_lossy(&tail)
        .lines()
        .filter_map(done)
        .fold(0.0, f64::max)
}

/// The work that a line speaks of: `"work": 12` in a JSON line, or Lucene's `added 4000 docs`.
fn done(line: &str) -> Option<f64> {
    if line.starts_with('{') {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        return value.get("work")?.as_f64();
    }
    let (_, rest) = line.split_once(" added ")?;
    let (count, _) = rest.trim_start().split_once(" docs")?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_read_off_json_and_lucene() {
        assert_eq!(done(r#"{"work": 12.5, "heap": 3}"#), Some(12.5));
        assert_eq!(
            done("   2.05 sec --> main added      8000 docs"),
            Some(8000.0)
        );
        assert_eq!(done("GC(1) Pause"), None);
        assert_eq!(done("{not json"), None);
    }
}
