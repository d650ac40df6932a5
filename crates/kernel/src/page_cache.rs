//! How much of a file is in the page cache: `cachestat` (Linux 6.5). Nothing is read or mapped by it.
//! Source: `cachestat(2)`; kernel source `mm/filemap.c`.

use crate::mounts::kind_of;
use crate::process::page_size;
use crate::{Error, Result};
use plimsoll_unit::Bytes;
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// The same number on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

/// State of a part of a file in the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    /// In the page cache.
    pub cached: Bytes,
    /// The part of `cached` that is not yet written.
    pub dirty: Bytes,
    /// The part of `cached` that is being written.
    pub writeback: Bytes,
    /// Was in the cache, and is not any more. On tmpfs: in swap.
    pub evicted: Bytes,
    /// The part of `evicted` that counts as a refault when it is read again: it was evicted recently.
    pub recently_evicted: Bytes,
}

/// `struct cachestat_range`.
#[repr(C)]
struct Part {
    offset: u64,
    length: u64,
}

/// `struct cachestat`, pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Asks about a part of an open file: all pages that overlap it. 1 us for 64 KiB, 1.5 ms for
/// 200 MiB. `path` is for messages only. A file of an overlay has no pages of its own, so the answer
/// is 0 whatever is cached of the file below: see [`tells_of`].
///
/// # Errors
/// [`Error::Unsupported`] before Linux 6.5; [`Error::Denied`] where a kernel (6.14 and later) tells
/// this only to users who own the file or may write to it; [`Error::Io`] for what has no page cache.
pub fn of(file: impl AsFd, path: &Path, part: Range<u64>) -> Result<Cached> {
    if part.is_empty() {
        return Ok(Cached::default());
    }
    let asked = Part {
        offset: part.start,
        length: part.end - part.start,
    };
    let mut pages = Pages::default();
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: the call reads `asked` and writes `pages`, both of which outlive it.
    let outcome = unsafe { libc::syscall(SYS_CACHESTAT, descriptor, &asked, &mut pages, 0u32) };
    if outcome != 0 {
        let source = std::io::Error::last_os_error();
        return Err(match Errno::from_io_error(&source) {
            Some(Errno::NOSYS) => Error::Unsupported {
                what: "cachestat",
                since: "6.5",
            },
            Some(Errno::PERM | Errno::ACCESS) => Error::Denied {
                path: path.to_path_buf(),
                needs: "to own the file or to be allowed to write to it",
            },
            _ => Error::Io {
                doing: "cachestat",
                path: path.to_path_buf(),
                source,
            },
        });
    }
    let bytes = |count: u64| Bytes(page_size()) * count;
    Ok(Cached {
        cached: bytes(pages.cache),
        dirty: bytes(pages.dirty),
        writeback: bytes(pages.writeback),
        evicted: bytes(pages.evicted),
        recently_evicted: bytes(pages.recently_evicted),
    })
}

/// Whether the page cache's answers about this file are about the pages that its mappings show: not
/// on an overlay.
pub fn tells_of(file: impl AsFd) -> bool {
    kind_of(file) != Some("overlay")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_just_written_is_in_the_cache() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 64 << 10]).unwrap();
        let path = Path::new("a file of this test");
        match of(&file, path, 0..64 << 10) {
            Err(error) if error.is_absent() || error.is_denied() => {}
            all => {
                assert_eq!(all.unwrap().cached, Bytes(64 << 10));
                assert_eq!(
                    of(&file, path, 0..page_size()).unwrap().cached,
                    Bytes(page_size())
                );
                assert_eq!(of(&file, path, 5..5).unwrap(), Cached::default());
                assert_eq!(
                    of(&file, path, 1 << 40..1 << 41).unwrap().cached,
                    Bytes::ZERO
                );
            }
        }
    }

    #[test]
    fn what_has_no_cache_is_an_error() {
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        // A pipe is asked for nothing that makes it wait.
        let _ = of(&pipe, Path::new("a pipe"), 0..4096);
    }
}
