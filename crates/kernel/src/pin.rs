//! Keeping pages in memory: of files, by a mapping whose parts are locked and unlocked, and our own.
//! Source: `mmap(2)`, `mlock(2)`, `madvise(2)`; kernel document `mm/unevictable-lru.rst`.
//!
//! Nobody reads or writes through the mapping, so a file that is truncated meanwhile raises no
//! SIGBUS: the kernel faults pages in on our behalf inside of `mlock`, and reports what failed.
//! The mapping is advised as one that is read at random, so that only the locked pages are read.

use crate::capabilities::{CAP_IPC_LOCK, holds};
use crate::process::page_size;
use plimsoll_unit::Bytes;
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MlockAllFlags, ProtFlags, madvise, mlock, mlockall, mmap, munlock, munmap,
};
use rustix::process::{Resource, getrlimit};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;

/// A part of a file, mapped into this process for locking and nothing else.
#[derive(Debug)]
pub struct FileMapping {
    address: *mut c_void,
    offset: u64,
    bytes: usize,
}

// SAFETY: the mapping belongs to the whole process, and the value is its only owner.
unsafe impl Send for FileMapping {}

impl FileMapping {
    /// Maps so much of a file from `offset` on, both multiples of the page size. Reads
    /// nothing. The range may reach beyond the end of the file.
    ///
    /// # Errors
    /// `EINVAL` for an unaligned or empty range; `ENODEV` where the file cannot be mapped; `ENOMEM`
    /// with too many mappings (`vm.max_map_count`).
    pub fn new(file: impl AsFd, offset: u64, length: Bytes) -> io::Result<FileMapping> {
        let page = page_size();
        let aligned =
            offset.is_multiple_of(page) && length.0.is_multiple_of(page) && length > Bytes::ZERO;
        let (true, Ok(length)) = (aligned, usize::try_from(length.0)) else {
            return Err(Errno::INVAL.into());
        };
        let flags = MapFlags::SHARED;
        // SAFETY: a fresh mapping, placed by the kernel: it overlaps nothing. Nothing ever accesses
        // its bytes, so what others do to the file does not matter.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                flags,
                file,
                offset,
            )?
        };
        let mapping = FileMapping {
            address,
            offset,
            bytes: length,
        };
        // SAFETY: the range is the mapping just made. The advice changes no contents; where it is
        // refused, more than the locked pages may be read.
        let _ = unsafe { madvise(address, length, Advice::Random) };
        // SAFETY: as above. Our children need no copy. A process that locks all its memory as it is
        // touched (`mlockall`) has locked the mapping too, though nothing of it is there.
        let _ = unsafe {
            let _ = munlock(address, length);
            madvise(address, length, Advice::LinuxDontFork)
        };
        Ok(mapping)
    }

    /// Which bytes of the file are mapped.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.bytes as u64)
    }

    /// The addresses of the mapping in this process.
    pub fn addresses(&self) -> Range<u64> {
        let start = self.address as u64;
        start..start + self.bytes as u64
    }

    /// Has the kernel start to read these bytes of the file. Does not wait for them.
    ///
    /// # Errors
    /// `EINVAL` for bytes that are not mapped here.
    pub fn will_need(&self, bytes: &Range<u64>) -> io::Result<()> {
        let (at, length) = self.place(bytes)?;
        // SAFETY: `place` checked that the range is inside of the mapping. The advice changes no
        // contents.
        unsafe { madvise(at, length, Advice::WillNeed)? };
        Ok(())
    }

    /// Brings these bytes of the file into memory and locks them there. Waits for reads. Not with
    /// `MLOCK_ONFAULT`: that locks a page when it is touched, and nobody touches ours. If it fails,
    /// none of them is locked.
    ///
    /// # Errors
    /// `ENOMEM` beyond the end of the file, beyond RLIMIT_MEMLOCK, or with too many mappings;
    /// `EPERM` where RLIMIT_MEMLOCK is 0; `EAGAIN` when the domain is out of memory.
    pub fn lock(&self, bytes: &Range<u64>) -> io::Result<()> {
        let (at, length) = self.place(bytes)?;
        // SAFETY: `place` checked that the range is inside of the mapping. Locking changes no
        // contents.
        let locked = unsafe { mlock(at, length) };
        if let Err(errno) = locked {
            // The kernel marks the range before it reads, and leaves the mark when reading fails.
            let _ = self.unlock(bytes);
            return Err(errno.into());
        }
        Ok(())
    }

    /// Unlocks these bytes of the file, and takes them out of our page tables.
    ///
    /// # Errors
    /// `EINVAL` for bytes that are not mapped here; `ENOMEM` with too many mappings.
    pub fn unlock(&self, bytes: &Range<u64>) -> io::Result<()> {
        let (at, length) = self.place(bytes)?;
        // SAFETY: `place` checked that the range is inside of the mapping. The bytes are the
        // file's, so dropping our view of them loses nothing.
        unsafe {
            munlock(at, length)?;
            madvise(at, length, Advice::LinuxDontNeed)?;
        }
        Ok(())
    }

    fn place(&self, bytes: &Range<u64>) -> io::Result<(*mut c_void, usize)> {
        let page = page_size();
        let whole = self.range();
        let inside =
            bytes.start >= whole.start && bytes.end <= whole.end && bytes.start < bytes.end;
        let aligned = bytes.start.is_multiple_of(page) && bytes.end.is_multiple_of(page);
        if !inside || !aligned {
            return Err(Errno::INVAL.into());
        }
        let (from, length) = (bytes.start - self.offset, bytes.end - bytes.start);
        // SAFETY: `from` is below the length of the mapping.
        let at = unsafe { self.address.cast::<u8>().add(from as usize) };
        Ok((at.cast(), length as usize))
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and nobody has a reference
        // into it. This unlocks it too.
        let _ = unsafe { munmap(self.address, self.bytes) };
    }
}

