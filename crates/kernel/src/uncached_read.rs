//! Reads a file and leaves the page cache as it was. A reader of a file takes no memory from
//! others then, and finds the same pages there when it looks again.
//!
//! Nothing is read ahead. Before each read the page cache is asked which of the pages are there
//! ([`page_cache`]); the others are dropped again. The kernel drops no page that somebody has mapped
//! meanwhile. It does forget when it had evicted the dropped ones. Where the page cache does not say
//! (an overlay, Linux before 6.5, files of others since 6.14), and on file systems that have no disk
//! (tmpfs), what was read stays in memory as after any read.
//! Source: `posix_fadvise(2)`; kernel source `mm/fadvise.c`, `mm/truncate.c` (`mapping_evict_folio`).

use crate::page_cache::{self, tells_of};
use crate::process::page_size;
use plimsoll_unit::Bytes;
use rustix::fs::{Advice, fadvise};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are read at a time, and that may be in the page cache for us before they are dropped.
const MOST: usize = 4 << 20;

/// An open file that is read so. The pages that were read for us are dropped with this, or earlier if they
/// are many: a part that is read twice in a row is read from the disk once.
#[derive(Debug)]
pub struct QuietFile {
    file: File,
    /// Whether the page cache shows which pages are there.
    is_told: Cell<bool>,
    /// Numbers of the pages that were asked about last: who reads word by word asks once a page.
    asked: RefCell<Range<u64>>,
    /// Numbers of pages that were not there before we read them.
    brought: RefCell<Vec<Range<u64>>>,
}

impl QuietFile {
    /// Reads by a descriptor that nobody shares: the kernel is asked to read nothing ahead of it.
    pub fn new(descriptor: OwnedFd) -> QuietFile {
        let file = File::from(descriptor);
        // Where this is refused, more may be read than is asked for.
        let _ = fadvise(&file, 0, None, Advice::Random);
        QuietFile {
            is_told: Cell::new(tells_of(&file)),
            file,
            asked: RefCell::default(),
            brought: RefCell::default(),
        }
    }

    /// How long the file is, bytes.
    ///
    /// # Errors
    /// As `fstat(2)`.
    pub fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Fills `into` from byte `at` of the file.
    ///
    /// # Errors
    /// As [`FileExt::read_exact_at`].
    pub fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        let mut at = at;
        for piece in into.chunks_mut(MOST) {
            let end = at.saturating_add(piece.len() as u64);
            self.check_cache(at / page_size()..end.div_ceil(page_size()));
            self.file.read_exact_at(piece, at)?;
            let brought = self.brought.borrow().iter().map(count).sum::<u64>();
            if brought.saturating_mul(page_size()) >= MOST as u64 {
                self.restore();
            }
            at = end;
        }
        Ok(())
    }

    /// Finds out what of these pages a read brings in.
    fn check_cache(&self, pages: Range<u64>) {
        let mut asked = self.asked.borrow_mut();
        let is_known = asked.start <= pages.start && pages.end <= asked.end;
        if self.is_told.get() && !is_known {
            // Where it does not tell once, it never does.
            self.is_told.set(self.find_absent(pages.clone()).is_ok());
            *asked = pages;
        }
    }

    /// Remembers which pages are not in the page cache. One question where all or none are there.
    fn find_absent(&self, pages: Range<u64>) -> crate::Result<()> {
        let bytes = |pages: u64| pages.saturating_mul(page_size());
        let part = bytes(pages.start)..bytes(pages.end);
        let there = page_cache::of(&self.file, Path::new("a file that is read"), part)?.cached;
        if there >= Bytes(bytes(count(&pages))) {
            return Ok(());
        }
        if there == Bytes::ZERO || count(&pages) == 1 {
            self.brought.borrow_mut().push(pages);
            return Ok(());
        }
        let middle = pages.start + count(&pages) / 2;
        self.find_absent(pages.start..middle)?;
        self.find_absent(middle..pages.end)
    }

    /// Drops the pages that were brought in.
    fn restore(&self) {
        self.asked.take();
        let mut brought = self.brought.take();
        brought.sort_by_key(|pages| pages.start);
        brought.dedup_by(|next, last| {
            let adjoins = next.start <= last.end;
            if adjoins {
                last.end = last.end.max(next.end);
            }
            adjoins
        });
        for pages in brought {
            let bytes = NonZeroU64::new(count(&pages).saturating_mul(page_size()));
            let start = pages.start.saturating_mul(page_size());
            // Where this is refused, they stay until the kernel needs their memory.
            let _ = fadvise(&self.file, start, bytes, Advice::DontNeed);
        }
    }
}

impl Drop for QuietFile {
    fn drop(&mut self) {
        self.restore();
    }
}

