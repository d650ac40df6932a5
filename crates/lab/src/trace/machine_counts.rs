//! The bytes that the machine counted as allocated, beside those of a trace.

use plimsoll_trace::Header;
use std::fmt;

/// The name of the machine's count of allocated bytes in the report and in the facts of a trace.
pub(super) const FACT: &str = "bytes-by-machine";
/// A difference of more than one part in this many is a warning.
const PART: u64 = 1000;
/// A smaller difference counts as none: threads allocate about 600 bytes each before the machine tells of
/// them, and so does the code that asks for the count.
const UNSEEN: u64 = 6 << 10;

/// The bytes of a trace beside those that the machine counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    bytes: u64,
    machine: u64,
}

impl Counted {
    /// The counts for a trace with this many bytes; `None` if the machine's is not known.
    pub(super) fn of(bytes: u64, fact: Option<&str>) -> Option<Counted> {
        let machine = fact?.parse().ok()?;
        Some(Counted { bytes, machine })
    }

    /// As [`Counted::of`], of a trace with this header.
    pub(super) fn in_trace(bytes: u64, header: &Header) -> Option<Counted> {
        Counted::of(bytes, header.facts.get(FACT).map(String::as_str))
    }

    /// The bytes that the machine counted.
    pub(super) fn machine(self) -> u64 {
        self.machine
    }

    /// By how much the trace has more, percent.
    pub(super) fn percent(self) -> f64 {
        self.bytes as f64 / self.machine.max(1) as f64 * 100.0 - 100.0
    }

    /// A warning, if the two are too far apart.
    pub(super) fn warning(self) -> Option<String> {
        let apart = self.bytes.abs_diff(self.machine);
        let far = apart > UNSEEN && apart > self.machine / PART;
        let side = if self.bytes < self.machine {
            "are missing from the trace"
        } else {
            "in the trace were not counted"
        };
        let percent = self.percent().abs();
        far.then(|| {
            format!(
                "{apart} bytes ({percent:.1} % of what the Java virtual machine counted) {side}: what is \
                 computed from it is off by as much"
            )
        })
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (machine, percent) = (self.machine, self.percent());
        write!(
            f,
            "the Java virtual machine counts {machine} bytes allocated meanwhile: {percent:+.3} %"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_of_more_than_a_thousandth_is_a_warning() {
        let warns = |bytes, machine: u64| {
            let counted = Counted::of(bytes, Some(&machine.to_string())).unwrap();
            counted.warning()
        };
        // An array of 2 GiB, of 2.1.
        let missing = warns(100 << 20, 2_252_341_248).unwrap();
        assert!(
            missing.contains("95.3 %") && missing.contains("are missing"),
            "{missing}"
        );
        assert!(
            warns(10_020_000, 10_000_000)
                .unwrap()
                .contains("were not counted")
        );
        assert_eq!(warns(10_010_000, 10_000_000), None);
        assert_eq!(warns(9_990_000, 10_000_000), None);
        // A small program; a few of its bytes are not seen.
        assert_eq!(warns(100_000, 106_000), None);
        assert_eq!(Counted::of(1, None), None);
        assert_eq!(Counted::of(1, Some("odd")), None);
    }
}
