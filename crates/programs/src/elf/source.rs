//! The open file that an ELF file is read from.

use plimsoll_kernel::uncached_read::QuietFile;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// An open file, read in one of two ways.
#[derive(Debug)]
pub(super) enum Source {
    /// As any program reads: what was read stays in the page cache. For files that are about to be run, or
    /// are looked at again and again.
    Plain(File),
    /// The page cache is left as it was. For measuring: a look must not change the memory that it shows.
    Quiet(QuietFile),
}

impl Source {
    /// Reads as any program does.
    pub(super) fn plain(file: OwnedFd) -> Source {
        Source::Plain(File::from(file))
    }

    /// Leaves the page cache as it was. By a descriptor that nobody shares.
    pub(super) fn quiet(file: OwnedFd) -> Source {
        Source::Quiet(QuietFile::new(file))
    }

    /// How long the file is, bytes.
    ///
    /// # Errors
    /// As `fstat(2)`.
    pub(super) fn length(&self) -> io::Result<u64> {
        match self {
            Source::Plain(file) => Ok(file.metadata()?.len()),
            Source::Quiet(file) => file.length(),
        }
    }

    /// Fills `into` from byte `at` of the file.
    ///
    /// # Errors
    /// As [`FileExt::read_exact_at`].
    pub(super) fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Source::Plain(file) => file.read_exact_at(into, at),
            Source::Quiet(file) => file.read_exact_at(into, at),
        }
    }
}
