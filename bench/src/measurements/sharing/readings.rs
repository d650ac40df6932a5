//! Counters of programs that touch shared memory as fast as they can, at any time: read off the lines that
//! they print.

use super::sharers::{Sharers, register};
use crate::harness::broker::Broker;
use crate::{Error, Result};
use plimsoll_client::Connection;
use plimsoll_testbed::Progress;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ChildStdout;
use std::thread::JoinHandle;

/// Milliseconds between two lines of a program's output. Between them its counters are interpolated.
const REPORT: &str = "10";

/// The programs, and the threads that read their lines.
pub(super) struct Busy {
    sharers: Sharers,
    readers: Vec<JoinHandle<Vec<Progress>>>,
}

impl Busy {
    /// Starts one program for each processor, but at least two and at most three.
    pub(super) fn start(folder: &Path) -> Result<Busy> {
        let count = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 3));
        let arguments: Vec<Vec<String>> = (0..count)
            .map(|_| ["--unpaced", "--report", REPORT].map(str::to_owned).into())
            .collect();
        let mut sharers = Sharers::start(folder, &arguments)?;
        let readers = sharers.outputs().into_iter().map(read).collect();
        Ok(Busy { sharers, readers })
    }

    /// The process of each program.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.sharers
            .children
            .iter()
            .map(|child| child.id())
            .collect()
    }

    /// Registers them as principals, as long as the connections are kept.
    pub(super) fn register(&self, broker: &Broker) -> Result<Vec<Connection>> {
        register(broker, &self.sharers)
    }

    /// Ends the programs: they print a last line and close their output, which ends the threads.
    pub(super) fn end(self) -> Result<Told> {
        drop(self.sharers);
        let mut told = Vec::new();
        for reader in self.readers {
            let lines = reader.join();
            told.push(lines.map_err(|_| Error::Panicked("a reader of a program's output"))?);
        }
        Ok(Told(told))
    }
}

/// Reads all lines of a program, until it ends.
fn read(output: ChildStdout) -> JoinHandle<Vec<Progress>> {
    std::thread::spawn(move || {
        BufReader::new(output)
            .lines()
            .map_while(io::Result::ok)
            .map(|line| Progress::parse(&line))
            .collect()
    })
}

/// The lines of each program.
pub(super) struct Told(Vec<Vec<Progress>>);

impl Told {
    /// By how much a counter of all programs together grew between two times, ns. Not a number before their
    /// first lines and after their last.
    pub(super) fn grown(&self, (from, to): (u64, u64), counter: fn(&Progress) -> u64) -> f64 {
        let grown = |lines: &Vec<Progress>| at(lines, to, counter) - at(lines, from, counter);
        self.0.iter().map(grown).sum()
    }
}

/// The value of a counter at a time, interpolated between the lines before and after it.
fn at(lines: &[Progress], time: u64, counter: fn(&Progress) -> u64) -> f64 {
    let next = lines.partition_point(|line| line.time_ns < time);
    let (Some(before), Some(after)) = (
        next.checked_sub(1).and_then(|i| lines.get(i)),
        lines.get(next),
    ) else {
        return f64::NAN;
    };
    let part = (time - before.time_ns) as f64 / (after.time_ns - before.time_ns).max(1) as f64;
    let (low, high) = (counter(before) as f64, counter(after) as f64);
    low + (high - low) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_interpolated_and_unknown_outside() {
        let line = |time_ns, rounds| Progress {
            time_ns,
            rounds,
            ..Progress::default()
        };
        let lines = vec![line(10, 100), line(20, 200)];
        assert_eq!(at(&lines, 15, |p| p.rounds), 150.0);
        assert!(at(&lines, 5, |p| p.rounds).is_nan() && at(&lines, 25, |p| p.rounds).is_nan());
        let told = Told(vec![lines.clone(), lines]);
        assert_eq!(told.grown((12, 18), |p| p.rounds), 120.0);
    }
}
