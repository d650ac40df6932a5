//! Memory that plays a heap, for tests.

use plimsoll_kernel::process::page_size;
use std::ffi::c_void;
use std::os::fd::AsRawFd;

/// A private mapping, aligned to 2 MiB, unmapped when dropped.
pub(crate) struct Mapping {
    memory: *mut u8,
    size: usize,
    whole: (*mut c_void, usize),
}

/// Alignment of its start, bytes: the size of a huge page.
const ALIGNMENT: usize = 2 << 20;

impl Mapping {
    /// Maps `size` bytes.
    pub(crate) fn new(size: u64) -> Mapping {
        let size = size as usize;
        let length = size + ALIGNMENT;
        // SAFETY: a new private mapping.
        let whole = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(whole, libc::MAP_FAILED);
        let start = (whole as usize).next_multiple_of(ALIGNMENT);
        Mapping {
            memory: start as *mut u8,
            size,
            whole: (whole, length),
        }
    }

    /// Its addresses.
    pub(crate) fn range(&self) -> (u64, u64) {
        let start = self.memory as u64;
        (start, start + self.size as u64)
    }

    /// Its bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: our mapping, `size` bytes, used through this alone.
        unsafe { std::slice::from_raw_parts_mut(self.memory, self.size) }
    }

    /// Leaves a part of it reserved only, as the machine does when it gives a part of its heap up.
    pub(crate) fn reserve(&mut self, from: u64, length: u64) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        self.replace(from, length, libc::PROT_NONE, flags, -1);
    }

    /// Maps a file over a part of it.
    pub(crate) fn map_file(&self, from: u64, length: u64, file: &std::fs::File) {
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        self.replace(from, length, access, flags, file.as_raw_fd());
    }

    fn replace(&self, from: u64, length: u64, access: i32, flags: i32, file: i32) {
        assert!(from + length <= self.size as u64);
        let at = (self.range().0 + from) as *mut c_void;
        // SAFETY: a part of our own mapping, which nobody refers to.
        let mapped = unsafe { libc::mmap(at, length as usize, access, flags, file, 0) };
        assert_eq!(mapped, at);
    }

    /// Whether a byte can be read.
    pub(crate) fn is_accessible(&self, at: u64) -> bool {
        plimsoll_kernel::process_vm::copy_own(self.range().0 + at, &mut [0])
    }

    /// Bytes of it that are in memory.
    pub(crate) fn resident(&self) -> u64 {
        let mut pages = vec![0u8; self.size.div_ceil(page_size() as usize)];
        // SAFETY: our mapping, and a byte for each of its pages.
        let code =
            unsafe { libc::mincore(self.memory.cast(), self.size, pages.as_mut_ptr().cast()) };
        assert_eq!(code, 0);
        pages.iter().filter(|&&page| page & 1 == 1).count() as u64 * page_size()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: ours, and not used again.
        unsafe { libc::munmap(self.whole.0, self.whole.1) };
    }
}