fn count(pages: &Range<u64>) -> u64 {
    pages.end.saturating_sub(pages.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pin::FileMapping;
    use plimsoll_testbed::skip;
    use std::io::Write;
    use tempfile::NamedTempFile;

    const PATH: &str = "a file of this test";

    /// A file of this many pages. None is in the page cache.
    fn evicted(pages: u64) -> Option<NamedTempFile> {
        // Beside the tests, which are seldom in a file system without a disk.
        let own = std::env::current_exe().unwrap();
        let mut file = NamedTempFile::new_in(own.parent().unwrap()).unwrap();
        for page in 0..pages {
            file.write_all(&vec![page as u8; page_size() as usize])
                .unwrap();
        }
        file.as_file().sync_all().unwrap();
        fadvise(file.as_file(), 0, None, Advice::DontNeed).unwrap();
        let all = 0..pages * page_size();
        let told = tells_of(&file).then(|| page_cache::of(&file, Path::new(PATH), all));
        match told {
            Some(Ok(cached)) if cached.cached == Bytes(0) => Some(file),
            other => {
                skip(format_args!(
                    "no file beside the tests can leave the page cache: {other:?}"
                ));
                None
            }
        }
    }

    fn quiet(file: &NamedTempFile) -> QuietFile {
        QuietFile::new(file.reopen().unwrap().into())
    }

    /// Numbers of the pages that are in the page cache.
    fn cached(file: &NamedTempFile) -> Vec<u64> {
        let pages = file.as_file().metadata().unwrap().len() / page_size();
        let is_there = |page: &u64| {
            let part = page * page_size()..(page + 1) * page_size();
            page_cache::of(file, Path::new(PATH), part).unwrap().cached > Bytes(0)
        };
        (0..pages).filter(is_there).collect()
    }

    fn read(file: &QuietFile, bytes: Range<u64>) {
        let mut into = vec![0xff; (bytes.end - bytes.start) as usize];
        file.read_exact_at(&mut into, bytes.start).unwrap();
        for (at, byte) in (bytes.start..).zip(into) {
            assert_eq!(byte, (at / page_size()) as u8);
        }
    }

    #[test]
    fn what_was_read_is_dropped_and_nothing_is_read_ahead() {
        let Some(file) = evicted(64) else { return };
        let page = page_size();
        let reader = quiet(&file);
        read(&reader, 10 * page + 7..10 * page + 15);
        assert_eq!(cached(&file), [10]);
        read(&reader, 10 * page - 1..10 * page + 1);
        assert_eq!(cached(&file), [9, 10]);
        read(&reader, 0..64 * page);
        assert_eq!(cached(&file).len(), 64);
        assert!(reader.read_exact_at(&mut [0; 8], 64 * page).is_err());
        assert!(reader.read_exact_at(&mut [0; 8], u64::MAX - 3).is_err());
        drop(reader);
        assert!(cached(&file).is_empty());
    }

    #[test]
    fn what_was_there_before_stays() {
        let Some(file) = evicted(64) else { return };
        let page = page_size();
        let other = file.reopen().unwrap();
        fadvise(&other, 0, None, Advice::Random).unwrap();
        for number in [0, 3, 10, 11, 12, 40, 63] {
            other.read_exact_at(&mut [0; 8], number * page).unwrap();
        }
        let before = cached(&file);
        assert!(before.len() < 64, "{before:?}");
        let reader = quiet(&file);
        read(&reader, 0..64 * page);
        drop(reader);
        assert_eq!(cached(&file), before);
        let reader = quiet(&file);
        for number in 0..64 {
            read(&reader, number * page + 8..number * page + 16);
        }
        drop(reader);
        assert_eq!(cached(&file), before);
    }

    #[test]
    fn what_somebody_mapped_meanwhile_stays() {
        let Some(file) = evicted(16) else { return };
        let page = page_size();
        let reader = quiet(&file);
        read(&reader, 0..16 * page);
        let mapping = FileMapping::new(&file, 0, Bytes(16 * page)).unwrap();
        if let Err(error) = mapping.lock(&(5 * page..6 * page)) {
            return skip(format_args!("no page can be locked here: {error}"));
        }
        drop(reader);
        assert_eq!(cached(&file), [5]);
    }

    #[test]
    fn no_more_than_some_megabytes_are_there_at_a_time() {
        let pages = 2 * MOST as u64 / page_size() + 32;
        let Some(file) = evicted(pages) else { return };
        let reader = quiet(&file);
        for number in 0..pages {
            read(&reader, number * page_size()..(number + 1) * page_size());
            if number.is_multiple_of(256) {
                let held = cached(&file).len() as u64 * page_size();
                assert!(held <= MOST as u64, "{held}");
            }
        }
        // All at once, in pieces.
        read(&reader, 0..pages * page_size());
        drop(reader);
        assert!(cached(&file).is_empty());
    }
}
