//! The page of collections: a sealed memory file of this process, mapped for its life.

use plimsoll_wire::collections::{NAME, SIZE, Words};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::io::{BufRead, BufReader};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr::NonNull;

/// What may never change about the page: both sides rely on its size.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);
/// Flag of Linux 6.3: the file is never a program. Some machines are set up to refuse others.
const NOEXEC: MemfdFlags = MemfdFlags::from_bits_retain(8);

/// Makes the page. The descriptor stays open, for the adapter, and is never used again here: should
/// the program close it, nothing of ours touches what gets its number.
///
/// # Errors
/// What the system says: memory files may be forbidden in a sandbox.
pub fn make() -> Result<Words<'static>, Errno> {
    let file = file()?;
    ftruncate(&file, SIZE as u64)?;
    // Written and not only sized, so that no later store waits for memory that a limit denies.
    rustix::io::pwrite(&file, &[0; SIZE], 0)?;
    fcntl_add_seals(&file, SEALS)?;
    // SAFETY: a new mapping, placed by the kernel.
    let base = unsafe {
        mmap(
            std::ptr::null_mut(),
            SIZE,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &file,
            0,
        )?
    };
    let base = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
    let _stays_open = file.into_raw_fd();
    // SAFETY: page-aligned, SIZE bytes, readable, writable and never unmapped; the size is sealed. The
    // adapter stores by atomics only.
    Ok(unsafe { Words::new(base) })
}

fn file() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(NAME, flags | NOEXEC) {
        Err(Errno::INVAL) => memfd_create(NAME, flags),
        other => other,
    }
}

/// Whether an agent in this process has a page already: ours, or one that was loaded from another
/// copy of the library. What cannot be told counts as none.
pub fn is_there() -> bool {
    let Ok(maps) = std::fs::File::open("/proc/self/maps") else {
        return false;
    };
    let name = format!("/memfd:{NAME}");
    let mut lines = BufReader::new(maps).split(b'\n').map_while(Result::ok);
    lines.any(|line| line.windows(name.len()).any(|part| part == name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::collections::{About, View, Writer};

    #[test]
    fn a_page_is_sealed_and_is_found() {
        assert!(!is_there());
        let words = make().unwrap();
        assert!(is_there());
        let _ = Writer::new(words, &About::default());
        assert!(View::new(words).is_ok());
        let mut links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let is_ours = |path: &std::path::Path| {
            let target = std::fs::read_link(path).unwrap_or_default();
            target.to_string_lossy().contains(NAME)
        };
        let link = links.find(|link| is_ours(&link.path())).unwrap().path();
        let file = std::fs::OpenOptions::new().write(true).open(link).unwrap();
        assert!(file.set_len(0).is_err(), "it can never be cut");
        assert!(file.set_len(1 << 20).is_err());
    }
}
