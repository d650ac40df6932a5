//! Memory that the misbehaving programs take, touch and give back.

use plimsoll_kernel::clock;
use plimsoll_kernel::process::page_size;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;

/// Mapped memory.
pub(crate) struct Memory {
    start: *mut u8,
    bytes: u64,
    /// State of the generator of random numbers, never 0.
    pub(crate) state: u64,
}

impl Memory {
    /// Anonymous memory, with huge pages or without any.
    pub(crate) fn anonymous(bytes: u64, huge: bool) -> io::Result<Memory> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping, placed by the kernel: it overlaps nothing.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )?
        };
        let advice = if huge {
            Advice::LinuxHugepage
        } else {
            Advice::LinuxNoHugepage
        };
        // SAFETY: the range is the mapping just made; the advice changes no contents. Kernels
        // without huge pages refuse it, which is fine.
        let _ = unsafe { madvise(start, bytes as usize, advice) };
        Ok(Memory {
            start: start.cast(),
            bytes,
            state: clock::now().0 | 1,
        })
    }

    /// Maps a file that others may map too. Extends the file if needed.
    pub(crate) fn shared(path: &str, bytes: u64) -> io::Result<Memory> {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        if file.metadata()?.len() < bytes {
            file.set_len(bytes)?;
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping of a file that is long enough, placed by the kernel. Others write
        // to it at will, so it is only ever accessed with volatile reads and writes of single
        // words.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes as usize,
                protection,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        Ok(Memory {
            start: start.cast(),
            bytes,
            state: clock::now().0 | 1,
        })
    }

    /// Maps the first `bytes` of a file for reading at random places: the kernel reads nothing ahead,
    /// and does not notice what is used of it.
    pub(crate) fn file(path: &str, bytes: u64) -> io::Result<Memory> {
        let memory = Memory::readable(path, bytes, false)?;
        // SAFETY: the range is the mapping just made; the advice changes no contents.
        unsafe { madvise(memory.start.cast(), bytes as usize, Advice::Random)? };
        Ok(memory)
    }

    /// Maps the first `bytes` of a file for reading: together with others, or `private`.
    pub(crate) fn readable(path: &str, bytes: u64, private: bool) -> io::Result<Memory> {
        let file = std::fs::File::open(path)?;
        if file.metadata()?.len() < bytes {
            return Err(io::Error::other(format!("{path} is shorter than that")));
        }
        let flags = if private {
            MapFlags::PRIVATE
        } else {
            MapFlags::SHARED
        };
        Memory::of_file(&file, bytes, flags)
    }

    /// Maps all of a file to lock it. Nobody reads it, so that a file which becomes shorter does no
    /// harm.
    pub(crate) fn whole_file(path: &str) -> io::Result<Memory> {
        let file = std::fs::File::open(path)?;
        let bytes = file.metadata()?.len().next_multiple_of(page_size());
        Memory::of_file(&file, bytes, MapFlags::SHARED)
    }

    /// Maps a file to read it.
    fn of_file(file: &std::fs::File, bytes: u64, flags: MapFlags) -> io::Result<Memory> {
        // SAFETY: a fresh mapping of a file, placed by the kernel. It is only ever accessed with
        // volatile reads of single words; the callers see to it that the file is long enough.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes as usize,
                ProtFlags::READ,
                flags,
                file,
                0,
            )?
        };
        Ok(Memory {
            start: start.cast(),
            bytes,
            state: clock::now().0 | 1,
        })
    }

    /// Bytes mapped.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }

    /// The address of a page, which must begin inside.
    fn page(&self, at: u64) -> *mut u64 {
        assert!(at + page_size() <= self.bytes && at.is_multiple_of(page_size()));
        // SAFETY: just checked that the page lies inside of the mapping.
        unsafe { self.start.add(at as usize).cast() }
    }

    /// A random number (xorshift).
    pub(crate) fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Fills pages with data that cannot be compressed or merged.
    pub(crate) fn fill(&mut self, from: u64, to: u64) {
        let page = page_size();
        for at in (from..to).step_by(page as usize) {
            let start = self.page(at);
            for word in 0..page as usize / 8 {
                let value = self.random();
                // SAFETY: `start` is the beginning of a mapped page and `word` stays in it.
                unsafe { start.add(word).write_volatile(value) };
            }
        }
    }

    /// Reads the first word of a page, and writes it when asked.
    pub(crate) fn touch(&self, at: u64, write: bool) {
        let word = self.page(at);
        // SAFETY: `word` is the beginning of a mapped page.
        unsafe {
            let value = word.read_volatile();
            if write {
                word.write_volatile(value.wrapping_add(1));
            }
        }
    }

    /// Locks pages in memory.
    pub(crate) fn lock(&self, from: u64, to: u64) -> io::Result<()> {
        // SAFETY: the range lies inside of the mapping; locking changes no contents.
        unsafe { mlock(self.page(from).cast::<c_void>(), (to - from) as usize)? };
        Ok(())
    }

    /// Drops pages; they read as zeros afterwards.
    pub(crate) fn give_back(&self, from: u64, to: u64) -> io::Result<()> {
        // SAFETY: the range lies inside of the mapping, and nobody holds a reference into it. The
        // pages are unlocked and dropped, and read as zeros afterwards.
        unsafe {
            let start = self.page(from).cast::<c_void>();
            let _ = rustix::mm::munlock(start, (to - from) as usize);
            madvise(start, (to - from) as usize, Advice::LinuxDontNeed)?;
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this start and size and is not used after this.
        let _ = unsafe { munmap(self.start.cast(), self.bytes as usize) };
    }
}
