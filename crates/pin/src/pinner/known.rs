//! What the holder and the page cache know of pages, for the evidence.

use crate::descriptors;
use crate::evidence::{Beside, Evidence, Tracked};
use crate::hold::Holder;
use crate::pages::Run;
use crate::source::{Opened, open_in_time};
use plimsoll_kernel::clock::now_ns;
use plimsoll_kernel::mapped::is_listed_as;
use plimsoll_kernel::page_cache;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::FileKey;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::OwnedFd;
use std::path::Path;

/// How long files are opened in one round, ns. Each may take as long itself.
pub(super) const OPENING: u64 = 2_000_000_000;
/// The most questions to the page cache in one round, 1 us each: those about halves of runs
/// (`MAX_HALVING`) leave most of them to other files.
const MAX_ASKED: u32 = 16_384;

/// Files that lost pages, open. `None` where one cannot be opened, or not for sure, or where the page
/// cache does not tell of it.
#[derive(Debug, Default)]
pub(super) struct Known {
    open: BTreeMap<FileKey, Option<OwnedFd>>,
}

impl Known {
    /// Closes files that are not followed any more.
    pub(super) fn tidy(&mut self, evidence: &Evidence) {
        self.open
            .retain(|key, _| evidence.file(key).is_some_and(Tracked::is_mapped));
    }

    /// Closes all, so that nothing stays busy that nobody asks about. They are opened again when they lose
    /// pages. What could not be opened is not tried again: a server that does not answer would keep a thread
    /// each time.
    pub(super) fn close(&mut self) {
        self.open.retain(|_, open| open.is_none());
    }

    pub(super) fn beside<'a>(&'a mut self, holder: &'a Holder) -> World<'a> {
        World {
            known: self,
            holder,
            asked: 0,
            end_ns: now_ns().saturating_add(OPENING),
        }
    }
}

/// For one round.
pub(super) struct World<'a> {
    known: &'a mut Known,
    holder: &'a Holder,
    asked: u32,
    /// No file is opened any more from then on, monotonic ns.
    end_ns: u64,
}

impl Beside for World<'_> {
    fn held(&self, file: FileKey, block: u64) -> u16 {
        self.holder.held(&file).map_or(0, |set| set.of_block(block))
    }

    fn cached(&mut self, key: FileKey, file: &Tracked, run: &Run) -> Option<u64> {
        self.asked += 1;
        let late = now_ns() >= self.end_ns && !self.known.open.contains_key(&key);
        let most = descriptors::asked();
        let full = self.known.open.len() >= most && !self.known.open.contains_key(&key);
        if self.asked > MAX_ASKED || full || late {
            return None;
        }
        if let Entry::Vacant(entry) = self.known.open.entry(key) {
            let opened = file
                .seen_at
                .as_ref()
                .map(|(pid, addresses)| open_in_time(*pid, addresses, key, &file.path));
            // That tells nothing of the file, so it is tried again.
            if matches!(&opened, Some(Err(error)) if error.is_unasked()) {
                return None;
            }
            // Where the file system shows it differently, its mappings tell.
            let is_it = |opened: &Opened| opened.certain || is_listed_as(&opened.file, key);
            let opened = opened.and_then(Result::ok);
            let told = opened.filter(|opened| opened.tells_cached && is_it(opened));
            entry.insert(told.map(|opened| opened.file));
        }
        let open = self.known.open.get(&key)?;
        let page = page_size();
        let bytes = run.start.saturating_mul(page)..run.end.saturating_mul(page);
        let found = page_cache::of(open.as_ref()?, Path::new(&file.path), bytes).ok()?;
        Some(found.cached / page)
    }
}