/// The first user namespace, as `/proc/self/ns/user` names it (`linux/proc_ns.h`).
const FIRST_USERS: &str = "user:[4026531837]";

/// How much this process may lock altogether; `None` if there is no bound (CAP_IPC_LOCK, or no
/// RLIMIT_MEMLOCK). A capability in another user namespace than the first, as in a container without
/// root, lifts no limit.
pub fn lockable() -> Option<Bytes> {
    // Where the namespaces cannot be seen there is only the first.
    let first = std::fs::read_link("/proc/self/ns/user")
        .map_or(true, |name| name == Path::new(FIRST_USERS));
    if first && holds(CAP_IPC_LOCK) {
        return None;
    }
    getrlimit(Resource::Memlock).current.map(Bytes)
}

/// Locks the memory of this process as it is touched, now and later: whoever is to act when memory is
/// short must not wait for paging itself. `false` where locking has a bound ([`lockable`]): there all
/// later allocations would fail that do not fit below it.
///
/// # Errors
/// When the kernel refuses it.
pub fn lock_own_memory() -> io::Result<bool> {
    if lockable().is_some() {
        return Ok(false);
    }
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_what_is_mapped_can_be_locked() {
        let mut file = tempfile::tempfile().unwrap();
        let page = page_size();
        file.write_all(&vec![1; 4 * page as usize]).unwrap();
        let mapping = FileMapping::new(&file, page, Bytes(3 * page)).unwrap();
        assert_eq!(mapping.range(), page..4 * page);
        mapping.will_need(&(page..2 * page)).unwrap();
        mapping.lock(&(page..3 * page)).unwrap();
        mapping.unlock(&(2 * page..3 * page)).unwrap();
        for odd in [
            0..page,
            page..5 * page,
            page + 1..2 * page,
            3 * page..3 * page,
        ] {
            assert!(mapping.lock(&odd).is_err(), "{odd:?}");
        }
        assert!(FileMapping::new(&file, 1, Bytes(page)).is_err());
        assert!(FileMapping::new(&file, 0, Bytes(0)).is_err());
    }

    #[test]
    fn a_truncated_file_is_an_error_and_no_signal() {
        let mut file = tempfile::tempfile().unwrap();
        let page = page_size();
        file.write_all(&vec![1; 2 * page as usize]).unwrap();
        let mapping = FileMapping::new(&file, 0, Bytes(4 * page)).unwrap();
        mapping.lock(&(0..2 * page)).unwrap();
        file.set_len(page).unwrap();
        assert!(mapping.lock(&(0..2 * page)).is_err());
        assert!(mapping.lock(&(2 * page..4 * page)).is_err());
        mapping.lock(&(0..page)).unwrap();
    }

    /// Set for this test when it starts itself again.
    const INSIDE: &str = "PLIMSOLL_LOCKABLE_INSIDE";

    #[test]
    fn a_capability_in_a_container_lifts_no_limit() {
        use std::process::Command;
        if std::env::var_os(INSIDE).is_some() {
            let most = rustix::process::Rlimit {
                current: Some(65_536),
                maximum: Some(65_536),
            };
            rustix::process::setrlimit(Resource::Memlock, most).unwrap();
            assert_eq!(lockable(), Some(Bytes(65_536)));
            return;
        }
        let users = |command: &mut Command| {
            let run = command.stdout(std::process::Stdio::null()).status();
            run.is_ok_and(|status| status.success())
        };
        let unshare = || {
            let mut command = Command::new("unshare");
            command.arg("--map-root-user");
            command
        };
        if !users(unshare().arg("true")) {
            return;
        }
        let mut again = unshare();
        again.arg(std::env::current_exe().unwrap()).env(INSIDE, "1");
        again.args([
            "--exact",
            "pin::tests::a_capability_in_a_container_lifts_no_limit",
        ]);
        assert!(users(&mut again));
    }
}
