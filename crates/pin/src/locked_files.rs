//! Holding: files open and mapped by this process, and the runs of pages that are locked in them.
//!
//! 1. [`Holder::want`]: which pages are to be held. Pages that are not wanted any more are released at once.
//! 2. [`Holder::work`]: locks wanted pages, until a time. Called again until nothing is left to do.
//! 3. [`Holder::check`], now and then: files that became shorter. [`Holder::find_lost`], before each
//!    choice: pages that left the file meanwhile.
//! 4. [`Holder::release`], [`Holder::shrink`], [`Holder::want_at_most`]: at any time.
//!
//! The locked bytes never exceed the allowance given to `work`, not even for a moment: pages are
//! released before others are locked. Pages are locked by `mlock` of exactly their range, not with
//! `MLOCK_ONFAULT`: that locks pages when the process that asked touches them, and we never do.

use crate::descriptors;
use crate::error::PinError;
use crate::open_mapped::Opened;
use crate::pages::{PageSet, Run};
use plimsoll_kernel::clock;
use plimsoll_kernel::mapped::is_mapped_as;
use plimsoll_kernel::pages::PageMap;
use plimsoll_kernel::pin::FileMapping;
use plimsoll_kernel::process::{Process, page_size};
use plimsoll_kernel::smaps::FileKey;
use plimsoll_unit::{Bytes, Nanos};
use rustix::fs::fstat;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of a file that one mapping covers. They cost address space only.
const WINDOW: u64 = 256 << 20;
/// The most bytes that are locked in one call, so that a slow disk is noticed in between.
const PIECE: u64 = 1 << 20;
/// The most runs that are held: each may take two mappings of the 65,530 of a process.
pub const MAX_RUNS: usize = 16_384;

/// Opens a file; also returns its path, for messages.
pub type Open<'a> = dyn FnMut(&FileKey) -> Result<(Opened, String), PinError> + 'a;

/// A file with held pages.
#[derive(Debug)]
struct HeldFile {
    file: OwnedFd,
    path: String,
    /// By number of the window.
    windows: BTreeMap<u64, FileMapping>,
    wanted: PageSet,
    held: PageSet,
    /// Wanted pages that the kernel was asked to read ahead of locking.
    asked: bool,
    /// Not tried again until it is wanted anew.
    failed: bool,
}

/// Everything that is held.
#[derive(Debug, Default)]
pub struct Holder {
    files: BTreeMap<FileKey, HeldFile>,
    pages: u64,
}

impl Holder {
    /// How much is held.
    pub fn bytes(&self) -> Bytes {
        Bytes(page_size()) * self.pages
    }

    /// The files with held or wanted pages.
    pub fn files(&self) -> impl Iterator<Item = (&FileKey, &PageSet)> {
        self.files.iter().map(|(key, file)| (key, &file.held))
    }

    /// Which pages of a file are held.
    pub fn held(&self, key: &FileKey) -> Option<&PageSet> {
        self.files.get(key).map(|file| &file.held)
    }

    /// Which pages of a file are wanted: held, or to be.
    pub fn wanted(&self, key: &FileKey) -> Option<&PageSet> {
        self.files.get(key).map(|file| &file.wanted)
    }

