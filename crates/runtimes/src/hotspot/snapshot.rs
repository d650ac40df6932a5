//! The counters of one moment that the controller needs, in one form for all collectors.

use plimsoll_programs::hotspot::hsperfdata::{Counters, Value};
use plimsoll_unit::{Bytes, Nanos};

/// A generation. Sizes are 0 if the collector has no such thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// Committed size.
    pub capacity: Bytes,
    /// Largest size.
    pub max: Bytes,
    /// Used by objects, including garbage, as of the last collection or later.
    pub used: Bytes,
    /// Committed size of its first space (eden, in a young generation).
    pub first_capacity: Bytes,
    /// Largest size of its first space.
    pub first_max: Bytes,
}

/// The work of one kind of collection (young, full, concurrent) so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Pauses since the start.
    pub invocations: u64,
    /// Time in pauses since the start.
    pub time: Nanos,
}

/// One moment of a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The young generation.
    pub young: Generation,
    /// The old generation, or the whole heap of a collector without generations.
    pub old: Generation,
    /// Young, full and concurrent (G1 and ZGC) collections.
    pub work: [Work; 3],
    /// Bytes allocated between the last two collections.
    pub allocated_last: Bytes,
    /// A collection is in a pause now.
    pub collecting: bool,
}

impl Snapshot {
    /// Takes the counters that are there. Missing ones stay 0.
    pub fn of(counters: Counters<'_>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let mut frequency = 1_000_000_000;
        for (name, value) in counters.iter() {
            match value {
                Value::Long(value) => {
                    let value = u64::try_from(value).unwrap_or(0);
                    if name == "sun.os.hrt.frequency" {
                        frequency = value.max(1);
                    }
                    snapshot.put(name, value);
                }
                Value::Text(text) if name == "sun.gc.cause" => {
                    snapshot.collecting = text != "No GC";
                }
                Value::Text(_) => {}
            }
        }
        for work in &mut snapshot.work {
            let ns = u128::from(work.time.0) * 1_000_000_000 / u128::from(frequency);
            work.time = Nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        }
        snapshot
    }

    fn put(&mut self, name: &str, value: u64) {
        let Some(rest) = name.strip_prefix("sun.gc.") else {
            return;
        };
        if rest == "tlab.alloc" {
            // The counter is in words of 8 bytes.
            self.allocated_last = Bytes(value) * 8;
        } else if let Some((number, field)) = numbered(rest, "collector.") {
            let Some(work) = self.work.get_mut(number) else {
                return;
            };
            match field {
                "invocations" => work.invocations = value,
                "time" => work.time = Nanos(value),
                _ => {}
            }
        } else if let Some((number, field)) = numbered(rest, "generation.") {
            let generation = match number {
                0 => &mut self.young,
                1 => &mut self.old,
                _ => return,
            };
            match field {
                "capacity" => generation.capacity = Bytes(value),
                "maxCapacity" => generation.max = Bytes(value),
                "space.0.capacity" => generation.first_capacity = Bytes(value),
                "space.0.maxCapacity" => generation.first_max = Bytes(value),
                _ if field.starts_with("space.") && field.ends_with(".used") => {
                    generation.used += Bytes(value);
                }
                _ => {}
            }
        }
    }

    /// Committed heap.
    pub fn committed(&self) -> Bytes {
        self.young.capacity + self.old.capacity
    }

    /// Pauses since the start.
    pub fn collections(&self) -> u64 {
        self.work
            .iter()
            .fold(0, |sum, w| sum.saturating_add(w.invocations))
    }

    /// Time in pauses since the start.
    pub fn collecting_time(&self) -> Nanos {
        self.work.iter().map(|work| work.time).sum()
    }
}

/// Splits a numbered name: `collector.1.time` with prefix `collector.` gives `(1, "time")`.
fn numbered<'a>(name: &'a str, prefix: &str) -> Option<(usize, &'a str)> {
    let (number, field) = name.strip_prefix(prefix)?.split_once('.')?;
    Some((number.parse().ok()?, field))
}
