//! The page of collections of a machine, opened through the descriptors of its process.

use crate::process::Process;
use plimsoll_kernel::clock::{self, ahead_ns};
use plimsoll_kernel::descriptors;
use plimsoll_kernel::mapped::Named;
use plimsoll_kernel::sealed_memfd::{Mapping, Refused};
use plimsoll_unit::Nanos;
use plimsoll_wire::collections::{NAME, SIZE, View, ViewError, Wish, Words, wish};
use std::os::fd::OwnedFd;

/// Descriptors of a process that are looked at, at most.
const MAX_DESCRIPTORS: usize = 1 << 20;

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
        /// The fault of the file.
        why: Refused,
    },
    /// Its layout is another.
    #[error("the page of collections of process {pid} is not used: {why}")]
    Layout {
        /// Which process.
        pid: u32,
        /// The fault of the layout.
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
    /// [`SIZE`] bytes.
    mapping: Mapping,
    /// The lead of the machine's clock over ours, ns. The times on the page are of the machine's clock.
    ahead_ns: i64,
}

impl Page {
    /// Finds the page of a process.
    ///
    /// # Errors
    /// [`PageError::Absent`] without one; the others say why the one that is there cannot be used.
    pub fn of(process: &Process) -> Result<Page, PageError> {
        let pid = process.pid;
        let system = |source| PageError::System { pid, source };
        let files = descriptors::memory(pid, MAX_DESCRIPTORS).map_err(system)?;
        let mut found = PageError::Absent { pid };
        for (path, _) in files.filter(|(_, name)| name == NAME) {
            // The descriptor may have been closed, and its number given to another file, since it was
            // looked at; and a device may be mounted at such a name.
            let opened = Named::memory(&path).and_then(|named| named.open_to_write());
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
        let mapping = Mapping::of(file, SIZE).map_err(|refused| match refused {
            Refused::System(errno) => PageError::System {
                pid,
                source: errno.into(),
            },
            why => PageError::Foreign { pid, why },
        })?;
        let page = Page {
            mapping,
            ahead_ns: ahead_ns(pid),
        };
        match View::new(page.words()) {
            Ok(_) => Ok(page),
            Err(why) => Err(PageError::Layout { pid, why }),
        }
    }

    fn words(&self) -> Words<'_> {
        // SAFETY: page-aligned, SIZE bytes, readable and writable until `self` is dropped; the size is
        // sealed. The agent stores by atomics.
        unsafe { Words::new(self.mapping.base()) }
    }

    /// The contents of the page. Times are of the machine's clock, which may not be ours in a container.
    ///
    /// # Errors
    /// If the page was overwritten since it was opened.
    pub fn view(&self) -> Result<View<'_>, ViewError> {
        View::new(self.words())
    }

    /// Leaves a wish, or takes it back. A wish lasts for [`plimsoll_wire::collections::WISH_LASTS`].
    pub fn wish(&self, wished: Option<Wish>) {
        wish(
            self.words(),
            wished,
            Nanos(clock::now().0.saturating_add_signed(self.ahead_ns)),
        );
    }

    /// A time of the machine's clock by our own.
    pub fn our_time(&self, theirs: Nanos) -> Nanos {
        Nanos(
            theirs
                .0
                .saturating_add_signed(self.ahead_ns.saturating_neg()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_kernel::sealed_memfd;
    use plimsoll_unit::Bytes;
    use plimsoll_wire::collections::{About, Totals, Writer};
    use rustix::fs::{
        FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
    };
    use rustix::io::Errno;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// All tests here look at the descriptors of this process.
    static TURN: Mutex<()> = Mutex::new(());

    fn turn() -> MutexGuard<'static, ()> {
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file that has the name of the agent's, in our own process.
    fn odd(size: u64, seals: SealFlags) -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(NAME, flags).unwrap();
        ftruncate(&file, size).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    }

    /// A file like the agent's.
    fn good() -> OwnedFd {
        let (file, mapping) = sealed_memfd::make(NAME, SIZE).unwrap();
        // SAFETY: as in `Page::words`; never unmapped.
        let words = unsafe { Words::new(mapping.for_ever()) };
        let about = About {
            pid: 7,
            ..About::default()
        };
        Writer::new(words, &about);
        file
    }

    fn found() -> Result<u64, PageError> {
        let own = Process::new(std::process::id()).unwrap();
        Page::of(&own).map(|page| page.view().unwrap().about().pid)
    }

    #[test]
    fn only_a_sealed_page_of_the_right_form_is_used() {
        let _turn = turn();
        assert!(matches!(found(), Err(PageError::Absent { .. })));
        for (size, seals) in [
            (SIZE as u64, SealFlags::empty()),
            (SIZE as u64, SealFlags::SHRINK),
            (0, SealFlags::SHRINK | SealFlags::GROW),
            (2 * SIZE as u64, SealFlags::SHRINK | SealFlags::GROW),
        ] {
            let file = odd(size, seals);
            assert!(matches!(found(), Err(PageError::Foreign { .. })), "{size}");
            drop(file);
        }
        let (blank, _mapping) = sealed_memfd::make(NAME, SIZE).unwrap();
        assert!(matches!(found(), Err(PageError::Layout { .. })));
        let _page = good();
        let hides = "one that cannot be used hides none that can";
        assert_eq!(found().unwrap(), 7, "{hides}");
        drop(blank);
        assert_eq!(found().unwrap(), 7);
    }

    #[test]
    fn a_machine_with_another_clock_is_told_by_its_own() {
        let _turn = turn();
        let file = good();
        let own = Process::new(std::process::id()).unwrap();
        let mut page = Page::of(&own).unwrap();
        assert_eq!(page.ahead_ns, 0);
        const HOUR: u64 = 3_600_000_000_000;
        for ahead_ns in [HOUR as i64, -(clock::now().0 as i64) / 2] {
            page.ahead_ns = ahead_ns;
            let theirs = Nanos(clock::now().0.saturating_add_signed(ahead_ns));
            assert!(page.our_time(theirs).0.abs_diff(clock::now().0) < HOUR / 60);
            page.wish(Some(Wish::stay(Bytes(7))));
            // SAFETY: as in `Page::words`; `page` outlives it.
            let words = unsafe { Words::new(page.mapping.base()) };
            let (writer, _) = Writer::new(words, &About::default());
            assert_eq!(writer.wish(theirs), Some(Wish::stay(Bytes(7))));
            let later = theirs + plimsoll_wire::collections::WISH_LASTS + Nanos(HOUR / 60);
            assert_eq!(writer.wish(later), None, "it ends");
        }
        drop(file);
    }

    /// The program does with its descriptor what it can, while we have the page mapped.
    #[test]
    fn a_page_that_its_program_cuts_empties_or_closes_is_read_without_harm() {
        let _turn = turn();
        let file = good();
        let own = Process::new(std::process::id()).unwrap();
        let page = Page::of(&own).unwrap();
        assert_eq!(ftruncate(&file, 0), Err(Errno::PERM));
        page.wish(Some(Wish::stay(Bytes::mib(1))));
        let view = page.view().unwrap();
        assert_eq!(view.totals(), None::<Totals>);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, hole, 0, SIZE as u64).unwrap();
        assert_eq!(page.view().unwrap_err(), ViewError::Magic);
        // A view that was taken before sees zeros.
        assert_eq!((view.about(), view.process()), (About::default(), None));
        page.wish(Some(Wish::stay(Bytes::mib(1))));
        drop(file);
        page.wish(None);
        assert_eq!(page.view().unwrap_err(), ViewError::Magic);
        assert!(matches!(found(), Err(PageError::Absent { .. })));
    }
}
