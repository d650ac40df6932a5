//! Which limits are reached, for people.

use super::Pinner;
use super::not_held::MAX_PASSED;
use crate::descriptors;
use crate::limits::{Limit, Reached};
use crate::locked_files::MAX_RUNS;

impl Pinner {
    /// The limits that are reached.
    pub(super) fn limits(&self) -> Vec<Reached> {
        let mut all: Vec<Reached> = self.gather.limits().collect();
        all.extend(self.evidence.limits());
        let mut tell = |limit, is_reached: bool, reason: &dyn Fn() -> String| {
            if is_reached {
                let reason = reason();
                all.push(Reached { limit, reason });
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
        tell(Limit::PageCache, self.queried.left_out(), &|| {
            "the page cache could not be asked about all pages that left the page tables: the others do not \
             count as lost"
                .into()
        });
        let held = self.not_held.most_files();
        tell(Limit::HeldFiles, held.is_some(), &|| {
            let most = held.unwrap_or_default();
            crate::PinError::TooManyFiles { most }.to_string()
        });
        tell(Limit::Ranges, self.choices.most_ranges(), &|| {
            format!(
                "{MAX_RUNS} ranges are chosen, which is the most: the smallest gaps between them are held \
                 too, or those that are worth least are left out"
            )
        });
        let told = self.gather.count_passed() + self.not_held.count();
        let more = self.not_held.has_more() || told > MAX_PASSED;
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
    use plimsoll_unit::Nanos;

    fn pinner() -> Pinner {
        Pinner::new(
            Options::default(),
            Programs::Processes(Vec::new()),
            Nanos::ZERO,
        )
        .unwrap()
    }

    fn which(pinner: &Pinner) -> Vec<Limit> {
        pinner.limits().iter().map(|told| told.limit).collect()
    }

    #[test]
    fn each_limit_is_told_once_it_is_reached() {
        let mut pinner = pinner();
        assert_eq!(which(&pinner), []);
        pinner.queried.end_round(&pinner.evidence, true);
        pinner.choices.made(MAX_RUNS, 0.0);
        assert_eq!(which(&pinner), [Limit::PageCache, Limit::Ranges]);
        assert!(!pinner.report(Nanos::ZERO).truncated, "all is followed");
    }

    #[test]
    fn files_beyond_those_that_may_be_held_are_told_of_once() {
        let mut pinner = pinner();
        let failures = |inodes: std::ops::Range<u64>| {
            let failure = |inode| (key(inode), PinError::TooManyFiles { most: 3 });
            inodes.map(failure).collect::<Vec<_>>()
        };
        pinner.not_held.add_failures(failures(0..200));
        pinner.not_held.add_failures(failures(200..300));
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
        pinner.not_held.add_failures((0..64).map(failure).collect());
        assert_eq!(
            (pinner.passed().len(), which(&pinner)),
            (MAX_PASSED, vec![])
        );
        pinner.not_held.add_failures(vec![failure(7)]);
        assert_eq!(which(&pinner), []);
        pinner.not_held.add_failures(vec![failure(64)]);
        assert_eq!(which(&pinner), [Limit::Passed]);
        assert_eq!(pinner.passed().len(), MAX_PASSED);
    }
}
