//! When a program gives memory back.

use plimsoll_unit::{Bytes, Nanos};

/// A release that did not help is not repeated before this many times its duration.
const RESTS: u64 = 4;

/// A release of memory that takes its time: until a collection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Release {
    at: Nanos,
    goal: Bytes,
}

/// The last release that a program did because it was told to.
#[derive(Clone, Copy, Debug, Default)]
struct Released {
    at: Nanos,
    took: Nanos,
    limit: Bytes,
}

/// The releases of one program: at most one is under way.
#[derive(Default)]
pub(super) struct Releases {
    next: Option<Release>,
    last: Released,
    /// How long it took last to give back what was asked for.
    reaction: Nanos,
}

impl Releases {
    /// Whether a release may help now, under this limit: none is under way, and the last one is long ago or
    /// was for a higher limit.
    pub(super) fn may_help(&self, now: Nanos, limit: Bytes) -> bool {
        let last = &self.last;
        let rested = now - last.at >= last.took * RESTS;
        self.next.is_none()
            && (last.at == Nanos::ZERO || rested || limit < last.limit - last.limit / 32)
    }

    /// Memory is to be given back down to `goal` when a collection is over.
    pub(super) fn plan(&mut self, at: Nanos, goal: Bytes) {
        self.next = Some(Release { at, goal });
    }

    /// When the next release is due.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.next.map(|release| release.at)
    }

    /// Takes the release that is due, if one is. Returns its goal.
    pub(super) fn take(&mut self, now: Nanos) -> Option<Bytes> {
        let release = self.next.take_if(|release| release.at <= now)?;
        Some(release.goal)
    }

    /// No release is under way any more.
    pub(super) fn cancel(&mut self) {
        self.next = None;
    }

    /// Free memory was enough.
    pub(super) fn at_once(&mut self) {
        self.reaction = Nanos::ZERO;
    }

    /// A collection from one time to another was made to give memory back under this limit.
    pub(super) fn paid(&mut self, began: Nanos, ended: Nanos, limit: Bytes) {
        self.reaction = ended - began;
        self.last = Released {
            at: ended,
            took: ended - began,
            limit,
        };
    }

    /// How long it took last to give back what was asked for.
    pub(super) fn reaction(&self) -> Nanos {
        self.reaction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_that_did_not_help_is_not_repeated_soon() {
        let mut releases = Releases::default();
        assert!(releases.may_help(Nanos(1), Bytes(3200)));
        releases.paid(Nanos(10), Nanos(20), Bytes(3200));
        assert!(
            !releases.may_help(Nanos(59), Bytes(3200)) && releases.may_help(Nanos(60), Bytes(3200))
        );
        assert!(releases.may_help(Nanos(21), Bytes(3099)), "a lower limit");
        assert_eq!(releases.reaction(), Nanos(10));
    }

    #[test]
    fn a_release_is_done_once_when_it_is_due() {
        let mut releases = Releases::default();
        releases.plan(Nanos(5), Bytes(100));
        assert!(!releases.may_help(Nanos(100), Bytes(0)));
        assert_eq!(
            (releases.next(), releases.take(Nanos(4))),
            (Some(Nanos(5)), None)
        );
        assert_eq!(
            (releases.take(Nanos(5)), releases.take(Nanos(5))),
            (Some(Bytes(100)), None)
        );
    }
}
