//! The counters of one moment that the controller needs, in one form for all collectors.

use plimsoll_programs::hotspot::hsperfdata::{Counters, Place, Value};
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

/// A counter that a snapshot needs. The number is that of a generation, or of a kind of collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Frequency,
    Cause,
    Allocated,
    Pauses(usize),
    PauseTime(usize),
    Capacity(usize),
    Max(usize),
    FirstCapacity(usize),
    FirstMax(usize),
    Used(usize),
}

impl Field {
    /// The one of this name, if a snapshot needs it.
    fn of(name: &str) -> Option<Field> {
        if name == "sun.os.hrt.frequency" {
            return Some(Field::Frequency);
        }
        let rest = name.strip_prefix("sun.gc.")?;
        match rest {
            "cause" => return Some(Field::Cause),
            "tlab.alloc" => return Some(Field::Allocated),
            _ => {}
        }
        if let Some((number, field)) = numbered(rest, "collector.") {
            return match field {
                "invocations" => Some(Field::Pauses(number)),
                "time" => Some(Field::PauseTime(number)),
                _ => None,
            };
        }
        let (number, field) = numbered(rest, "generation.")?;
        match field {
            "capacity" => Some(Field::Capacity(number)),
            "maxCapacity" => Some(Field::Max(number)),
            "space.0.capacity" => Some(Field::FirstCapacity(number)),
            "space.0.maxCapacity" => Some(Field::FirstMax(number)),
            _ if field.starts_with("space.") && field.ends_with(".used") => {
                Some(Field::Used(number))
            }
            _ => None,
        }
    }
}

/// Takes snapshots of one machine. Names are compared only when counters were added: a snapshot takes a tenth
/// of the time then.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// The header of the counters whose places are known.
    header: Vec<u8>,
    /// Where the counters are that are needed.
    places: Vec<(Field, Place)>,
    /// How often names were compared.
    searches: u32,
}

impl Snapshots {
    /// The counters of this moment. Missing ones are 0.
    pub fn take(&mut self, counters: Counters<'_>) -> Snapshot {
        if self.header != counters.header() {
            counters.header().clone_into(&mut self.header);
            let places = counters.places();
            self.places.clear();
            self.places
                .extend(places.filter_map(|(name, place)| Some((Field::of(name)?, place))));
            self.searches = self.searches.saturating_add(1);
        }
        let values = self.places.iter();
        Snapshot::read(values.filter_map(|(field, place)| Some((*field, counters.value(*place)?))))
    }

    /// How often names were compared so far.
    pub fn searches(&self) -> u32 {
        self.searches
    }
}

impl Snapshot {
    /// Takes the counters that are there. Missing ones stay 0.
    pub fn of(counters: Counters<'_>) -> Snapshot {
        Snapshots::default().take(counters)
    }

    fn read<'a>(values: impl Iterator<Item = (Field, Value<'a>)>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let mut frequency = 1_000_000_000;
        for (field, value) in values {
            match (field, value) {
                (Field::Cause, Value::Text(text)) => snapshot.collecting = text != "No GC",
                (Field::Frequency, Value::Long(value)) => {
                    frequency = u64::try_from(value).unwrap_or(0).max(1);
                }
                (field, Value::Long(value)) => {
                    snapshot.put(field, u64::try_from(value).unwrap_or(0));
                }
                (_, Value::Text(_)) => {}
            }
        }
        for work in &mut snapshot.work {
            let ns = u128::from(work.time.0) * 1_000_000_000 / u128::from(frequency);
            work.time = Nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        }
        snapshot
    }

    fn put(&mut self, field: Field, value: u64) {
        let bytes = Bytes(value);
        match field {
            Field::Frequency | Field::Cause => {}
            // The counter is in words of 8 bytes.
            Field::Allocated => self.allocated_last = bytes * 8,
            Field::Pauses(kind) => {
                if let Some(work) = self.work.get_mut(kind) {
                    work.invocations = value;
                }
            }
            Field::PauseTime(kind) => {
                if let Some(work) = self.work.get_mut(kind) {
                    work.time = Nanos(value);
                }
            }
            Field::Capacity(of) => self.with_generation(of, |it| it.capacity = bytes),
            Field::Max(of) => self.with_generation(of, |it| it.max = bytes),
            Field::FirstCapacity(of) => self.with_generation(of, |it| it.first_capacity = bytes),
            Field::FirstMax(of) => self.with_generation(of, |it| it.first_max = bytes),
            Field::Used(of) => self.with_generation(of, |it| it.used += bytes),
        }
    }

    /// Changes the young or the old generation; a further one is none of the heap's.
    fn with_generation(&mut self, number: usize, change: impl FnOnce(&mut Generation)) {
        match number {
            0 => change(&mut self.young),
            1 => change(&mut self.old),
            _ => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testbed::hsperfdata::{Counter, file};

    const YOUNG: &str = "sun.gc.generation.0.capacity";
    const PAUSES: &str = "sun.gc.collector.1.invocations";

    #[test]
    fn names_are_compared_once_for_as_long_as_no_counter_is_added() {
        let made = |young: i64, pauses: Option<i64>| {
            let young = (YOUNG, Counter::Long(young));
            let pauses = pauses.map(|pauses| (PAUSES, Counter::Long(pauses)));
            let all: Vec<_> = [young].into_iter().chain(pauses).collect();
            file(true, &all)
        };
        let mut snapshots = Snapshots::default();
        let mut take = |bytes: &[u8]| {
            let snapshot = snapshots.take(Counters::parse(bytes).unwrap());
            assert_eq!(snapshot, Snapshot::of(Counters::parse(bytes).unwrap()));
            let figures = (snapshot.young.capacity.0, snapshot.work[1].invocations);
            (figures, snapshots.searches())
        };
        assert_eq!(take(&made(7, None)), ((7, 0), 1));
        for look in 8..100 {
            assert_eq!(take(&made(look, None)), ((look as u64, 0), 1));
        }
        assert_eq!(take(&made(9, Some(3))), ((9, 3), 2), "one was added");
        let short = made(9, Some(3));
        assert_eq!(take(&short[..short.len() - 8]), ((9, 0), 2), "it was cut");
        assert_eq!(take(&made(-1, Some(4))), ((0, 4), 2));
    }
}
