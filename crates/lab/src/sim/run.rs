//! One simulation: its settings and its result.

use plimsoll_policy::phases::Rule;
use plimsoll_sim::threads::{Costs, Outcome, Settings, SimError};
use serde::{Deserialize, Serialize};

/// How a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// It has an outcome.
    Done,
    /// It has none, and would have none again: a heap that is too small, a deadlock, a trace that
    /// contradicts itself.
    Failed,
    /// The trace could not be read. It is tried again when the same is asked for again.
    Unread,
}

/// The settings of a simulation. Times are nanoseconds and sizes bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cell {
    /// The version of this program.
    pub(super) version: String,
    /// The trace's path, as it was given.
    pub(super) trace: String,
    /// Which trace it is, wherever it lies: [`plimsoll_trace::Trace::fingerprint`], in hexadecimal.
    pub(super) fingerprint: String,
    pub(super) scheduler: String,
    pub(super) collector: String,
    /// Size of the heap.
    pub(super) heap: u64,
    /// How many times as large as the nursery the mature space is, of collectors with generations.
    pub(super) new_ratio: Option<f64>,
    /// The largest live size in the recorded order.
    pub(super) recorded_largest_live: u64,
    pub(super) processors: usize,
    #[serde(flatten)]
    pub(super) turns: Turns,
    pub(super) patience: u32,
    pub(super) priorities: bool,
    /// Instructions a nanosecond.
    pub(super) instructions: f64,
    /// The constants of the cost formula, picoseconds.
    pub(super) costs: Costs,
}

/// How long a thread runs, and who runs next: each setting only where the scheduler heeds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Turns {
    /// For RR and LARF.
    pub(super) quantum: Option<u64>,
    /// For MQRR.
    pub(super) memory_quantum: Option<u64>,
    /// For MQRR.
    pub(super) time_bound: Option<u64>,
    /// For LARF: which of equal rates goes first.
    pub(super) ties: Option<String>,
}

impl Turns {
    pub(super) fn of(settings: &Settings) -> Turns {
        let quanta = settings.quanta;
        let by_memory = settings.rule == Rule::Mqrr;
        Turns {
            quantum: (!by_memory).then_some(quanta.time.0),
            memory_quantum: by_memory.then_some(quanta.bytes.0),
            time_bound: by_memory.then_some(quanta.most.0),
            ties: (settings.rule == Rule::Larf).then(|| settings.ties.name().to_owned()),
        }
    }
}

impl Cell {
    /// A key that is equal for the same simulation: all settings but the path of the trace.
    pub(super) fn key(&self) -> String {
        let unnamed = Cell {
            trace: String::new(),
            ..self.clone()
        };
        serde_json::to_string(&unnamed).unwrap_or_default()
    }
}

/// One simulation. The JSON contract of `plimsoll sim --json`, which prints a list of these: fields may be
/// added, and none is removed. Times are nanoseconds and sizes bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    #[serde(flatten)]
    pub(super) cell: Cell,
    pub(super) status: Status,
    pub(super) mark_cons: Option<f64>,
    /// Work of a collection, as a part of the heap.
    pub(super) average_pause: Option<f64>,
    pub(super) greatest_pause: Option<f64>,
    pub(super) outcome: Option<Outcome>,
    /// Why there is no outcome.
    pub(super) error: Option<String>,
}

impl Run {
    pub(super) fn new(cell: Cell, result: Result<Outcome, SimError>) -> Run {
        let (status, outcome, error) = match result {
            Ok(outcome) => (Status::Done, Some(outcome), None),
            Err(error @ SimError::Read(_)) => (Status::Unread, None, Some(error.to_string())),
            Err(error) => (Status::Failed, None, Some(error.to_string())),
        };
        Run {
            cell,
            status,
            mark_cons: outcome.as_ref().map(Outcome::mark_cons),
            average_pause: outcome.as_ref().map(Outcome::average_pause),
            greatest_pause: outcome.as_ref().map(Outcome::greatest_pause),
            outcome,
            error,
        }
    }
}
