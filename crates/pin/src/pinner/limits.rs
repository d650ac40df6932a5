//! Which limits are reached, for people.

use super::{MAX_PASSED, Pinner};
use crate::descriptors;
use crate::limits::{Limit, Reached as Told};
use crate::locked_files::MAX_RUNS;

/// Limits that are reached, as far as they are not known elsewhere.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// In the last round the page cache could have been asked about more.
    pub(super) page_cache: bool,
    /// In the last round more files may not be held than are reported.
    pub(super) files: bool,
    /// Since the last choice more files could not be held than are reported.
    pub(super) failures: bool,
    /// Pages of as many files as this are held, and of more they would be.
    pub(super) held_files: Option<usize>,
    /// As many ranges were chosen as may be held.
    pub(super) ranges: bool,
}

impl Pinner {
    /// The limits that are reached.
    pub(super) fn limits(&self) -> Vec<Told> {
        let mut all: Vec<Told> = self.gather.limits().collect();
        all.extend(self.evidence.limits());
        let mut tell = |limit, is_reached: bool, reason: &dyn Fn() -> String| {
            if is_reached {
                let reason = reason();
                all.push(Told { limit, reason });
            }
        };
        let (groups, watched) = self.domains.count();
        tell(Limit::Groups, watched < groups, &|| {
            let more = if descriptors::groups() < descriptors::MAX_GROUPS {
                "; a higher limit of open files (`ulimit -n`) allows more"
            } else {
                ""
            };
            format!(
                "of {groups} cgroups of the programs only {watched} are watched: nothing is held for \
                 programs in the others{more}"
            )
        });
        tell(Limit::PageCache, self.reached.page_cache, &|| {
            "the page cache could not be asked about all pages that left the page tables: the others do not \
             count as lost"
                .into()
        });
        let held = self.reached.held_files;
        tell(Limit::HeldFiles, held.is_some(), &|| {
            let most = held.unwrap_or_default();
            crate::PinError::TooManyFiles { most }.to_string()
        });
        tell(Limit::Ranges, self.reached.ranges, &|| {
            format!(
                "{MAX_RUNS} ranges are chosen, which is the most: the smallest gaps between them are held \
                 too, or those that are worth least are left out"
            )
        });
        let told = self.gather.count_passed() + self.failed.len() + self.passed.len();
        let more = self.reached.files || self.reached.failures || told > MAX_PASSED;
        tell(Limit::Passed, more, &|| {
            format!("more is passed over than the {MAX_PASSED} files and processes that are listed")
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::PinError;
    use crate::{Options, Programs, key};

    fn pinner() -> Pinner {
        Pinner::new(Options::default(), Programs::Processes(Vec::new()), 0).unwrap()
    }

    fn which(pinner: &Pinner) -> Vec<Limit> {
        pinner.limits().iter().map(|told| told.limit).collect()
    }

    #[test]
    fn each_limit_is_told_once_it_is_reached() {
        let mut pinner = pinner();
        assert_eq!(which(&pinner), []);
        pinner.reached = Reached {
            page_cache: true,
            ranges: true,
            ..Reached::default()
        };
        assert_eq!(which(&pinner), [Limit::PageCache, Limit::Ranges]);
        assert!(!pinner.report(0).truncated, "all is followed");
    }

    #[test]
    fn files_beyond_those_that_may_be_held_are_told_of_once() {
        let mut pinner = pinner();
        let failures = |inodes: std::ops::Range<u64>| {
            let failure = |inode| (key(inode), PinError::TooManyFiles { most: 3 });
            inodes.map(failure).collect::<Vec<_>>()
        };
        pinner.note_failures(failures(0..200));
        pinner.note_failures(failures(200..300));
        assert_eq!(which(&pinner), [Limit::HeldFiles]);
        assert_eq!(pinner.passed().len(), 1);
        assert_eq!(pinner.passed()[0].reason, pinner.limits()[0].reason);
    }

    #[test]
    fn that_more_is_passed_over_than_is_listed_is_told() {
        let mut pinner = pinner();
        let failure = |inode| {
            let path = format!("/{inode}");
            (key(inode), PinError::NotAFile { path })
        };
        pinner.note_failures((0..64).map(failure).collect());
        assert_eq!(
            (pinner.passed().len(), which(&pinner)),
            (MAX_PASSED, vec![])
        );
        pinner.note_failures(vec![failure(7)]);
        assert_eq!(which(&pinner), []);
        pinner.note_failures(vec![failure(64)]);
        assert_eq!(which(&pinner), [Limit::Passed]);
        assert_eq!(pinner.passed().len(), MAX_PASSED);
    }
}
