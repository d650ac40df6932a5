//! How much work a program has done, according to its own output.

use super::trace::Seen;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Number of lines of a program's output that are kept.
const KEPT: usize = 200;
/// Number of bytes at the end of a file in which the last lines are looked for.
const TAIL: u64 = 4096;

/// Counts that a program printed of itself: the highest values so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Said {
    /// Work done, in the program's own unit.
    pub work: f64,
    /// Number of collections; 0 if it does not print them.
    pub collections: u64,
    /// Time of these collections, nanoseconds.
    pub collection_ns: u64,
}

impl Said {
    /// Reads the counts from a line: JSON with `"work"` or `"iteration"` (and
    /// `"collections"`, `"gc_time"` in seconds), or Lucene's `added 4000 docs`.
    fn hear(&mut self, line: &str) {
        if !line.starts_with('{') {
            self.work = self.work.max(documents(line).unwrap_or(0.0));
            return;
        }
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        let number = |key: &str| value.get(key).and_then(serde_json::Value::as_f64);
        let work = number("work").or_else(|| number("iteration"));
        self.work = self.work.max(work.unwrap_or(0.0));
        let collections = number("collections").unwrap_or(0.0) as u64;
        self.collections = self.collections.max(collections);
        let nanoseconds = (number("gc_time").unwrap_or(0.0) * 1e9) as u64;
        self.collection_ns = self.collection_ns.max(nanoseconds);
    }

    /// Adds these counts to what was seen of the program from outside.
    pub fn tell(self, seen: &mut Seen) {
        seen.work = self.work;
        seen.collections = seen.collections.max(self.collections);
        seen.collection_ns = seen.collection_ns.max(self.collection_ns);
    }
}

/// The reading end of a program's output.
#[derive(Clone, Debug, Default)]
pub struct Work {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    said: Said,
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
                state.said.hear(&line);
                if state.lines.len() == KEPT {
                    state.lines.pop_front();
                }
                state.lines.push_back(line);
            }
        });
    }

    /// The counts so far.
    pub fn said(&self) -> Said {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .said
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

/// The counts in the last lines of a growing file; all 0 if there are none.
pub fn latest(path: &Path) -> Said {
    let mut said = Said::default();
    for line in tail(path).unwrap_or_default().lines() {
        said.hear(line);
    }
    said
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(end.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}

/// The count in Lucene's `added 4000 docs`.
fn documents(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once(" added ")?;
    let (count, _) = rest.trim_start().split_once(" docs")?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_read_off_json_and_lucene() {
        let said = |line: &str| {
            let mut said = Said::default();
            said.hear(line);
            said
        };
        let guile = said(r#"{"work": 12.5, "collections": 3, "gc_time": 0.25}"#);
        assert_eq!(
            (guile.work, guile.collections, guile.collection_ns),
            (12.5, 3, 250_000_000)
        );
        assert_eq!(said(r#"{"event": "progress", "iteration": 20}"#).work, 20.0);
        assert_eq!(
            said("   2.05 sec --> main added      8000 docs").work,
            8000.0
        );
        assert_eq!(said("GC(1) Pause"), Said::default());
        assert_eq!(said("{not json"), Said::default());
    }
}
