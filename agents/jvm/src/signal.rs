//! How the process stalls: the kernel crate's signal and the major faults, read without allocating.

use plimsoll_kernel::stalls::{Stalled, Stalls, Tier};
use plimsoll_wire::collections::Signal;

/// Reads the signal of this process. Used by one thread at a time.
#[derive(Debug)]
pub struct Reader {
    stalls: Option<Stalls>,
    counted: Counted,
}

/// Sums that never go back, of counters that may. Changed by each reading.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// The counters at the last reading.
    last: Reading,
    /// What they rose by since the first.
    sum: Reading,
}

impl Counted {
    /// Begins at these counters; what could not be read begins at 0.
    fn of(stalled: Option<Stalled>, major_faults: Option<u64>) -> Counted {
        Counted {
            last: Reading {
                stalled: stalled.unwrap_or_default(),
                major_faults: major_faults.unwrap_or_default(),
            },
            sum: Reading::default(),
        }
    }

    /// Adds what came since the last reading: nothing of a counter that could not be read, and nothing of
    /// one that wrapped or went back, which counts on from where it is then.
    fn add(&mut self, stalled: Option<Stalled>, major_faults: Option<u64>) -> Reading {
        let now = Reading {
            stalled: stalled.unwrap_or(self.last.stalled),
            major_faults: major_faults.unwrap_or(self.last.major_faults),
        };
        let more = now.since(std::mem::replace(&mut self.last, now));
        let sum = &mut self.sum;
        sum.stalled.count = sum.stalled.count.saturating_add(more.stalled.count);
        sum.stalled.ns = sum.stalled.ns.saturating_add(more.stalled.ns);
        sum.major_faults = sum.major_faults.saturating_add(more.major_faults);
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
    /// What came after an earlier reading.
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
        let mut stalls = is_own_proc().then(Stalls::own).and_then(Result::ok);
        let (stalled, faults) = counters(&mut stalls);
        Reader {
            stalls,
            counted: Counted::of(stalled, faults),
        }
    }

    /// Which source it is. Its number is that of the tier.
    pub fn signal(&self) -> Signal {
        let tier = self.stalls.as_ref().map(Stalls::tier);
        tier.map_or(Signal::None, |tier| Signal::from_number(tier as u64))
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
    pub fn read(&mut self) -> Reading {
        let (stalled, faults) = counters(&mut self.stalls);
        self.counted.add(stalled, faults)
    }
}

/// The stalls and the major faults of this process by now; what cannot be read is none.
fn counters(stalls: &mut Option<Stalls>) -> (Option<Stalled>, Option<u64>) {
    let faults = major_faults();
    let stalled = match stalls {
        // The same count, for which the kernel need not write a text in /proc as well.
        Some(stalls) if stalls.tier() == Tier::MajorFaults => {
            faults.map(|count| Stalled { count, ns: 0 })
        }
        Some(stalls) => stalls.read().ok(),
        None => None,
    };
    (stalled, faults)
}

/// Whether `/proc` names this process by the number that it has for itself. In a pid namespace without a
/// `/proc` of its own, that number is another process's there.
fn is_own_proc() -> bool {
    let named = std::fs::read_link("/proc/self").ok();
    let number = std::process::id().to_string();
    named.is_some_and(|named| named.as_os_str() == number.as_str())
}

/// Major faults of all threads of this process, ended ones included; 1 us.
fn major_faults() -> Option<u64> {
    // SAFETY: plain old data, filled in by getrusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing.
    let code = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    (code == 0).then(|| u64::try_from(usage.ru_majflt).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stalled(count: u64, ns: u64) -> Option<Stalled> {
        Some(Stalled { count, ns })
    }

    fn told(reading: Reading) -> (u64, u64, u64) {
        let Reading {
            stalled,
            major_faults,
        } = reading;
        (stalled.count, stalled.ns, major_faults)
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
        let mut full = Counted::of(None, None);
        full.add(stalled(u64::MAX, 0), None);
        full.add(stalled(0, 0), None);
        assert_eq!(told(full.add(stalled(9, 9), None)), (u64::MAX, 9, 0));
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
        assert_eq!(told(reader.read()).2, 0, "it counts from its opening");
        let none = Reader {
            stalls: None,
            counted: Counted::default(),
        };
        assert_eq!(none.signal(), Signal::None);
        assert!(none.describe().contains("nothing tells of stalls"));
    }

    #[test]
    fn major_faults_alone_count_as_stalls() {
        let process = plimsoll_kernel::process::Process::own().unwrap();
        let mut stalls = Stalls::among(process, &[Tier::MajorFaults]).ok();
        let (stalled, faults) = counters(&mut stalls);
        assert_eq!(stalled.unwrap().count, faults.unwrap());
        assert_eq!(counters(&mut None).0, None);
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
                let now = counted.add(count.map(|count| Stalled { count, ns }), faults);
                prop_assert!(now.stalled.count >= before.stalled.count);
                prop_assert!(now.stalled.ns >= before.stalled.ns);
                prop_assert!(now.major_faults >= before.major_faults);
                before = now;
            }
        }
    }
}
