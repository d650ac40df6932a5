//! Makes the simulations of a plan, several at the same time, and shows how far they are.

use super::plan::Plan;
use super::run::Run;
use crate::error::LabError;
use plimsoll_cli::progress::Line;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, mpsc::Receiver};
use std::time::{Duration, Instant};

/// Between two looks at whether it is to be stopped.
const PACE: Duration = Duration::from_millis(100);
/// Columns of the bar.
const BAR: usize = 24;

/// Receives events while simulations are made. All of it is called on the thread that called [`sweep`].
pub(super) trait Watcher {
    /// A simulation is done; they come in any order.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn done(&mut self, index: usize, run: Run) -> Result<(), LabError>;

    /// Whether to stop. Simulations that are being made then are given up.
    fn is_stopped(&self) -> bool;
}

/// Makes these simulations, `jobs` at the same time. Returns whether all of them were made.
///
/// # Errors
/// Those of the watcher, and when no thread can be started.
pub(super) fn sweep(
    plan: &Arc<Plan>,
    todo: Vec<usize>,
    jobs: usize,
    watcher: &mut dyn Watcher,
) -> Result<bool, LabError> {
    let count = todo.len();
    let counts: Vec<_> = (0..jobs.min(count))
        .map(|_| Arc::new(AtomicU64::new(0)))
        .collect();
    let mut progress = Progress::new(plan, &todo, counts.clone());
    let runs = start(plan, todo, counts)?;
    let mut made = 0;
    while made < count {
        if watcher.is_stopped() {
            progress.line.clear();
            return Ok(false);
        }
        match runs.recv_timeout(PACE) {
            Ok((index, run)) => {
                made += 1;
                progress.done += 1;
                progress.weight += plan.events(index);
                // The output of the watcher comes before the line.
                progress.line.clear();
                watcher.done(index, run)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let why = "a simulation ended without an outcome: this is a fault of plimsoll";
                return Err(LabError::Simulation(why.to_owned()));
            }
        }
        progress.show();
    }
    progress.line.clear();
    Ok(true)
}

/// Threads that make the simulations in their order, one for each of the counts, in which it counts the
/// events of its simulation. They end when there is no more to do, or nobody listens. One that is in the
/// middle of a simulation when the process ends is ended with it.
fn start(
    plan: &Arc<Plan>,
    todo: Vec<usize>,
    counts: Vec<Arc<AtomicU64>>,
) -> Result<Receiver<(usize, Run)>, LabError> {
    let (sender, receiver) = mpsc::channel();
    let todo = Arc::new(todo);
    let next = Arc::new(AtomicUsize::new(0));
    for read in counts {
        let (plan, todo) = (Arc::clone(plan), Arc::clone(&todo));
        let (next, sender) = (Arc::clone(&next), sender.clone());
        let work = move || {
            while let Some(&index) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                let run = plan.run(index, &read);
                // It is counted as done from here on.
                read.store(0, Ordering::Relaxed);
                if sender.send((index, run)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("sim".into());
        thread.spawn(work).map_err(LabError::system("a thread"))?;
    }
    Ok(receiver)
}

/// How far it is, as a line on the terminal.
struct Progress {
    line: Line,
    begun: Instant,
    count: usize,
    done: usize,
    /// Events of all simulations, and of those that are done.
    all: u64,
    weight: u64,
    /// Events that were read of those that are being made.
    counts: Vec<Arc<AtomicU64>>,
}

impl Progress {
    fn new(plan: &Plan, todo: &[usize], counts: Vec<Arc<AtomicU64>>) -> Progress {
        let weights = todo.iter().map(|index| plan.events(*index));
        Progress {
            line: Line::new(todo.is_empty()),
            begun: Instant::now(),
            count: todo.len(),
            done: 0,
            all: weights.fold(0, u64::saturating_add),
            weight: 0,
            counts,
        }
    }

    fn show(&mut self) {
        let counts = self.counts.iter().map(|it| it.load(Ordering::Relaxed));
        let weight = counts.fold(self.weight, u64::saturating_add);
        let part = (weight as f64 / self.all.max(1) as f64).min(1.0);
        let (done, count, elapsed) = (self.done, self.count, self.begun.elapsed());
        let bar = self.line.is_drawn().then(|| bar(part));
        let bar = bar.unwrap_or_default();
        self.line.show(|| bar + &words(done, count, part, elapsed));
    }
}

/// A bar, for a terminal.
fn bar(part: f64) -> String {
    let full = ((BAR as f64 * part) as usize).min(BAR);
    format!("[{}{}] ", "#".repeat(full), "-".repeat(BAR - full))
}

/// How many are done, and about how long it will still take, once something was simulated.
fn words(done: usize, count: usize, part: f64, elapsed: Duration) -> String {
    let mut line = format!("{done} of {count} simulations");
    if part > 0.0 {
        let left = elapsed.as_secs_f64() * (1.0 - part).max(0.0) / part;
        line += &match left {
            ..90.0 => format!(", {left:.0} s left"),
            ..5400.0 => format!(", {:.0} min left", left / 60.0),
            _ => format!(", {:.1} h left", left / 3600.0),
        };
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_how_long_it_will_take() {
        let line =
            |done, part, seconds| bar(part) + &words(done, 40, part, Duration::from_secs(seconds));
        assert_eq!(
            line(0, 0.0, 9),
            "[------------------------] 0 of 40 simulations"
        );
        assert_eq!(
            line(10, 0.25, 20),
            "[######------------------] 10 of 40 simulations, 60 s left"
        );
        assert!(line(4, 0.1, 60).ends_with(" 9 min left"));
        assert!(line(4, 0.1, 3600).ends_with(" 9.0 h left"));
        assert!(line(40, 1.0, 3600).starts_with("[########################] 40 of 40"));
        assert!(line(40, f64::MAX, 3600).ends_with(" 0 s left"));
    }
}