    /// An open descriptor of a file that is held.
    pub fn descriptor(&self, key: &FileKey) -> Option<BorrowedFd<'_>> {
        self.files.get(key).map(|file| file.file.as_fd())
    }

    /// Releases what is not wanted, and notes what is. Files are opened by `open`, given their path.
    /// Returns why some cannot be held.
    pub fn want(
        &mut self,
        wanted: BTreeMap<FileKey, PageSet>,
        open: &mut Open<'_>,
    ) -> Vec<(FileKey, PinError)> {
        let mut failures = Vec::new();
        let most = descriptors::held();
        let left: Vec<FileKey> = self.files.keys().copied().collect();
        for key in left.iter().filter(|key| !wanted.contains_key(key)) {
            self.release(key);
        }
        for (key, pages) in wanted {
            if !self.files.contains_key(&key) {
                if self.files.len() >= most {
                    failures.push((key, PinError::TooManyFiles { most }));
                    continue;
                }
                match open(&key).and_then(|(opened, path)| held_file(opened, path, key)) {
                    Ok(file) => self.files.insert(key, file),
                    Err(error) => {
                        failures.push((key, error));
                        continue;
                    }
                };
            }
            let Some(file) = self.files.get_mut(&key) else {
                continue;
            };
            let surplus = file.held.without(&pages);
            self.pages -= file.unlock(&surplus);
            file.wanted = file.within_size(pages);
            (file.asked, file.failed) = (false, false);
        }
        failures
    }

    /// Locks wanted pages until a time (monotonic), and never more than `allowance` in all. Returns whether
    /// nothing is left to do, and what failed.
    pub fn work(&mut self, allowance: Bytes, until: Nanos) -> (bool, Vec<(FileKey, PinError)>) {
        let mut failures = Vec::new();
        let most = allowance.0 / page_size();
        for (key, file) in &mut self.files {
            let missing = file.missing();
            if missing.is_empty() || file.failed {
                continue;
            }
            if !std::mem::replace(&mut file.asked, true) {
                file.read_ahead(&missing);
            }
            for piece in missing.runs().iter().flat_map(pieces) {
                let room = most.saturating_sub(self.pages);
                if room == 0 {
                    return (true, failures);
                }
                if clock::now() >= until {
                    return (false, failures);
                }
                let piece = piece.start..piece.end.min(piece.start + room);
                match file.lock(&piece) {
                    Ok(()) => self.pages += piece.end - piece.start,
                    Err(error) => {
                        file.failed = true;
                        failures.push((*key, error));
                        break;
                    }
                }
            }
        }
        (true, failures)
    }

    /// Releases what lies beyond the ends of files that became shorter. Returns how many pages.
    pub fn check(&mut self) -> u64 {
        let mut released = 0;
        for file in self.files.values_mut() {
            let within = file.within_size(file.held.clone());
            let beyond = file.held.without(&within);
            if !beyond.is_empty() {
                released += file.unlock(&beyond);
                file.wanted = file.within_size(file.wanted.clone());
            }
        }
        self.pages -= released;
        released
    }

    /// Finds pages that are locked but not there: somebody cut the file, or made a hole in it, and wrote
    /// it again. They count as missing from now on, so that they are locked anew. Returns how many.
    pub fn find_lost(&mut self) -> u64 {
        let Ok(map) = Process::own().and_then(|own| PageMap::open(&own)) else {
            return 0;
        };
        let mut lost = 0;
        for file in self.files.values_mut() {
            lost += file.find_lost(&map);
        }
        self.pages -= lost;
        lost
    }

    /// Releases all pages of a file and closes it.
    pub fn release(&mut self, key: &FileKey) {
        if let Some(file) = self.files.remove(key) {
            self.pages -= file.held.pages();
        }
    }

    /// Releases everything.
    pub fn release_all(&mut self) {
        self.files.clear();
        self.pages = 0;
    }

    /// Releases pages until at most `bytes` are held, and wants no more of them: first those that
    /// come first in `worst_first`.
    pub fn shrink(&mut self, bytes: Bytes, worst_first: &[(FileKey, Run)]) {
        let most = bytes.0 / page_size();
        for (key, run) in worst_first {
            let surplus = self.pages.saturating_sub(most);
            if surplus == 0 {
                return;
            }
            let Some(file) = self.files.get_mut(key) else {
                continue;
            };
            let beyond = PageSet::of(vec![run.clone()]);
            let rest = file.held.without(&beyond);
            let within = file.held.without(&rest);
            self.pages -= file.unlock(&within);
            file.wanted = file.wanted.without(&within);
        }
        // Pages without a place in the order go last.
        while self.pages > most {
            let Some(key) = self.files.keys().next_back().copied() else {
                return;
            };
            self.release(&key);
        }
    }

    /// Wants at most `bytes` of these files in all: gives up pages that are wanted and not held yet, from
    /// the end. Held pages stay. Returns whether there was anything to give up.
    pub fn want_at_most(&mut self, bytes: Bytes, keys: &[FileKey]) -> bool {
        let wanted = |key: &FileKey| self.wanted(key).map_or(0, PageSet::pages);
        let all: u64 = keys.iter().map(wanted).sum();
        let mut surplus = all.saturating_sub(bytes.0 / page_size());
        let before = surplus;
        for key in keys.iter().rev() {
            let Some(file) = self.files.get_mut(key).filter(|_| surplus > 0) else {
                continue;
            };
            for run in file.missing().runs().iter().rev() {
                let start = run.start.max(run.end.saturating_sub(surplus));
                file.wanted.remove(&(start..run.end));
                surplus -= run.end - start;
            }
        }
        surplus < before
    }
}

