//! The quantities of a program, each declared once: for the table and for files.

use Unit::{Bytes, Nanoseconds, Number, Ratio};
use plimsoll_sim::threads::Unit;
use plimsoll_sim::together::Program;
use serde_json::{Value, json};

/// A quantity.
pub(super) struct Quantity {
    /// Its column in files. It never changes.
    pub(super) column: &'static str,
    /// Its name in the table; empty: it is in files alone.
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) value: fn(&Program) -> Value,
}

const fn quantity(
    column: &'static str,
    name: &'static str,
    unit: Unit,
    value: fn(&Program) -> Value,
) -> Quantity {
    Quantity {
        column,
        name,
        unit,
        value,
    }
}

/// The quantities, in their order. Some may be added at the end; none is removed.
pub(super) const QUANTITIES: [Quantity; 22] = [
    quantity("weight", "weight", Number, |it| json!(it.weight)),
    quantity("priority", "priority", Number, |it| json!(it.priority)),
    quantity("began_ns", "began", Nanoseconds, |it| json!(it.began)),
    quantity(ENDED, "ended", Nanoseconds, |it| json!(it.ended)),
    quantity("stopped", "", Number, |it| json!(it.stopped)),
    quantity("execution_ns", "execution time", Nanoseconds, |it| {
        json!(it.outcome.execution)
    }),
    quantity("waited_ns", "waited for memory", Nanoseconds, |it| {
        json!(it.waited())
    }),
    quantity("minor", "minor collections", Number, |it| {
        json!(it.outcome.minor)
    }),
    quantity("full", "full collections", Number, |it| {
        json!(it.outcome.full)
    }),
    quantity("paused_ns", "collection time", Nanoseconds, |it| {
        json!(it.outcome.paused)
    }),
    quantity("mark_cons", "mark/cons", Ratio, |it| {
        json!(it.outcome.mark_cons())
    }),
    quantity("allocated_bytes", "", Bytes, |it| {
        json!(it.outcome.allocated)
    }),
    quantity("faults", "faults", Number, |it| json!(it.faults())),
    quantity("uses_bytes", "average in memory", Bytes, |it| {
        json!(it.share.uses)
    }),
    quantity("heap_bytes", "average heap", Bytes, |it| {
        json!(it.share.heap)
    }),
    quantity("limit_bytes", "average limit", Bytes, |it| {
        json!(it.share.limit)
    }),
    quantity("ideal_bytes", "average ideal", Bytes, |it| {
        json!(it.share.ideal)
    }),
    quantity("apart_bytes", "average distance", Bytes, |it| {
        json!(it.share.apart)
    }),
    quantity("revocations", "revocations", Number, |it| {
        json!(it.revocations.batches)
    }),
    quantity("met", "met in time", Number, |it| json!(it.revocations.met)),
    quantity("longest_ns", "longest to meet", Nanoseconds, |it| {
        json!(it.revocations.longest)
    }),
    quantity("paged_out_bytes", "paged out", Bytes, |it| {
        json!(it.revocations.paged_out)
    }),
];

/// The column of the end, which the table marks if the program was stopped.
pub(super) const ENDED: &str = "ended_ns";
