//! Simulations for tests.

use super::run::{Cell, Run, Status, Turns};
use plimsoll_sim::threads::{Costs, Outcome, Quartiles};

/// The settings of a simulation under RR.
pub(super) fn cell() -> Cell {
    Cell {
        version: "0.1.0".into(),
        trace: "dir/some \"trace\", é.plt".into(),
        fingerprint: "00ff00ff00ff00ff".into(),
        scheduler: "RR".into(),
        collector: "GenMC".into(),
        heap: 3000,
        new_ratio: Some(2.0),
        recorded_largest_live: 1000,
        processors: 1,
        turns: Turns {
            quantum: Some(1_140_000),
            ..Turns::default()
        },
        patience: 8,
        priorities: false,
        instructions: 1.0,
        costs: Costs::PAPER,
    }
}

/// One with an outcome, with numbers that do not survive where they are rounded.
pub(super) fn done() -> Run {
    let outcome = Outcome {
        threads: 3,
        events: 1000,
        objects: 100,
        allocated: u64::MAX,
        largest_live: 1001,
        live: 7,
        garbage: 11,
        freed: (1 << 53) + 1,
        heap: 3000,
        minor: 12,
        mixed: 2,
        full: 3,
        work: 4000,
        greatest_work: 900,
        marked: 600,
        compacted: 500,
        swept: 5000,
        concurrent: 0,
        fragmented: 13,
        greatest_fragmented: 17,
        paused: 72_000,
        greatest_pause: 16_200,
        thread_pauses: Quartiles {
            least: 0.0,
            lower: 0.1,
            median: 1.0 / 3.0,
            upper: 0.7,
            greatest: 2.0e-9,
        },
        contentions: 5,
        switches: 77,
        dispatches: 80,
        computed: 1_000_000,
        execution: 1_100_000,
        elapsed: 1_100_000,
        turnaround: 900_000,
        longest_wait: 2,
        longest_wait_time: 3000,
        helped: 0,
        passed: 0,
        cut: 0,
        unborn: 0,
    };
    Run {
        cell: cell(),
        status: Status::Done,
        mark_cons: Some(outcome.mark_cons()),
        average_pause: Some(outcome.average_pause()),
        greatest_pause: Some(outcome.greatest_pause()),
        outcome: Some(outcome),
        error: None,
    }
}

/// One without an outcome, under MQRR.
pub(super) fn failed() -> Run {
    Run {
        cell: Cell {
            scheduler: "MQRR".into(),
            turns: Turns {
                memory_quantum: Some(10_240),
                time_bound: Some(100_000_000),
                ..Turns::default()
            },
            ..cell()
        },
        status: Status::Failed,
        mark_cons: None,
        average_pause: None,
        greatest_pause: None,
        outcome: None,
        error: Some("the heap is too small,\nsays \"it\"".into()),
    }
}
