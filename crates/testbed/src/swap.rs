//! A swap file for the time of a test.

use crate::{sweep, unique};
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::{Error, Result};
use plimsoll_unit::Bytes;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const PREFIX: &str = ".plimsoll-swap-";

/// A swap file that is switched off and removed when the guard is dropped.
#[derive(Debug)]
pub struct SwapFile {
    path: PathBuf,
}

impl SwapFile {
    /// Makes a file of that size in a directory on a real file system (ext4, XFS; not
    /// tmpfs, not overlayfs) and swaps to it. Switches off and removes files that a killed
    /// predecessor left there.
    ///
    /// # Errors
    /// [`Error::Denied`] without CAP_SYS_ADMIN; [`Error::Io`] when the disk is full or the file
    /// system cannot hold swap files.
    pub fn new(dir: &Path, bytes: Bytes) -> Result<SwapFile> {
        sweep(dir, PREFIX, discard);
        let file = SwapFile {
            path: dir.join(unique(PREFIX)),
        };
        file.fill(bytes)?;
        let name = c_path(&file.path);
        // SAFETY: `name` is a NUL-terminated path that outlives the call.
        if unsafe { libc::swapon(name.as_ptr(), 0) } != 0 {
            return Err(last_error("swapon", &file.path));
        }
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reserves the space and writes the header: version 1, number of the last page, signature at
    /// the end of the first page.
    fn fill(&self, bytes: Bytes) -> Result<()> {
        let page = page_size();
        let pages = bytes.0 / page;
        if !(10..=u64::from(u32::MAX)).contains(&pages) {
            return Err(Error::Argument {
                what: "size of a swap file",
                why: "it must hold 10 to 2^32 - 1 pages",
            });
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let of = |errno| Error::of_file("write", &self.path, errno);
        let fd = rustix::fs::open(&self.path, flags, Mode::RUSR | Mode::WUSR).map_err(of)?;
        rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, pages * page).map_err(of)?;
        let mut header = vec![0u8; page as usize];
        header[1024..1028].copy_from_slice(&1u32.to_ne_bytes());
        header[1028..1032].copy_from_slice(&((pages - 1) as u32).to_ne_bytes());
        let end = header.len();
        header[end - 10..].copy_from_slice(b"SWAPSPACE2");
        rustix::io::pwrite(&fd, &header, 0).map_err(of)?;
        rustix::fs::fsync(&fd).map_err(of)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        discard(&self.path);
    }
}

/// Switches off and removes; a file that is not in use as swap is only removed.
fn discard(path: &Path) {
    let name = c_path(path);
    // SAFETY: `name` is a NUL-terminated path that outlives the call.
    let off = unsafe { libc::swapoff(name.as_ptr()) } == 0;
    let unused = std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
    if off || unused {
        // Nothing more can be done about a file that stays; the next sweep tries again.
        let _ = std::fs::remove_file(path);
    }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

fn last_error(doing: &'static str, path: &Path) -> Error {
    let source = std::io::Error::last_os_error();
    match rustix::io::Errno::from_io_error(&source) {
        Some(rustix::io::Errno::PERM) => Error::Denied {
            path: path.to_path_buf(),
            needs: "CAP_SYS_ADMIN",
        },
        _ => Error::Io {
            doing,
            path: path.to_path_buf(),
            source,
        },
    }
}
