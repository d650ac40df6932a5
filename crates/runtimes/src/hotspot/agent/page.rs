//! The page of collections of a machine, opened through the descriptors of its process.

use crate::process::Process;
use plimsoll_wire::collections::{NAME, SIZE, View, ViewError, Wish, Words, wish};
use rustix::fs::{Mode, OFlags, SealFlags, fcntl_get_seals, fstat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

/// Descriptors of a process that are looked at, at most.
const MAX_DESCRIPTORS: usize = 1 << 20;
/// Seals without which a mapping could be cut under us.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// No descriptor of the process is a page.
    #[error(
        "process {pid} has no page of collections: no agent is in it, or it closed the descriptor"
    )]
    Absent {
        /// Which process.
        pid: u32,
    },
    /// A file of that name is not what the agent makes.
    #[error("the page of collections of process {pid} is not used: {why}")]
    Foreign {
        /// Which process.
        pid: u32,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Its layout is another.
    #[error("the page of collections of process {pid} is not used: {why}")]
    Layout {
        /// Which process.
        pid: u32,
        /// What is wrong with it.
        why: ViewError,
    },
    /// A system call failed.
    #[error("cannot open the page of collections of process {pid}: {source}")]
    System {
        /// Which process.
        pid: u32,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// The page of one machine. Stays readable after the machine is gone.
#[derive(Debug)]
pub struct Page {
    /// The mapping, [`SIZE`] bytes; ours until this is dropped.
    base: NonNull<u8>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is used by atomics only.
unsafe impl Send for Page {}

impl Page {
    /// Finds the page of a process.
    ///
    /// # Errors
    /// [`PageError::Absent`] without one; the others say why the one that is there cannot be used.
    pub fn of(process: &Process) -> Result<Page, PageError> {
        let pid = process.pid;
        let system = |source| PageError::System { pid, source };
        let links = std::fs::read_dir(process.path("fd")).map_err(system)?;
        let name = format!("/memfd:{NAME}");
        let mut found = PageError::Absent { pid };
        for link in links.take(MAX_DESCRIPTORS).flatten() {
            let target = std::fs::read_link(link.path()).unwrap_or_default();
            let target = target.to_string_lossy();
            if target.strip_suffix(" (deleted)").unwrap_or(&target) != name {
                continue;
            }
            // The descriptor may have been closed, and its number given to another file, since it was
            // looked at: what is opened is checked.
            let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
            let opened = rustix::fs::open(link.path(), flags, Mode::empty());
            match opened.map_err(|errno| system(errno.into())) {
                Ok(file) => match Page::map(pid, &file) {
                    Ok(page) if process.alive() => return Ok(page),
                    Ok(_) => return Err(PageError::Absent { pid }),
                    Err(error) => found = error,
                },
                Err(error) => found = error,
            }
        }
        Err(found)
    }

    fn map(pid: u32, file: &OwnedFd) -> Result<Page, PageError> {
        let foreign = |why| PageError::Foreign { pid, why };
        let system = |errno: Errno| PageError::System {
            pid,
            source: errno.into(),
        };
        let seals = fcntl_get_seals(file).map_err(|_| foreign("it is no memory file"))?;
        if !seals.contains(SEALS) {
            return Err(foreign("its size is not sealed"));
        }
        if fstat(file).map_err(system)?.st_size != SIZE as i64 {
            return Err(foreign("it has another size"));
        }
        // SAFETY: a new mapping, placed by the kernel.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                SIZE,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        };
        let base = NonNull::new(base.map_err(system)?.cast::<u8>());
        let page = Page {
            base: base.ok_or_else(|| foreign("it is mapped nowhere"))?,
        };
        match View::new(page.words()) {
            Ok(_) => Ok(page),
            Err(why) => Err(PageError::Layout { pid, why }),
        }
    }

    fn words(&self) -> Words<'_> {
        // SAFETY: page-aligned, SIZE bytes, readable and writable until `self` is dropped; the size is
        // sealed. The agent stores by atomics.
        unsafe { Words::new(self.base) }
    }

    /// What the agent tells.
    ///
    /// # Errors
    /// If the page was overwritten since it was opened.
    pub fn view(&self) -> Result<View<'_>, ViewError> {
        View::new(self.words())
    }

    /// Wishes that at the end of each pause at most so many bytes of the heap stay resident; with `None`
    /// no wish is left. A wish lasts for [`plimsoll_wire::collections::WISH_LASTS_NS`].
    pub fn wish(&self, resident: Option<u64>) {
        let now_ns = plimsoll_kernel::clock::now_ns();
        wish(
            self.words(),
            resident.map(|resident| Wish { resident }),
            now_ns,
        );
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: made by us in `map`, and no view outlives `self`. Nothing can be done about a failure.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::collections::{About, Writer};
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    /// Makes a file like the agent's in our own process.
    fn made(size: u64, seals: SealFlags, is_page: bool) -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(NAME, flags).unwrap();
        ftruncate(&file, size).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        if is_page {
            let page = Page::map(0, &file);
            assert!(matches!(page, Err(PageError::Layout { .. })));
            // SAFETY: as in `Page::map`; never unmapped.
            let base = unsafe {
                let access = ProtFlags::READ | ProtFlags::WRITE;
                mmap(
                    std::ptr::null_mut(),
                    SIZE,
                    access,
                    MapFlags::SHARED,
                    &file,
                    0,
                )
                .unwrap()
            };
            // SAFETY: as above.
            let words = unsafe { Words::new(NonNull::new(base.cast()).unwrap()) };
            Writer::new(
                words,
                &About {
                    pid: 7,
                    ..About::default()
                },
            );
        }
        file
    }

    #[test]
    fn only_a_sealed_page_of_the_right_form_is_used() {
        let own = Process::new(std::process::id()).unwrap();
        let found = || Page::of(&own).map(|page| page.view().unwrap().about().pid);
        assert!(matches!(found(), Err(PageError::Absent { .. })));
        for (size, seals) in [
            (SIZE as u64, SealFlags::empty()),
            (SIZE as u64, SealFlags::SHRINK),
            (0, SEALS),
            (2 * SIZE as u64, SEALS),
        ] {
            let file = made(size, seals, false);
            assert!(matches!(found(), Err(PageError::Foreign { .. })), "{size}");
            drop(file);
        }
        let blank = made(SIZE as u64, SEALS, false);
        assert!(matches!(found(), Err(PageError::Layout { .. })));
        let _page = made(SIZE as u64, SEALS, true);
        assert_eq!(
            found().unwrap(),
            7,
            "one that cannot be used hides none that can"
        );
        drop(blank);
        assert_eq!(found().unwrap(), 7);
    }
}
