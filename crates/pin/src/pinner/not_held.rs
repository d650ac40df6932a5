//! Files that are not held, and why.

use crate::error::PinError;
use plimsoll_kernel::smaps::FileKey;
use plimsoll_unit::Nanos;
use std::collections::BTreeMap;

/// The most things that are passed over and reported.
pub(super) const MAX_PASSED: usize = 64;
/// How long a file is left alone that did not let itself be opened in time, and the most such files.
const LATE: Nanos = Nanos::seconds(600);
const MAX_LATE: usize = 256;

/// Files and why they are not held, up to a bound.
#[derive(Debug, Default)]
struct Reasons {
    of_file: BTreeMap<FileKey, String>,
    /// There were more.
    more: bool,
}

impl Reasons {
    fn add(&mut self, errors: Vec<(FileKey, PinError)>) {
        for (key, error) in errors {
            if self.of_file.len() < MAX_PASSED || self.of_file.contains_key(&key) {
                self.of_file.insert(key, error.to_string());
            } else {
                self.more = true;
            }
        }
    }

    fn clear(&mut self) {
        self.of_file.clear();
        self.more = false;
    }
}

/// Files that are not held, and why.
#[derive(Debug, Default)]
pub(super) struct NotHeld {
    /// They may not be held: found in the last round.
    barred: Reasons,
    /// They could not be held: since the last choice.
    failed: Reasons,
    /// Pages of as many files as this are held, and of more they would be.
    most_files: Option<usize>,
    /// They did not let themselves be opened in time, and until when they are left alone: each try costs
    /// a thread, and threads are few.
    late: BTreeMap<FileKey, Nanos>,
}

impl NotHeld {
    /// Takes in the files that a round found unfit; `more` when it found more than it returned.
    pub(super) fn end_round(&mut self, barred: Vec<(FileKey, PinError)>, more: bool) {
        self.barred.clear();
        self.barred.add(barred);
        self.barred.more |= more;
    }

    /// Forgets failures: all files are tried anew.
    pub(super) fn begin_choice(&mut self) {
        self.failed.clear();
        self.most_files = None;
    }

    /// Records why files cannot be held. If there are too many, only one of them says so.
    pub(super) fn add_failures(&mut self, mut failures: Vec<(FileKey, PinError)>) {
        failures.retain(|(_, error)| match error {
            PinError::TooManyFiles { most } => self.most_files.replace(*most).is_none(),
            _ => true,
        });
        self.failed.add(failures);
    }

    /// Why, for each file that is reported.
    pub(super) fn reasons(&self) -> impl Iterator<Item = &String> {
        let failed = self.failed.of_file.values();
        failed.chain(self.barred.of_file.values())
    }

    /// The number of [`NotHeld::reasons`].
    pub(super) fn count(&self) -> usize {
        self.failed.of_file.len() + self.barred.of_file.len()
    }

    /// Whether there are more files than are reported.
    pub(super) fn has_more(&self) -> bool {
        self.failed.more || self.barred.more
    }

    /// How many files are held, if that is the most, and more would be.
    pub(super) fn most_files(&self) -> Option<usize> {
        self.most_files
    }

    /// Forgets who was late long ago.
    pub(super) fn tidy_late(&mut self, now: Nanos) {
        self.late.retain(|_, until| *until > now);
    }

    /// Whether a file was late and is left alone.
    pub(super) fn is_late(&self, key: &FileKey) -> bool {
        self.late.contains_key(key)
    }

    /// Leaves a file alone for a while that was late now.
    pub(super) fn set_late(&mut self, key: FileKey, now: Nanos) {
        if self.late.len() < MAX_LATE {
            self.late.insert(key, now + LATE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;

    #[test]
    fn a_file_that_was_late_is_left_alone_for_a_while() {
        let mut files = NotHeld::default();
        files.set_late(key(1), Nanos::seconds(1));
        files.tidy_late(Nanos::seconds(600));
        assert!(files.is_late(&key(1)) && !files.is_late(&key(2)));
        files.tidy_late(Nanos::seconds(601));
        assert!(!files.is_late(&key(1)));
        (0..1000).for_each(|inode| files.set_late(key(inode), Nanos::ZERO));
        assert!(files.is_late(&key(0)) && !files.is_late(&key(999)));
    }
}
