//! When a program gives memory back.

/// A release that did not help is not repeated before this many times its duration.
const RESTS: u64 = 4;

/// A release of memory that takes its time: until a collection is over. Nanoseconds and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Release {
    at: u64,
    goal: u64,
}

/// The last release that a program did because it was told to. Nanoseconds and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Released {
    at: u64,
    took: u64,
    limit: u64,
}

/// The releases of one program: at most one is under way.
#[derive(Default)]
pub(super) struct Releases {
    next: Option<Release>,
    last: Released,
    /// How long it took last to give back what was asked for, ns.
    reaction: u64,
}

impl Releases {
    /// Whether a release may help now, under this limit: none is under way, and the last one is long ago or
    /// was for a higher limit.
    pub(super) fn may_help(&self, now: u64, limit: u64) -> bool {
        let last = &self.last;
        let rested = now.saturating_sub(last.at) >= last.took.saturating_mul(RESTS);
        self.next.is_none() && (last.at == 0 || rested || limit < last.limit - last.limit / 32)
    }

    /// Memory is to be given back down to `goal` bytes when a collection is over.
    pub(super) fn plan(&mut self, at: u64, goal: u64) {
        self.next = Some(Release { at, goal });
    }

    /// When the next release is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.next.map(|release| release.at)
    }

    /// Takes the release that is due, if one is. Returns its goal.
    pub(super) fn take(&mut self, now: u64) -> Option<u64> {
        let release = self.next.take_if(|release| release.at <= now)?;
        Some(release.goal)
    }

    /// No release is under way any more.
    pub(super) fn cancel(&mut self) {
        self.next = None;
    }

    /// Free memory was enough.
    pub(super) fn at_once(&mut self) {
        self.reaction = 0;
    }

    /// A collection from one time to another was made to give memory back under this limit.
    pub(super) fn paid(&mut self, began: u64, ended: u64, limit: u64) {
        self.reaction = ended - began;
        self.last = Released {
            at: ended,
            took: ended - began,
            limit,
        };
    }

    /// How long it took last to give back what was asked for, ns.
    pub(super) fn reaction(&self) -> u64 {
        self.reaction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_that_did_not_help_is_not_repeated_soon() {
        let mut releases = Releases::default();
        assert!(releases.may_help(1, 3200));
        releases.paid(10, 20, 3200);
        assert!(!releases.may_help(59, 3200) && releases.may_help(60, 3200));
        assert!(releases.may_help(21, 3099), "a lower limit");
        assert_eq!(releases.reaction(), 10);
    }

    #[test]
    fn a_release_is_done_once_when_it_is_due() {
        let mut releases = Releases::default();
        releases.plan(5, 100);
        assert!(!releases.may_help(100, 0));
        assert_eq!((releases.next(), releases.take(4)), (Some(5), None));
        assert_eq!((releases.take(5), releases.take(5)), (Some(100), None));
    }
}
