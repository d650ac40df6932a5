//! How the process stalls: the kernel crate's signal and the major faults, read without allocating.

use plimsoll_kernel::stalls::{Stalled, Stalls};
use plimsoll_wire::collections::Signal;

/// Reads the signal of this process. Used by one thread at a time.
#[derive(Debug)]
pub struct Reader {
    stalls: Option<Stalls>,
    /// The last values; they stay when a reading fails.
    last: Reading,
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
    /// What came after an earlier reading; counters that went back give 0.
    pub fn since(self, earlier: Reading) -> Reading {
        Reading {
            stalled: self.stalled.since(earlier.stalled),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
        }
    }
}

impl Reader {
    /// Opens the best source of this process.
    pub fn open() -> Reader {
        Reader {
            stalls: is_own_proc().then(Stalls::own).and_then(Result::ok),
            last: Reading::default(),
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

    /// The counts so far.
    pub fn read(&mut self) -> Reading {
        let stalled = self.stalls.as_mut().and_then(|stalls| stalls.read().ok());
        self.last = Reading {
            stalled: stalled.unwrap_or(self.last.stalled),
            major_faults: major_faults().unwrap_or(self.last.major_faults),
        };
        self.last
    }
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
