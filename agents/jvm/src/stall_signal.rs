//! How the process stalls: the kernel crate's signal and the faults, read without allocating while it works.
//!
//! The signal is the dearest part of a pause: its path through the kernel is cold each time. So it is not
//! read where it cannot have changed: a thread stalls where it gets a page, and then a fault was counted.
//! Other stalls, within system calls, are seen some time later.

use plimsoll_kernel::process::own::is_shown;
use plimsoll_kernel::stalls::{Stalled, Stalls, Tier};
use plimsoll_unit::Nanos;
use plimsoll_wire::collections::{ProcessWriter, Signal};

/// Reads the signal of this process. Used by one thread at a time.
#[derive(Debug)]
pub struct Reader {
    stalls: Option<Stalls>,
    counted: Counted,
    /// The faults at the last reading of `stalls`, and when it was.
    read_at: Option<(Faults, Nanos)>,
    /// The source that stopped working, until somebody is told.
    fell: Option<Tier>,
}

/// How long a reading of the signal counts if no page was got meanwhile.
const LASTS: Nanos = Nanos::millis(100);

/// Faults of all threads of this process, ended ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Faults {
    minor: u64,
    major: u64,
}

/// Sums that never go back, of counters that may. Changed by each reading.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// The stalls at the last reading of them that succeeded; `None` before the first.
    stalled: Option<Stalled>,
    /// The major faults likewise.
    major_faults: Option<u64>,
    /// Their increase since the first reading.
    sum: Reading,
}

impl Counted {
    /// Begins at these counters. One that could not be read begins where it is first read: what came before
    /// is not of our time.
    fn of(stalled: Option<Stalled>, major_faults: Option<u64>) -> Counted {
        Counted {
            stalled,
            major_faults,
            sum: Reading::default(),
        }
    }

    /// Adds what came since the last reading: nothing of a counter that could not be read, and nothing of
    /// one that wrapped or went back, which counts on from where it is then.
    fn add(&mut self, stalled: Option<Stalled>, major_faults: Option<u64>) -> Reading {
        let sum = &mut self.sum;
        if let Some(now) = stalled {
            let more = now.since(self.stalled.replace(now).unwrap_or(now));
            sum.stalled.count = sum.stalled.count.saturating_add(more.count);
            sum.stalled.time += more.time;
        }
        if let Some(now) = major_faults {
            let more = now.saturating_sub(self.major_faults.replace(now).unwrap_or(now));
            sum.major_faults = sum.major_faults.saturating_add(more);
        }
        *sum
    }
}

/// Counts of the process since some time before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Allocation stalls.
    pub stalled: Stalled,
    /// Major faults of all threads.
    pub major_faults: u64,
}

impl Reading {
    /// The counts since an earlier reading.
    pub fn since(self, earlier: Reading) -> Reading {
        Reading {
            stalled: self.stalled.since(earlier.stalled),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
        }
    }
}

impl Reader {
    /// Opens the best source of this process. Readings count from here.
    pub fn open() -> Reader {
        Reader::of(is_shown().then(Stalls::own).and_then(Result::ok))
    }

    fn of(mut stalls: Option<Stalls>) -> Reader {
        let faults = faults();
        let stalled = read(stalls.as_mut(), faults);
        Reader {
            stalls,
            counted: Counted::of(stalled, faults.map(|faults| faults.major)),
            read_at: None,
            fell: None,
        }
    }

    /// Which source it is; `None` if nothing tells of stalls.
    pub fn tier(&self) -> Option<Tier> {
        self.stalls.as_ref().map(Stalls::tier)
    }

    /// The same for the page. Its number is that of the tier.
    pub fn signal(&self) -> Signal {
        self.tier()
            .map_or(Signal::None, |tier| Signal::from_number(tier as u64))
    }

    /// Which source it is and why not a better one, for a person.
    pub fn describe(&self) -> String {
        let Some(stalls) = &self.stalls else {
            return "nothing tells of stalls: /proc of the process is not readable for itself"
                .into();
        };
        let mut text = stalls.tier().name().to_owned();
        for (tier, why) in stalls.declined() {
            text.push_str(&format!("; no {}: {why}", tier.name()));
        }
        text
    }

    /// The counts so far. They never go back.
    pub fn read(&mut self, now: Nanos) -> Reading {
        let faults = faults();
        let stalled = if self.is_as_it_was(faults, now) {
            None
        } else {
            self.read_at = faults.map(|faults| (faults, now));
            self.read_source(faults)
        };
        self.counted.add(stalled, faults.map(|faults| faults.major))
    }

    fn read_source(&mut self, faults: Option<Faults>) -> Option<Stalled> {
        let tier = |stalls: &Option<Stalls>| stalls.as_ref().map(Stalls::tier);
        let before = tier(&self.stalls);
        let stalled = read(self.stalls.as_mut(), faults);
        if tier(&self.stalls) != before {
            // Another counter, which counts from where it is now.
            self.counted.stalled = stalled;
            self.fell = before;
        }
        stalled
    }

