//! How often the kernel made this process wait for memory, as a difference from collection to
//! collection.

#[cfg(test)]
use plimsoll_kernel::process::Process;
use plimsoll_kernel::stalls::{Stalled, Stalls, Tier};

/// The stalls of this process. Without any tier that works there are never any.
#[derive(Debug)]
pub(crate) struct Signal {
    /// Takes a lesser tier by itself where one stops working.
    stalls: Option<Stalls>,
    /// The last reading; `None` until one succeeds.
    last: Option<Stalled>,
    /// The process that it was opened in.
    pid: u32,
}

impl Signal {
    /// Opens the best tier. Takes a few dozen microseconds, once.
    pub(crate) fn open() -> Signal {
        Signal::of(Stalls::own().ok())
    }

    /// Counts from here on.
    fn of(mut stalls: Option<Stalls>) -> Signal {
        let last = stalls.as_mut().and_then(|stalls| stalls.read().ok());
        Signal {
            stalls,
            last,
            pid: std::process::id(),
        }
    }

    /// Whether it is this process's. After a fork the child has that of its parent.
    pub(crate) fn is_own(&self) -> bool {
        self.pid == std::process::id()
    }

    #[cfg(test)]
    pub(crate) fn pretend_forked(&mut self) {
        self.pid = 0;
    }

    /// A signal by this tier alone.
    #[cfg(test)]
    pub(crate) fn by(tier: Tier) -> Signal {
        let own = Process::own().expect("we live");
        Signal::of(Stalls::among(own, &[tier]).ok())
    }

    /// The tier in use; `None` if none works.
    pub(crate) fn tier(&self) -> Option<Tier> {
        self.stalls.as_ref().map(Stalls::tier)
    }

    /// Stalls since the last call. A tier that only tells time counts as one stall, and too few of a tier to
    /// tell anything count as none.
    pub(crate) fn since_last(&mut self) -> Stalled {
        let before = self.tier();
        let now = self.stalls.as_mut().and_then(|stalls| stalls.read().ok());
        if self.tier() != before {
            // It cannot be read by what it was read by. Another counter counts from where it is.
            self.last = None;
        }
        self.step(now)
    }

    /// The stalls up to this reading. There are none where the counter could not be read (what comes
    /// meanwhile counts later), wrapped or went backwards (it counts on from there).
    fn step(&mut self, now: Option<Stalled>) -> Stalled {
        let Some(now) = now else {
            return Stalled::default();
        };
        let since = now.since(self.last.replace(now).unwrap_or(now));
        if since.count < self.tier().map_or(0, Tier::few) {
            return Stalled::default();
        }
        Stalled {
            count: since.count.max(u64::from(since.any())),
            ..since
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::Nanos;

    fn step(signal: &mut Signal, now: Option<(u64, u64)>) -> (u64, u64) {
        let now = now.map(|(count, ns)| Stalled {
            count,
            time: Nanos(ns),
        });
        let since = signal.step(now);
        (since.count, since.time.0)
    }

    fn signal(last: (u64, u64)) -> Signal {
        let (count, ns) = last;
        Signal {
            stalls: None,
            last: Some(Stalled {
                count,
                time: Nanos(ns),
            }),
            pid: std::process::id(),
        }
    }

    #[test]
    fn counters_that_wrap_go_back_or_fail_are_no_stalls() {
        let mut signal = signal((10, u64::MAX - 1));
        assert_eq!(step(&mut signal, Some((12, u64::MAX))), (2, 1));
        assert_eq!(step(&mut signal, Some((3, 5))), (0, 0), "both went back");
        assert_eq!(step(&mut signal, Some((4, 9))), (1, 4), "and count on");
        assert_eq!(step(&mut signal, None), (0, 0));
        assert_eq!(step(&mut signal, Some((7, 9))), (3, 0), "of meanwhile");
        assert_eq!(step(&mut signal, Some((7, 9))), (0, 0));
        signal.last = None;
        assert_eq!(
            step(&mut signal, Some((70, 90))),
            (0, 0),
            "nobody knows when"
        );
        assert_eq!(step(&mut signal, Some((71, 90))), (1, 0));
    }

    #[test]
    fn time_alone_is_a_stall_and_nothing_is_none() {
        let mut signal = signal((0, 100));
        assert_eq!(step(&mut signal, Some((0, 250))), (1, 150));
        assert_eq!(step(&mut signal, Some((0, 250))), (0, 0));
    }

    #[test]
    fn a_few_major_faults_are_none() {
        let mut faults = Signal::by(Tier::MajorFaults);
        faults.last = Some(Stalled {
            count: 5,
            time: Nanos::ZERO,
        });
        assert_eq!(step(&mut faults, Some((14, 0))), (0, 0));
        assert_eq!(step(&mut faults, Some((24, 0))), (10, 0));
    }

    #[test]
    fn without_a_tier_there_are_never_any() {
        let mut none = signal((0, 0));
        assert!(!none.since_last().any());
        assert_eq!(none.tier(), None);
        let mut faults = Signal::by(Tier::MajorFaults);
        faults.pretend_forked();
        assert!(!faults.is_own());
        assert_eq!(faults.tier(), Some(Tier::MajorFaults));
        assert_eq!(
            faults.since_last().time,
            Nanos::ZERO,
            "faults take no time that is told"
        );
        let own = Signal::open();
        assert!(own.is_own());
        assert!(own.tier().is_some(), "major faults can be read everywhere");
    }
}
