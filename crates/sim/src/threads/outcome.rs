//! The outcome of a simulation: its quantities, each declared once.

use std::fmt;

/// How the values of the threads of a program are spread: the numbers of a box plot.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Quartiles {
    /// The least.
    pub least: f64,
    /// A quarter is not above it.
    pub lower: f64,
    /// Half is not above it.
    pub median: f64,
    /// Three quarters are not above it.
    pub upper: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Quartiles {
    /// The quartiles of any values, by linear interpolation between neighbours; all zero where there is no
    /// value.
    pub fn of(values: &[f64]) -> Quartiles {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * sorted.len().saturating_sub(1) as f64;
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            match (sorted.get(below), sorted.get(above)) {
                (Some(below), Some(above)) => below + (above - below) * place.fract(),
                _ => 0.0,
            }
        };
        Quartiles {
            least: at(0.0),
            lower: at(0.25),
            median: at(0.5),
            upper: at(0.75),
            greatest: at(1.0),
        }
    }
}

/// The unit of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A whole number.
    Number,
    /// Whole bytes.
    Bytes,
    /// Whole nanoseconds.
    Nanoseconds,
    /// A fraction without a unit.
    Ratio,
    /// Parts of the heap.
    Heaps,
    /// Nanoseconds for each byte.
    NanosecondsPerByte,
}

impl Unit {
    /// Whether its numbers have no fraction.
    pub const fn is_whole(self) -> bool {
        matches!(self, Unit::Number | Unit::Bytes | Unit::Nanoseconds)
    }
}

/// A quantity of an outcome. Tables, files and pages are lists of quantities, named by their columns.
#[derive(Clone, Copy)]
pub struct Quantity {
    /// Its column in files, with the unit at the end. It never changes.
    pub column: &'static str,
    /// Its name for people. [`Quantity::label`] has the unit, too.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Its meaning, in a sentence.
    pub what: &'static str,
    /// Where it stands in the JSON of a simulation, as a JSON pointer.
    pub pointer: &'static str,
    /// Its value, in its unit.
    pub value: fn(&Outcome) -> f64,
}