    /// Says on the page which source is read, if another one stopped working since this was last asked.
    /// Allocates then, as opening a source does: at most once for each source.
    pub fn tell_fall(&mut self, page: &mut ProcessWriter<'_>) {
        if let Some(lost) = self.fell.take() {
            page.signal(self.signal(), &self.describe_fall(lost));
        }
    }

    /// Which source it is, and why not the one before: first, because a page has little room.
    fn describe_fall(&self, lost: Tier) -> String {
        let declined = self.stalls.iter().flat_map(|stalls| stalls.declined());
        let mut declined = declined.filter(|(tier, _)| *tier == lost);
        let why = declined
            .next()
            .map_or(String::new(), |(_, why)| why.to_string());
        let now = self
            .stalls
            .as_ref()
            .map_or("none", |stalls| stalls.tier().name());
        format!("{now}; {} stopped working: {why}", lost.name())
    }

    /// Whether the signal cannot have changed since it was read last.
    fn is_as_it_was(&self, faults: Option<Faults>, now: Nanos) -> bool {
        // The pressure is that of other programs, too.
        let is_own = self
            .stalls
            .as_ref()
            .is_some_and(|stalls| stalls.tier() != Tier::Pressure);
        let is_same = |(then, at): (Faults, Nanos)| faults == Some(then) && now - at < LASTS;
        is_own && self.read_at.is_some_and(is_same)
    }
}

/// The stalls by now; `None` if they cannot be read.
fn read(stalls: Option<&mut Stalls>, faults: Option<Faults>) -> Option<Stalled> {
    let stalls = stalls?;
    match stalls.tier() {
        // The same count, for which the kernel need not write a text in /proc as well.
        Tier::MajorFaults => faults.map(|faults| Stalled {
            count: faults.major,
            time: Nanos::ZERO,
        }),
        _ => stalls.read().ok(),
    }
}

