//! Programs that say what they hold, and one look at them.

use plimsoll_kernel::process::Process;
use plimsoll_map::memory::ProcessMemory;
use plimsoll_map::{Kind, Labels, Snapshot, runtimes};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A program that prints one line of numbers and then waits for its input to end.
pub(crate) struct Program {
    child: Child,
    /// The numbers of its line, by name: `name=number` each.
    pub(crate) says: HashMap<String, u64>,
}

impl Program {
    /// Starts it, and waits for its line.
    pub(crate) fn start(command: &mut Command) -> Program {
        Program::try_start(command).unwrap()
    }

    /// As [`Program::start`]; an error if it is not installed.
    pub(crate) fn try_start(command: &mut Command) -> std::io::Result<Program> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let numbers = line.split_whitespace().filter_map(|word| {
            let (name, number) = word.split_once('=')?;
            Some((name.to_owned(), number.parse().ok()?))
        });
        let says = numbers.collect();
        Ok(Program { child, says })
    }

    /// The number that it printed by this name.
    pub(crate) fn said(&self, name: &str) -> u64 {
        self.says[name]
    }

    /// Its number.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Looks at it.
    pub(crate) fn look(&self) -> Seen {
        look(self.pid())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The labels of a process.
pub(crate) struct Seen {
    /// The name of the runtime; empty if none knew the program.
    pub(crate) runtime: &'static str,
    /// Bytes of addresses by area, each address counted once.
    pub(crate) bytes: HashMap<Kind, u64>,
    pub(crate) labels: Labels,
}

impl Seen {
    pub(crate) fn of(&self, kind: Kind) -> u64 {
        self.bytes.get(&kind).copied().unwrap_or(0)
    }
}

/// One look at a process.
pub(crate) fn look(pid: i32) -> Seen {
    let process = Arc::new(Process::open(pid).unwrap());
    let snapshot = Snapshot::of(&process, Duration::from_secs(60)).unwrap();
    let memory = ProcessMemory::open(&process).unwrap();
    let mut labels = Labels::default();
    let runtime = runtimes::ALL
        .iter()
        .find(|runtime| runtime.runs(&snapshot.candidate()));
    if let Some(runtime) = runtime {
        runtime.label(&snapshot, &memory, &mut labels);
    }
    check(&snapshot, &labels);
    Seen {
        runtime: runtime.map_or("", |runtime| runtime.title()),
        bytes: counted(&labels),
        labels,
    }
}

/// Every label is in mappings.
fn check(snapshot: &Snapshot, labels: &Labels) {
    for label in &labels.labels {
        let mut at = label.addresses.start;
        for area in &snapshot.mappings {
            if area.addresses.contains(&at) {
                at = area.addresses.end;
            }
        }
        assert!(at >= label.addresses.end, "{label:x?} is outside");
    }
}

/// Bytes by area, where the first label of an address counts.
fn counted(labels: &Labels) -> HashMap<Kind, u64> {
    let mut edges: Vec<u64> = labels
        .labels
        .iter()
        .flat_map(|label| [label.addresses.start, label.addresses.end])
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let mut kinds: Vec<Option<Kind>> = vec![None; edges.len()];
    for label in labels.labels.iter().rev() {
        let from = edges.partition_point(|&edge| edge < label.addresses.start);
        let to = edges.partition_point(|&edge| edge < label.addresses.end);
        kinds[from..to].fill(Some(label.kind));
    }
    let mut bytes = HashMap::new();
    for (pair, kind) in edges.windows(2).zip(kinds) {
        if let Some(kind) = kind {
            *bytes.entry(kind).or_insert(0) += pair[1] - pair[0];
        }
    }
    bytes
}

/// Whether `seen` is within 5 % of `said`.
pub(crate) fn is_near(seen: u64, said: u64) -> bool {
    seen.abs_diff(said) <= said / 20
}
