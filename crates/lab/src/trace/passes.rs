//! How far a search for deaths is, on a terminal.

use plimsoll_cli::progress::Line;
use plimsoll_trace::{Trace, TraceError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A search that takes less time is not shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// A line that shows how much of some traces was read.
#[derive(Debug)]
pub(super) struct Passes {
    line: Line,
    begun: Instant,
    what: &'static str,
    /// Bytes that were read, and that are to be read.
    read: u64,
    all: u64,
}

/// Those who read traces share it.
pub(super) type Shared = Arc<Mutex<Passes>>;

impl Passes {
    /// Nothing is read yet.
    pub(super) fn new() -> Shared {
        Arc::new(Mutex::new(Passes {
            line: Line::new(false),
            begun: Instant::now(),
            what: "",
            read: 0,
            all: 0,
        }))
    }

    fn read(&mut self, bytes: u64) {
        self.read = self.read.saturating_add(bytes);
        if self.begun.elapsed() > PATIENCE {
            let (what, percent) = (self.what, percent(self.read, self.all));
            self.line.show(|| format!("{what}: {percent} %"));
        }
    }
}

/// Begins something that reads each of these traces some times. Returns the traces to read.
///
/// # Errors
/// [`TraceError::Io`].
pub(super) fn begin(
    shared: &Shared,
    what: &'static str,
    traces: &[Trace],
    times: u64,
) -> Result<Vec<Trace>, TraceError> {
    let lengths = traces.iter().map(Trace::length);
    let lengths = lengths.collect::<Result<Vec<u64>, TraceError>>()?;
    let mut passes = shared.lock().unwrap_or_else(PoisonError::into_inner);
    passes.what = what;
    passes.read = 0;
    passes.all = lengths.into_iter().sum::<u64>().saturating_mul(times);
    drop(passes);
    let watched = |trace: &Trace| {
        let shared = Arc::clone(shared);
        trace.watched(move |bytes| {
            let mut passes = shared.lock().unwrap_or_else(PoisonError::into_inner);
            passes.read(bytes);
        })
    };
    Ok(traces.iter().map(watched).collect())
}

/// Takes the line away.
pub(super) fn clear(shared: &Shared) {
    let mut passes = shared.lock().unwrap_or_else(PoisonError::into_inner);
    passes.line.clear();
}

/// At most 99, because something is written after the last byte was read.
fn percent(read: u64, all: u64) -> u64 {
    (read.saturating_mul(100) / all.max(1)).min(99)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_trace::synth::{self, table};

    #[test]
    fn what_was_read_is_counted_over_all_passes() {
        let program = table::find("lusearch").unwrap();
        let options = synth::Options {
            scale: 10_000.0,
            ..synth::Options::default()
        };
        let made = synth::write(program, &options, Vec::new(), "made").unwrap();
        let length = made.len() as u64;
        let trace = Trace::from_source(Arc::new(made), "made").unwrap();
        let shared = Passes::new();
        let traces = begin(&shared, "reading", &[trace], 2).unwrap();
        assert_eq!(shared.lock().unwrap().all, 2 * length);
        for _ in 0..2 {
            let threads: Vec<_> = traces[0].streams().keys().copied().collect();
            for thread in threads {
                assert!(traces[0].stream(thread).unwrap().all(|event| event.is_ok()));
            }
        }
        let read = shared.lock().unwrap().read;
        assert!(
            (length..=2 * length + length / 2).contains(&read),
            "{read} of {length}"
        );
        assert_eq!((percent(0, 0), percent(1, 2), percent(9, 3)), (0, 50, 99));
    }
}