impl Quantity {
    /// Its name, with the unit where the number does not show it.
    pub fn label(&self) -> String {
        match self.unit {
            Unit::Heaps => format!("{}, heaps", self.name),
            Unit::NanosecondsPerByte => format!("{}, ns/B", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// The quantity of a column.
    ///
    /// # Panics
    /// If there is no such column; in a constant, when it is compiled.
    pub const fn of(column: &str) -> &'static Quantity {
        let mut index = 0;
        while index < QUANTITIES.len() {
            if is_equal(QUANTITIES[index].column, column) {
                return &QUANTITIES[index];
            }
            index += 1;
        }
        panic!("no quantity has this column")
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quantity").field(&self.column).finish()
    }
}

const fn is_equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

/// Declares the outcome and its quantities: the computed ones, then a field for each of the others. Those
/// after `later` may be missing in what older versions have written.
macro_rules! outcome {
    (
        computed {
            $($pointer:literal, $unit:ident, $column:literal, $name:literal, $what:literal, $value:expr;)*
        }
        fields { $($field:ident, $f_unit:ident, $f_column:literal, $f_name:literal, $f_what:literal;)* }
        later { $($late:ident, $l_unit:ident, $l_column:literal, $l_name:literal, $l_what:literal;)* }
    ) => {
        /// The outcome of a simulation. Sizes are bytes and times nanoseconds; the others are numbers.
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct Outcome {
            /// The size of the heap.
            pub heap: u64,
            /// Pauses in the life of each thread that allocated anything, nanoseconds per byte that it
            /// allocated (Figure 4).
            pub thread_pauses: Quartiles,
            $(#[doc = $f_what] pub $field: u64,)*
            $(#[doc = $l_what] #[serde(default)] pub $late: u64,)*
        }

        /// All quantities of an outcome, in the order of the columns of files. Some may be added at the end;
        /// none is removed.
        pub const QUANTITIES: &[Quantity] = &[
            $(Quantity {
                column: $column,
                name: $name,
                unit: Unit::$unit,
                what: $what,
                pointer: $pointer,
                value: $value,
            },)*
            $(Quantity {
                column: $f_column,
                name: $f_name,
                unit: Unit::$f_unit,
                what: $f_what,
                pointer: concat!("/outcome/", stringify!($field)),
                value: |it| it.$field as f64,
            },)*
            $(Quantity {
                column: $l_column,
                name: $l_name,
                unit: Unit::$l_unit,
                what: $l_what,
                pointer: concat!("/outcome/", stringify!($late)),
                value: |it| it.$late as f64,
            },)*
        ];
    };
}

outcome! {
    computed {
    "/mark_cons", Ratio, "mark_cons", "mark/cons",
    "Bytes of collection work for each allocated byte (section 5.2).", Outcome::mark_cons;
    "/average_pause", Heaps, "average_pause_heaps", "average pause",
    "The work of a collection on average (section 5.3.1).", Outcome::average_pause;
    "/greatest_pause", Heaps, "greatest_pause_heaps", "greatest pause",
    "The most work of a collection.", Outcome::greatest_pause;
    "/outcome/thread_pauses/least", NanosecondsPerByte, "thread_pause_least_ns_per_byte", "thread pause min",
    "The pauses in the life of a thread for each byte that it allocated: the thread with the least.",
    |it| it.thread_pauses.least;
    "/outcome/thread_pauses/lower", NanosecondsPerByte, "thread_pause_lower_ns_per_byte", "thread pause 25%",
    "A quarter of the threads has no more.", |it| it.thread_pauses.lower;
    "/outcome/thread_pauses/median", NanosecondsPerByte, "thread_pause_median_ns_per_byte",
    "thread pause 50%", "Half of the threads has no more.", |it| it.thread_pauses.median;
    "/outcome/thread_pauses/upper", NanosecondsPerByte, "thread_pause_upper_ns_per_byte", "thread pause 75%",
    "Three quarters of the threads have no more.", |it| it.thread_pauses.upper;
    "/outcome/thread_pauses/greatest", NanosecondsPerByte, "thread_pause_greatest_ns_per_byte",
    "thread pause max", "The thread with the most.", |it| it.thread_pauses.greatest;
    }
    fields {
    minor, Number, "minor_collections", "minor collections",
    "Collections of the young objects.";
    mixed, Number, "mixed_collections", "mixed collections",
    "Collections of the young objects and of some regions of old ones.";
    full, Number, "full_collections", "full collections",
    "Collections of the whole heap.";
    work, Bytes, "work_bytes", "work",
    "Marked or copied by collections (beside Table 2: V_gc).";
    greatest_work, Bytes, "greatest_work_bytes", "greatest work",
    "The most that one collection marked or copied.";
    marked, Bytes, "marked_bytes", "marked",
    "The part of the work that was marked where it lay. The rest was copied.";
    compacted, Bytes, "compacted_bytes", "compacted",
    "The part of the marked bytes that was then moved together.";
    swept, Bytes, "swept_bytes", "swept",
    "Dead and live objects that were swept.";
    concurrent, Bytes, "concurrent_bytes", "marked concurrently",
    "Marked while the threads went on: no pause and no time contains it.";
    fragmented, Bytes, "fragmented_bytes", "fragmented",
    "Lost at the end because cells and regions are larger than what is in them.";
    greatest_fragmented, Bytes, "greatest_fragmented_bytes", "most fragmented",
    "The most that was so lost after a collection.";
    paused, Nanoseconds, "paused_ns", "collection time",
    "The time of all pauses.";
    greatest_pause, Nanoseconds, "greatest_pause_ns", "longest pause",
    "The time of the longest pause.";
    contentions, Number, "contentions", "contentions",
    "Contentions for monitors.";
    switches, Number, "switches", "switches",
    "Switches of threads.";
    dispatches, Number, "dispatches", "dispatches",
    "Dispatches of threads, switches or not.";
    computed, Nanoseconds, "computed_ns", "computing time",
    "The time that the threads computed.";
    execution, Nanoseconds, "execution_ns", "execution time",
    "The total execution time by the formula of section 5.4.3.";
    elapsed, Nanoseconds, "elapsed_ns", "elapsed time",
    "From the beginning to the end of the last thread. With one processor that is never idle, it is the \
     execution time.";
    turnaround, Nanoseconds, "turnaround_ns", "average turnaround",
    "From the start to the end of a thread, on average.";
    longest_wait, Number, "longest_wait", "longest wait in turns",
    "The most dispatches of other threads that a ready thread has waited for.";
    longest_wait_time, Nanoseconds, "longest_wait_ns", "longest wait",
    "The longest time that a ready thread has waited.";
    threads, Number, "threads", "threads",
    "Threads.";
    events, Number, "events", "events",
    "Events that the threads came to.";
    objects, Number, "objects", "objects",
    "Objects that the threads allocated.";
    allocated, Bytes, "allocated_bytes", "allocated",
    "Allocated by the threads: the sum of the live, the garbage and the freed bytes.";
    largest_live, Bytes, "largest_live_bytes", "largest live",
    "The most that was live at once under this scheduler.";
    live, Bytes, "live_bytes", "live",
    "Live at the end.";
    garbage, Bytes, "garbage_bytes", "garbage",
    "Dead and not collected at the end.";
    freed, Bytes, "freed_bytes", "freed",
    "Freed by collections.";
    helped, Number, "helped_waits", "helped waits",
    "Threads that were woken because nothing else could go on: they had been notified or unparked by a \
     thread that came too early under this scheduler, or outside of the trace.";
    cut, Number, "cut_threads", "cut threads",
    "Threads whose streams stop before their end.";
    }
    later {
    passed, Number, "passed_waits", "passed waits",
    "Waits that did not block, because the thread had been notified before it came there under this \
     scheduler.";
    unborn, Number, "unborn_objects", "unborn objects",
    "Objects that died and were not allocated, because that part of the trace was lost, or because the \
     program was stopped before.";
    }
}

impl Outcome {
    /// Collections, of any kind.
    pub fn collections(&self) -> u64 {
        self.minor + self.mixed + self.full
    }

    /// Mark/cons: bytes of collection work for each allocated byte (section 5.2).
    pub fn mark_cons(&self) -> f64 {
        part(self.work, self.allocated)
    }

    /// The average pause: work of a collection divided by the heap's size (section 5.3.1).
    pub fn average_pause(&self) -> f64 {
        part(self.work, self.heap) / self.collections().max(1) as f64
    }

    /// The greatest pause, in the same unit.
    pub fn greatest_pause(&self) -> f64 {
        part(self.greatest_work, self.heap)
    }
}

fn part(of: u64, whole: u64) -> f64 {
    of as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_columns_are_unique_and_columns_tell_the_unit() {
        let names: BTreeSet<String> = QUANTITIES.iter().map(Quantity::label).collect();
        let columns: BTreeSet<&str> = QUANTITIES.iter().map(|it| it.column).collect();
        assert_eq!(
            (names.len(), columns.len()),
            (QUANTITIES.len(), QUANTITIES.len())
        );
        for it in QUANTITIES {
            let end = match it.unit {
                Unit::Bytes => "_bytes",
                Unit::Nanoseconds => "_ns",
                Unit::Heaps => "_heaps",
                Unit::NanosecondsPerByte => "_ns_per_byte",
                Unit::Number | Unit::Ratio => "",
            };
            assert!(it.column.ends_with(end) && it.what.ends_with('.'), "{it:?}");
            assert_eq!(Quantity::of(it.column).name, it.name);
        }
    }

    #[test]
    #[should_panic(expected = "no quantity has this column")]
    fn a_column_that_is_not_there_is_a_fault() {
        Quantity::of("minor");
    }

    #[test]
    fn a_value_is_that_of_its_field() {
        let outcome = Outcome {
            heap: 100,
            work: 40,
            greatest_work: 30,
            allocated: 80,
            minor: 3,
            full: 1,
            ..Outcome::default()
        };
        let value = |column| (Quantity::of(column).value)(&outcome);
        assert_eq!(value("mark_cons"), 0.5);
        assert_eq!(value("average_pause_heaps"), 0.1);
        assert_eq!(value("greatest_pause_heaps"), 0.3);
        assert_eq!(value("minor_collections"), 3.0);
        assert_eq!(
            Quantity::of("average_pause_heaps").label(),
            "average pause, heaps"
        );
    }
}