/// A run in pieces of at most a call's length that do not cross windows.
fn pieces(run: &Run) -> impl Iterator<Item = Run> {
    let (piece, window) = (PIECE / page_size(), WINDOW / page_size());
    let (mut at, end) = (run.start, run.end);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let boundary = (at / window + 1).saturating_mul(window);
        let to = end.min(boundary).min(at + piece);
        let next = at..to;
        at = to;
        Some(next)
    })
}

/// Takes in an open file, after a check that it is the one that was asked for.
fn held_file(opened: Opened, path: String, key: FileKey) -> Result<HeldFile, PinError> {
    let mut file = HeldFile {
        file: opened.file,
        path,
        windows: BTreeMap::new(),
        wanted: PageSet::default(),
        held: PageSet::default(),
        asked: false,
        failed: false,
    };
    if !opened.certain && !is_mapped_as(file.window(0)?, key) {
        return Err(PinError::Replaced {
            path: file.path,
            key,
        });
    }
    Ok(file)
}

impl HeldFile {
    fn missing(&self) -> PageSet {
        self.wanted.without(&self.held)
    }

    /// Those of the pages that the file has now. A file that cannot be asked has none.
    fn within_size(&self, mut pages: PageSet) -> PageSet {
        let size = fstat(&self.file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        pages.remove(&(size.div_ceil(page_size())..u64::MAX));
        pages
    }

    /// The mapping of a window of the file.
    fn window(&mut self, number: u64) -> Result<&FileMapping, PinError> {
        use std::collections::btree_map::Entry;
        match self.windows.entry(number) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                let offset = number.saturating_mul(WINDOW);
                match FileMapping::new(&self.file, offset, Bytes(WINDOW)) {
                    Ok(mapping) => Ok(vacant.insert(mapping)),
                    Err(source) => Err(PinError::Lock {
                        path: self.path.clone(),
                        doing: "mapping",
                        bytes: WINDOW,
                        source,
                        hint: "",
                    }),
                }
            }
        }
    }

    /// Has the kernel begin to read the pages, so that locking them waits less.
    fn read_ahead(&mut self, pages: &PageSet) {
        for piece in pages.runs().iter().flat_map(pieces) {
            let bytes = bytes_of(&piece);
            if let Ok(window) = self.window(bytes.start / WINDOW) {
                // Locking reads what this did not.
                let _ = window.will_need(&bytes);
            }
        }
    }

    /// Takes those of the held pages that are not in our page tables for missing; returns how many.
    fn find_lost(&mut self, map: &PageMap) -> u64 {
        let page = page_size();
        let mut there = Vec::new();
        for (number, window) in &self.windows {
            let whole = whole_window(*number);
            let start = window.addresses().start;
            let present = map.each_run(&window.addresses(), &mut |run| {
                let pages = |address: u64| whole.start + (address - start) / page;
                there.push(pages(run.addresses.start)..pages(run.addresses.end));
                true
            });
            if present.is_err() {
                return 0;
            }
        }
        // A page that the kernel moves at the moment looks swapped.
        let there = PageSet::of(there);
        let lost = self.held.without(&there);
        let unlocked = self.unlock(&lost);
        if unlocked > 0 {
            self.asked = false;
        }
        unlocked
    }

    /// Locks a piece that lies in one window.
    fn lock(&mut self, piece: &Run) -> Result<(), PinError> {
        let bytes = bytes_of(piece);
        let locked = self.window(bytes.start / WINDOW)?.lock(&bytes);
        match locked {
            Ok(()) => {
                self.held.add(piece.clone());
                Ok(())
            }
            Err(source) => Err(PinError::Lock {
                path: self.path.clone(),
                doing: "locking",
                bytes: bytes.end - bytes.start,
                hint: hint(&source),
                source,
            }),
        }
    }

    /// Unlocks pages that are held; returns how many.
    fn unlock(&mut self, pages: &PageSet) -> u64 {
        let mut unlocked = 0;
        for piece in pages.runs().iter().flat_map(pieces) {
            let bytes = bytes_of(&piece);
            let number = bytes.start / WINDOW;
            let done = self
                .windows
                .get(&number)
                .map(|window| window.unlock(&bytes));
            if let Some(Err(_)) = done {
                // Too many mappings to take a piece out of one. Then the whole window goes, which
                // takes no mapping.
                self.windows.remove(&number);
                let window = PageSet::of(vec![whole_window(number)]);
                let kept = self.held.without(&window);
                unlocked += self.held.pages() - kept.pages();
                self.held = kept;
                continue;
            }
            let before = self.held.pages();
            self.held.remove(&piece);
            unlocked += before - self.held.pages();
        }
        self.windows.retain(|number, _| {
            let window = whole_window(*number);
            self.held
                .runs()
                .iter()
                .any(|run| run.start < window.end && run.end > window.start)
        });
        unlocked
    }
}

