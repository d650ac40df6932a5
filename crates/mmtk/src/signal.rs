//! How often the kernel made this process wait for memory, as a difference from collection to
//! collection.

use plimsoll_kernel::stalls::{Stalled, Stalls};

/// The stalls of this process. Without any tier that works there are never any.
#[derive(Debug)]
pub(crate) struct Signal {
    stalls: Option<Stalls>,
    last: Stalled,
    /// The process that it was opened in.
    pid: u32,
}

impl Signal {
    /// Opens the best tier. Takes a few dozen microseconds, once.
    pub(crate) fn open() -> Signal {
        let mut stalls = Stalls::own().ok();
        let now = stalls.as_mut().and_then(|stalls| stalls.read().ok());
        Signal {
            stalls,
            last: now.unwrap_or_default(),
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

    /// The name of the tier in use.
    pub(crate) fn name(&self) -> &'static str {
        self.stalls.as_ref().map_or("none", |s| s.tier().name())
    }

    /// Whether there is a tier that works.
    pub(crate) fn works(&self) -> bool {
        self.stalls.is_some()
    }

    /// Stalls since the last call. A tier that only tells time counts as one stall.
    pub(crate) fn since_last(&mut self) -> Stalled {
        let tier = |stalls: &Option<Stalls>| stalls.as_ref().map(Stalls::tier);
        let before = tier(&self.stalls);
        let now = self.stalls.as_mut().and_then(|stalls| stalls.read().ok());
        if tier(&self.stalls) != before {
            // The program closed what it was read by. Another counter counts from where it is.
            self.last = now.unwrap_or_default();
        }
        self.step(now)
    }

    /// The stalls up to this reading. There are none where the counter could not be read (what comes
    /// meanwhile counts later), wrapped or went backwards (it counts on from there).
    fn step(&mut self, now: Option<Stalled>) -> Stalled {
        let Some(now) = now else {
            return Stalled::default();
        };
        let since = now.since(self.last);
        self.last = now;
        Stalled {
            count: since.count.max(u64::from(since.any())),
            ..since
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_kernel::process::Process;
    use plimsoll_kernel::stalls::Tier;

    fn step(signal: &mut Signal, now: Option<(u64, u64)>) -> (u64, u64) {
        let now = now.map(|(count, ns)| Stalled { count, ns });
        let since = signal.step(now);
        (since.count, since.ns)
    }

    fn signal(last: (u64, u64)) -> Signal {
        let (count, ns) = last;
        Signal {
            stalls: None,
            last: Stalled { count, ns },
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
    }

    #[test]
    fn time_alone_is_a_stall_and_nothing_is_none() {
        let mut signal = signal((0, 100));
        assert_eq!(step(&mut signal, Some((0, 250))), (1, 150));
        assert_eq!(step(&mut signal, Some((0, 250))), (0, 0));
    }

    #[test]
    fn without_a_tier_there_are_never_any() {
        let mut none = signal((0, 0));
        assert!(!none.works() && !none.since_last().any());
        assert_eq!(none.name(), "none");
        let faults = Stalls::among(Process::own().unwrap(), &[Tier::MajorFaults]);
        let mut faults = Signal {
            stalls: faults.ok(),
            last: Stalled::default(),
            pid: 1,
        };
        assert!(!faults.is_own());
        assert!(faults.works());
        assert_eq!(faults.name(), Tier::MajorFaults.name());
        assert_eq!(
            faults.since_last().ns,
            0,
            "faults take no time that is told"
        );
        let own = Signal::open();
        assert!(own.is_own());
        assert!(own.works(), "major faults can be read everywhere");
    }
}