/// The faults of the process so far.
fn faults() -> Option<Faults> {
    // SAFETY: plain old data, filled in by getrusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing.
    let code = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    (code == 0).then(|| Faults {
        minor: u64::try_from(usage.ru_minflt).unwrap_or(0),
        major: u64::try_from(usage.ru_majflt).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stalled(count: u64, ns: u64) -> Option<Stalled> {
        Some(Stalled {
            count,
            time: Nanos(ns),
        })
    }

    fn told(reading: Reading) -> (u64, u64, u64) {
        let Reading {
            stalled,
            major_faults,
        } = reading;
        (stalled.count, stalled.time.0, major_faults)
    }

    #[test]
    fn counters_that_wrap_go_back_or_fail_add_nothing_and_count_on() {
        let mut counted = Counted::of(stalled(100, u64::MAX - 5), Some(7));
        assert_eq!(
            told(counted.add(stalled(102, u64::MAX), Some(8))),
            (2, 5, 1)
        );
        // The time wraps, the faults go back.
        let wrapped = counted.add(stalled(103, 3), Some(2));
        assert_eq!(told(wrapped), (3, 5, 1));
        assert_eq!(told(counted.add(stalled(103, 10), Some(4))), (3, 12, 3));
        // Nothing can be read for a while: what came meanwhile is counted after it.
        assert_eq!(told(counted.add(None, None)), (3, 12, 3));
        assert_eq!(told(counted.add(stalled(105, 11), None)), (5, 13, 3));
        assert_eq!(told(counted.add(stalled(105, 11), Some(9))), (5, 13, 8));
        let mut full = Counted::of(stalled(0, 0), None);
        full.add(stalled(u64::MAX, 0), None);
        full.add(stalled(0, 0), None);
        assert_eq!(told(full.add(stalled(9, 9), None)), (u64::MAX, 9, 0));
    }

    #[test]
    fn a_counter_that_could_not_be_read_at_first_begins_where_it_is() {
        let mut counted = Counted::of(None, None);
        assert_eq!(told(counted.add(None, None)), (0, 0, 0));
        assert_eq!(told(counted.add(stalled(900, 70), Some(500))), (0, 0, 0));
        assert_eq!(told(counted.add(stalled(902, 75), Some(501))), (2, 5, 1));
    }

    #[test]
    fn a_source_says_what_it_is_and_why_no_better_one_works() {
        let mut reader = Reader::open();
        let text = reader.describe();
        let signal = reader.signal();
        assert_ne!(signal, Signal::None, "major faults work everywhere: {text}");
        let tier = Tier::from_number(signal as u8).unwrap();
        assert!(text.starts_with(tier.name()), "{text}");
        for better in Tier::ALL.iter().filter(|&&other| other < tier) {
            assert!(
                text.contains(&format!("; no {}: ", better.name())),
                "{text}"
            );
        }
        assert_eq!(
            told(reader.read(Nanos(1))).2,
            0,
            "it counts from its opening"
        );
        let none = Reader::of(None);
        assert_eq!(none.signal(), Signal::None);
        assert!(none.describe().contains("nothing tells of stalls"));
    }

    #[test]
    fn major_faults_alone_count_as_stalls() {
        let process = plimsoll_kernel::process::Process::own().unwrap();
        let mut stalls = Stalls::among(process, &[Tier::MajorFaults]).ok();
        let faults = Faults { minor: 9, major: 7 };
        let told = read(stalls.as_mut(), Some(faults));
        assert_eq!(told.map(|stalled| stalled.count), Some(7));
        assert_eq!(read(stalls.as_mut(), None), None);
        assert_eq!(read(None, Some(faults)), None);
    }

    #[test]
    fn the_signal_is_read_again_after_any_fault_and_after_a_while() {
        let process = plimsoll_kernel::process::Process::own().unwrap();
        let mut reader = Reader::of(Stalls::among(process, &[Tier::MajorFaults]).ok());
        let faults = Faults { minor: 9, major: 7 };
        assert!(
            !reader.is_as_it_was(Some(faults), Nanos(50)),
            "it was not read yet"
        );
        reader.read_at = Some((faults, Nanos(50)));
        assert!(reader.is_as_it_was(Some(faults), Nanos(50)));
        assert!(reader.is_as_it_was(Some(faults), Nanos(49) + LASTS));
        assert!(!reader.is_as_it_was(Some(faults), Nanos(50) + LASTS));
        let (minor, major) = (
            Faults {
                minor: 10,
                ..faults
            },
            Faults { major: 8, ..faults },
        );
        assert!(
            !reader.is_as_it_was(Some(minor), Nanos(60))
                && !reader.is_as_it_was(Some(major), Nanos(60))
        );
        assert!(
            !reader.is_as_it_was(None, Nanos(60)),
            "what cannot be read is not known"
        );
        reader.stalls = None;
        assert!(!reader.is_as_it_was(Some(faults), Nanos(60)));
    }

    #[test]
    fn another_source_counts_from_where_it_is() {
        let process = plimsoll_kernel::process::Process::own().unwrap();
        let mut reader = Reader::of(Stalls::among(process, &[Tier::MajorFaults]).ok());
        let faults = |major| Some(Faults { minor: 0, major });
        reader.counted = Counted::of(stalled(100, 0), Some(7));
        assert_eq!(
            told(reader.counted.add(stalled(102, 9), Some(7))),
            (2, 9, 0)
        );
        let read = reader.read_source(faults(5000));
        assert_eq!(reader.fell, None, "it is the same source");
        // As in `read_source`, where the source has become another.
        reader.counted.stalled = read;
        assert_eq!(told(reader.counted.add(read, Some(5000))), (2, 9, 4993));
        let more = reader.read_source(faults(5003));
        assert_eq!(told(reader.counted.add(more, Some(5003))), (5, 9, 4996));
    }

    /// Rights belong to threads: only the one of this test gives its own up. Where there is none to give up,
    /// nothing falls.
    #[test]
    fn a_source_that_stops_working_is_told_on_the_page() {
        use plimsoll_wire::collections::{About, SIZE, View, Words, Writer};
        use std::sync::atomic::AtomicU64;
        let page: [AtomicU64; SIZE / 8] = std::array::from_fn(|_| AtomicU64::new(0));
        let words = Words::of(&page);
        let (_, mut process) = Writer::new(words, &About::default());
        let told = || View::new(words).unwrap().about();
        let fell = || {
            let mut reader = Reader::of(Stalls::own().ok());
            let before = reader.signal();
            let mut held = rustix::thread::capabilities(None).unwrap();
            held.effective = rustix::thread::CapabilitySet::empty();
            rustix::thread::set_capabilities(None, held).unwrap();
            reader.read_source(faults());
            reader.tell_fall(&mut process);
            (before, reader.signal())
        };
        let (before, now) = std::thread::scope(|scope| scope.spawn(fell).join().unwrap());
        if before == now {
            assert_eq!(told().signal_text, "");
        } else {
            assert_eq!(told().signal, now);
            let text = told().signal_text;
            let lost = Tier::from_number(before as u8).unwrap().name();
            assert!(
                text.contains(&format!("; {lost} stopped working: ")),
                "{text}"
            );
        }
    }

    #[test]
    fn what_stopped_working_is_named_before_anything_else() {
        let process = plimsoll_kernel::process::Process::own().unwrap();
        let reader = Reader::of(Stalls::among(process, &[Tier::MajorFaults]).ok());
        let text = reader.describe_fall(Tier::DelayAccounting);
        assert_eq!(text, "major faults; delay accounting stopped working: ");
    }

    proptest! {
        #[test]
        fn sums_never_go_back(
            counters in prop::collection::vec(
                (any::<Option<u64>>(), any::<u64>(), any::<Option<u64>>()), 0..40),
        ) {
            let mut counted = Counted::of(None, None);
            let mut before = Reading::default();
            for (count, ns, faults) in counters {
                let now = counted.add(count.map(|count| Stalled { count, time: Nanos(ns) }), faults);
                prop_assert!(now.stalled.count >= before.stalled.count);
                prop_assert!(now.stalled.time >= before.stalled.time);
                prop_assert!(now.major_faults >= before.major_faults);
                before = now;
            }
        }
    }
}