fn bytes_of(run: &Run) -> std::ops::Range<u64> {
    let page = page_size();
    run.start.saturating_mul(page)..run.end.saturating_mul(page)
}

/// The pages of a window.
fn whole_window(number: u64) -> Run {
    let pages = WINDOW / page_size();
    number.saturating_mul(pages)..number.saturating_add(1).saturating_mul(pages)
}

/// Advice about a failure.
fn hint(error: &std::io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::NOMEM | Errno::PERM) => {
            "; the file became shorter, or this process may lock no more (`ulimit -l`, \
             CAP_IPC_LOCK) or have no more mappings (vm.max_map_count)"
        }
        Some(Errno::AGAIN) => "; memory is short",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;

    const FOREVER: Nanos = Nanos(u64::MAX);

    fn file(pages: u64) -> Opened {
        let file = tempfile::tempfile().unwrap();
        file.set_len(pages * page_size()).unwrap();
        Opened {
            file: file.into(),
            certain: true,
            tells_cached: true,
        }
    }

    #[test]
    fn files_that_may_have_less_are_not_filled_up_again() {
        let page = Bytes(page_size());
        let (one, two, other) = (key(1), key(2), key(3));
        let mut holder = Holder::default();
        let whole = PageSet::of(vec![0..20, 30..60]);
        let wanted = [one, two, other].map(|key| (key, whole.clone()));
        let failures = holder.want(BTreeMap::from(wanted), &mut |_| {
            Ok((file(64), String::new()))
        });
        assert!(failures.is_empty(), "{failures:?}");
        let (_, failures) = holder.work(page * 30, FOREVER);
        if !failures.is_empty() {
            return;
        }
        assert_eq!(holder.held(&one).unwrap().runs(), [0..20, 30..40]);
        // Together they may have 60 pages: the second gives up 40 of its 50.
        holder.want_at_most(page * 60, &[one, two]);
        assert_eq!(holder.wanted(&one), Some(&whole));
        assert_eq!(holder.wanted(&two).unwrap().runs(), [0..10]);
        // Less than is held: nothing more is locked, and nothing released here.
        holder.want_at_most(page * 10, &[one, two]);
        holder.shrink(page * 10, &[(one, 20..60), (one, 10..20)]);
        for _ in 0..3 {
            let (done, failures) = holder.work(Bytes::MAX, FOREVER);
            assert!(done && failures.is_empty(), "{failures:?}");
            assert_eq!(
                holder.held(&one).unwrap().runs(),
                std::slice::from_ref(&(0..10))
            );
            assert!(holder.held(&two).unwrap().is_empty());
        }
        // Files of others are locked as before.
        assert_eq!(holder.held(&other), Some(&whole));
        assert_eq!(holder.bytes(), page * 60);
    }
}
