//! States of pages in the holder and in the page cache, for the evidence.

use crate::descriptors;
use crate::locked_files::Holder;
use crate::open_mapped::open_in_time;
use crate::pages::Run;
use crate::refaults::{Cached, Evidence, PageStates, Tracked};
use plimsoll_kernel::clock;
use plimsoll_kernel::mapped::is_listed_as;
use plimsoll_kernel::page_cache;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::FileKey;
use plimsoll_unit::Nanos;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

/// How long files are opened in one round. Each may take as long itself.
pub(super) const OPENING: Nanos = Nanos::seconds(2);
/// The most questions to the page cache in one round, 1 us each: those about halves of runs
/// (`MAX_HALVING`) leave most of them to other files.
const MAX_ASKED: u32 = 16_384;

/// A file that lost pages.
#[derive(Debug)]
enum Asked {
    /// Open.
    Open(OwnedFd),
    /// It did not let itself be opened in time.
    Late,
    /// It cannot be opened, or not for sure, or the page cache does not tell of it.
    Never,
}

/// Files that lost pages, about which the page cache is asked.
#[derive(Debug, Default)]
pub(super) struct Queried {
    files: BTreeMap<FileKey, Asked>,
    /// How many of them are open.
    open: usize,
    left_out: bool,
}

impl Queried {
    /// After a round: closes files that are not followed any more. `left_out` when the page cache could have
    /// been asked about more.
    pub(super) fn end_round(&mut self, evidence: &Evidence, left_out: bool) {
        self.left_out = left_out;
        self.retain(|key, _| evidence.file(key).is_some_and(Tracked::is_mapped));
    }

    /// Closes all files, so that none stays busy without need. They are opened again when they lose pages. A
    /// file that could not be opened is not tried again: a server that does not answer would keep a thread
    /// each time.
    pub(super) fn close(&mut self) {
        self.retain(|_, asked| !matches!(asked, Asked::Open(_)));
    }

    /// Whether the page cache could have been asked about more in the last round.
    pub(super) fn left_out(&self) -> bool {
        self.left_out
    }

    fn retain(&mut self, mut keep: impl FnMut(&FileKey, &Asked) -> bool) {
        self.files.retain(|key, asked| keep(key, asked));
        let open = |asked: &&Asked| matches!(asked, Asked::Open(_));
        self.open = self.files.values().filter(open).count();
    }

    /// Opens a file that is not known yet.
    fn open(&mut self, key: FileKey, file: &Tracked) {
        let Some((pid, addresses)) = file.seen_at.as_ref() else {
            return;
        };
        let asked = match open_in_time(*pid, addresses, key, &file.path) {
            // Where the file system shows it differently, its mappings tell.
            Ok(opened)
                if opened.tells_cached && (opened.certain || is_listed_as(&opened.file, key)) =>
            {
                self.open += 1;
                Asked::Open(opened.file)
            }
            Err(error) if error.is_late() => Asked::Late,
            // That shows nothing of the file, so it is tried again.
            Err(error) if error.is_unasked() => return,
            Ok(_) | Err(_) => Asked::Never,
        };
        self.files.insert(key, asked);
    }

    /// The states for one round.
    pub(super) fn states<'a>(&'a mut self, holder: &'a Holder) -> States<'a> {
        States {
            queried: self,
            holder,
            asked: 0,
            end: clock::now() + OPENING,
            left_out: false,
        }
    }
}

/// For one round.
pub(super) struct States<'a> {
    queried: &'a mut Queried,
    holder: &'a Holder,
    asked: u32,
    /// No file is opened any more from then on, monotonic.
    end: Nanos,
    /// Something was not asked that could have been.
    left_out: bool,
}

impl States<'_> {
    /// Whether something was not asked that could have been.
    pub(super) fn left_out(&self) -> bool {
        self.left_out
    }

    /// Whether there may be one more question, about this file.
    fn may_ask(&self, key: &FileKey) -> bool {
        self.asked < MAX_ASKED
            && match self.queried.files.get(key) {
                Some(asked) => matches!(asked, Asked::Open(_)),
                None => self.queried.open < descriptors::queried() && clock::now() < self.end,
            }
    }
}

impl PageStates for States<'_> {
    fn held(&self, file: FileKey, block: u64) -> u16 {
        self.holder.held(&file).map_or(0, |set| set.of_block(block))
    }

    fn cached(&mut self, key: FileKey, file: &Tracked, run: &Run) -> Cached {
        // A file about which the page cache says nothing costs no question.
        if matches!(self.queried.files.get(&key), Some(Asked::Never)) {
            return Cached::Unknown;
        }
        if !self.may_ask(&key) {
            self.left_out = true;
            return Cached::NotAsked;
        }
        self.asked += 1;
        if !self.queried.files.contains_key(&key) {
            self.queried.open(key, file);
        }
        let Some(Asked::Open(open)) = self.queried.files.get(&key) else {
            return match self.queried.files.get(&key) {
                Some(Asked::Late) => Cached::NotAsked,
                // Opening was not begun.
                None if file.seen_at.is_some() => Cached::NotAsked,
                _ => Cached::Unknown,
            };
        };
        let page = page_size();
        let bytes = run.start.saturating_mul(page)..run.end.saturating_mul(page);
        match page_cache::of(open, Path::new(&file.path), bytes) {
            Ok(found) => Cached::Pages((found.cached / page).0),
            Err(_) => {
                // This kernel does not say, or not us.
                self.queried.open -= 1;
                self.queried.files.insert(key, Asked::Never);
                Cached::Unknown
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;

    fn open() -> Asked {
        Asked::Open(tempfile::tempfile().unwrap().into())
    }

    #[test]
    fn what_is_beyond_the_bounds_is_told_apart_from_what_can_never_be_asked() {
        let (holder, file) = (Holder::default(), Tracked::default());
        let mut queried = Queried {
            files: BTreeMap::from([
                (key(1), open()),
                (key(2), Asked::Late),
                (key(3), Asked::Never),
            ]),
            open: descriptors::queried(),
            left_out: false,
        };
        let ask = |states: &mut States<'_>, inode| states.cached(key(inode), &file, &(0..4));
        let mut states = queried.states(&holder);
        assert_eq!(ask(&mut states, 1), Cached::Pages(0));
        assert_eq!(ask(&mut states, 3), Cached::Unknown);
        assert!(!states.left_out());
        // It did not open in time, and of others as many as may be are open.
        assert_eq!(ask(&mut states, 2), Cached::NotAsked);
        assert_eq!(ask(&mut states, 4), Cached::NotAsked);
        assert!(states.left_out());
        states.asked = MAX_ASKED;
        assert_eq!(ask(&mut states, 1), Cached::NotAsked);
        assert_eq!(ask(&mut states, 3), Cached::Unknown);
        // Those that are open are closed at each choice.
        queried.close();
        assert_eq!((queried.open, queried.files.len()), (0, 2));
        let mut states = queried.states(&holder);
        states.end = Nanos::ZERO;
        assert_eq!(ask(&mut states, 1), Cached::NotAsked);
        assert!(states.left_out());
    }
}
