//! A memory file of a fixed size that two processes map, to give each other numbers. Its seals keep it
//! from being cut under a mapping, which would end whoever touches it (SIGBUS). Source: `memfd_create(2)`,
//! `fcntl(2)` ("File Sealing").
//!
//! 1. One process makes it by [`make`], and leaves the descriptor open.
//! 2. The other opens `/proc/PID/fd/N` and gives that to [`Mapping::of`], which checks it.
//!
//! Either may still write anything into it, or punch holes, which read as zeros.

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

/// Without these a mapping could be cut.
const NEEDED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
/// Flag of Linux 6.3: the file is never a program. Some machines are set up to refuse others.
const NOEXEC: MemfdFlags = MemfdFlags::from_bits_retain(8);

/// Why a file is not mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not from `memfd_create`, or without seals.
    #[error("it is no memory file")]
    NoMemoryFile,
    /// Somebody could cut it.
    #[error("its size is not sealed")]
    NotSealed,
    /// Not what both sides agreed on.
    #[error("it has another size")]
    Size,
    /// A system call failed.
    #[error("{}", std::io::Error::from(*.0))]
    System(Errno),
}

/// A mapping of the whole file, readable and writable. Its address stays the same until it is dropped.
#[derive(Debug)]
pub struct Mapping {
    /// Its first byte, page-aligned.
    base: NonNull<u8>,
    /// Bytes.
    length: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread; code that makes references to
// its bytes answers for how they are used.
unsafe impl Send for Mapping {}

/// Makes a file of zeros of `length` bytes, which shows as `/memfd:NAME` among the descriptors of this
/// process, and maps it. The descriptor closes on exec. The mapping has its memory already: no store into it
/// waits for memory that a limit denies.
///
/// # Errors
/// The system's error: memory files may be forbidden in a sandbox (`EPERM`), memory or descriptors may
/// be short.
pub fn make(name: &str, length: usize) -> Result<(OwnedFd, Mapping), Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match memfd_create(name, flags | NOEXEC) {
        Err(Errno::INVAL) => memfd_create(name, flags),
        other => other,
    }?;
    ftruncate(&file, length as u64)?;
    let mut written = 0;
    while written < length {
        let rest = &[0; 4096][..(length - written).min(4096)];
        written += rustix::io::pwrite(&file, rest, written as u64)?.max(1);
    }
    fcntl_add_seals(&file, NEEDED | SealFlags::SEAL)?;
    let mapping = Mapping::new(&file, length)?;
    Ok((file, mapping))
}

impl Mapping {
    /// Maps a file that another process made, if it has this size (bytes) and keeps it.
    ///
    /// # Errors
    /// [`Refused`] says what is wrong with it.
    pub fn of(file: impl AsFd, length: usize) -> Result<Mapping, Refused> {
        let seals = fcntl_get_seals(&file).map_err(|_| Refused::NoMemoryFile)?;
        if !seals.contains(NEEDED) {
            return Err(Refused::NotSealed);
        }
        let size = fstat(&file).map_err(Refused::System)?.st_size;
        if usize::try_from(size) != Ok(length) {
            return Err(Refused::Size);
        }
        Mapping::new(&file, length).map_err(Refused::System)
    }

    fn new(file: impl AsFd, length: usize) -> Result<Mapping, Errno> {
        // SAFETY: a new mapping, placed by the kernel: it overlaps nothing.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { base, length })
    }

    /// Its first byte, page-aligned. The bytes from there on, as many as were asked for, are readable and
    /// writable until this is dropped. Other processes change them at any time, so use them by atomics only.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The same, for the rest of the process's life.
    pub fn for_ever(self) -> NonNull<u8> {
        let base = self.base;
        std::mem::forget(self);
        base
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by us in `new`, and nobody uses its bytes after us (`base`). Nothing can be done about
        // a failure.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, fallocate};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Bytes.
    const SIZE: usize = 8192;

    fn last(mapping: &Mapping) -> &AtomicU64 {
        // SAFETY: within the mapping, aligned, and alive as long as it.
        unsafe { AtomicU64::from_ptr(mapping.base().as_ptr().add(SIZE - 8).cast()) }
    }

    #[test]
    fn what_one_side_writes_the_other_reads_and_nobody_can_cut_it() {
        let (file, one) = make("plimsoll-test", SIZE).unwrap();
        let other = Mapping::of(&file, SIZE).unwrap();
        last(&one).store(7, Ordering::Relaxed);
        assert_eq!(last(&other).load(Ordering::Relaxed), 7);
        for size in [0, 4096, 1 << 20] {
            assert_eq!(ftruncate(&file, size), Err(Errno::PERM), "{size}");
        }
        assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err());
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, hole, 0, SIZE as u64).unwrap();
        assert_eq!(last(&other).load(Ordering::Relaxed), 0);
        drop((file, one));
        last(&other).store(9, Ordering::Relaxed);
        assert_eq!(last(&other).load(Ordering::Relaxed), 9);
    }

    #[test]
    fn what_is_not_sealed_or_of_another_size_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let refused = |size: u64, seals| {
            let file = memfd_create("plimsoll-test", flags).unwrap();
            ftruncate(&file, size).unwrap();
            fcntl_add_seals(&file, seals).unwrap();
            Mapping::of(&file, SIZE).err()
        };
        let size = SIZE as u64;
        assert_eq!(refused(size, SealFlags::empty()), Some(Refused::NotSealed));
        assert_eq!(refused(size, SealFlags::SHRINK), Some(Refused::NotSealed));
        assert_eq!(refused(0, NEEDED), Some(Refused::Size));
        assert_eq!(refused(2 * size, NEEDED), Some(Refused::Size));
        assert_eq!(refused(size, NEEDED), None);
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        let refused = Mapping::of(&file, SIZE).err();
        // A file on tmpfs is one, too, but has no such seals.
        let known = [Some(Refused::NoMemoryFile), Some(Refused::NotSealed)];
        assert!(known.contains(&refused), "{refused:?}");
    }
}
