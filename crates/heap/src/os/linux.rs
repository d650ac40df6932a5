//! The real kernel.

use super::{Os, placement};
use plimsoll_kernel::pagemap_scan::{self, Query, SWAPPED};
use plimsoll_kernel::pages::open_own;
use plimsoll_kernel::{pagemap, write_tracking};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mprotect,
    mremap, munmap,
};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A whole number of pages of every supported kernel.
const WHOLE_PAGES: usize = 64 << 10;

/// Makes the system calls.
#[derive(Debug, Default)]
pub struct Linux {
    files: Mutex<Files>,
    /// The place of the reservation, if only its committed parts are mapped; empty without a reservation, and
    /// if all of it is mapped.
    place: Mutex<Range<usize>>,
}

/// The part of [`Linux`] under its lock.
#[derive(Debug, Default)]
struct Files {
    /// `/proc/self/pagemap`, open during a collection only: a program may close descriptors that it
    /// does not know.
    pagemap: Option<OwnedFd>,
    /// The userfaultfd by which the kernel tracks writes, once it does.
    tracker: Option<OwnedFd>,
    /// The kernel lacks the query for writes: it is not tried again.
    untrackable: bool,
}

impl Linux {
    /// Nothing is open yet.
    pub const fn new() -> Linux {
        Linux {
            files: Mutex::new(Files {
                pagemap: None,
                tracker: None,
                untrackable: false,
            }),
            place: Mutex::new(0..0),
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> MutexGuard<'_, Range<usize>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_in_place(&self, range: &Range<usize>) -> bool {
        self.place().contains(&range.start)
    }

    fn advise(range: Range<usize>, advice: Advice) {
        // SAFETY: no advice that is passed here changes contents. Advice that the kernel does not follow
        // costs time only.
        let _ = unsafe { madvise(range.start as *mut _, range.len(), advice) };
    }
}

impl Drop for Linux {
    fn drop(&mut self) {
        let files = self.files.get_mut();
        close(files.unwrap_or_else(PoisonError::into_inner).tracker.take());
    }
}

/// Closes a tracker, if its number is its own still.
fn close(tracker: Option<OwnedFd>) {
    if let Some(tracker) = tracker.filter(|tracker| !is_a_tracker(tracker)) {
        std::mem::forget(tracker);
    }
}

/// Whether this is a tracker still. The program may have closed it, and its number may be that of
/// another descriptor by now: then it is not ours to close.
fn is_a_tracker(descriptor: &OwnedFd) -> bool {
    let here = (&raw const descriptor).addr() / WHOLE_PAGES * WHOLE_PAGES;
    let said = write_tracking::disarm(descriptor, here..here + WHOLE_PAGES);
    said.is_err_and(|why| why.kind() == io::ErrorKind::NotFound)
}

/// Unmaps a range. If the kernel refuses, because a mapping would become two and the process has no more,
/// it stays mapped: a later commit of it fails.
///
/// # Safety
/// Nobody uses an address in it.
unsafe fn unmap(range: Range<usize>) {
    // SAFETY: the caller's.
    let _ = unsafe { munmap(range.start as *mut _, range.len()) };
}

/// Maps all of a range, as inaccessible: where nothing can be mapped at a given address. As many
/// addresses again have to stay for the rest of the program.
fn reserve_mapped(bytes: usize, alignment: usize) -> io::Result<usize> {
    let room = bytes
        .checked_mul(2)
        .and_then(|bytes| bytes.checked_add(alignment))
        .ok_or(io::ErrorKind::OutOfMemory)?;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe {
        mmap_anonymous(
            null_mut(),
            room,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )?
    } as usize;
    let aligned = start.next_multiple_of(alignment);
    for rest in [start..aligned, aligned + bytes..start + room] {
        if !rest.is_empty() {
            // SAFETY: both are ends of the mapping made above; nobody has seen them.
            unsafe { munmap(rest.start as *mut _, rest.len())? };
        }
    }
    Ok(aligned)
}

/// Makes the mapping that ends where a range begins longer by that range.
fn lengthen(range: Range<usize>) -> io::Result<()> {
    let last = range.start - WHOLE_PAGES;
    // SAFETY: the mapping does not move, and grows only where nothing is mapped. The mapping before the range
    // is the reservation's.
    unsafe {
        mremap(
            last as *mut _,
            WHOLE_PAGES,
            WHOLE_PAGES + range.len(),
            MremapFlags::empty(),
        )?
    };
    Ok(())
}

impl Files {
    fn pagemap(&self) -> io::Result<BorrowedFd<'_>> {
        let open = self.pagemap.as_ref().map(AsFd::as_fd);
        open.ok_or(io::ErrorKind::NotConnected.into())
    }

    /// Calls `tell` with each run of pages that matches a query.
    fn scan(
        &self,
        range: Range<usize>,
        query: Query,
        tell: &mut dyn FnMut(Range<usize>),
    ) -> io::Result<()> {
        let range = range.start as u64..range.end as u64;
        pagemap_scan::walk(self.pagemap()?, range, query, &mut |run, _| {
            tell(run.start as usize..run.end as usize);
            true
        })
    }
}

// SAFETY: mmap gives fresh memory; the kernel documents the rest (mmap(2), mprotect(2), madvise(2)).
unsafe impl Os for Linux {
    fn reserve(&self, bytes: usize, alignment: usize) -> io::Result<usize> {
        let Ok(place) = placement::find(bytes, alignment) else {
            return reserve_mapped(bytes, alignment);
        };
        *self.place() = place.clone();
        Ok(place.start)
    }

    fn commit(&self, range: Range<usize>) -> io::Result<()> {
        if !self.is_in_place(&range) {
            let flags = MprotectFlags::READ | MprotectFlags::WRITE;
            // SAFETY: a part of what was reserved, so nobody relies on it being inaccessible.
            unsafe { mprotect(range.start as *mut _, range.len(), flags)? };
            return Ok(());
        }
        let begins = self.place().start == range.start;
        match placement::map(range.clone(), ProtFlags::READ | ProtFlags::WRITE) {
            Ok(()) => Ok(()),
            // The mapping before the reservation belongs to somebody else.
            Err(why) if begins => Err(why.into()),
            // A process that has no mappings left can still make one longer.
            Err(why) => lengthen(range).map_err(|_| why.into()),
        }
    }

    unsafe fn uncommit(&self, range: Range<usize>) {
        if self.is_in_place(&range) {
            // SAFETY: the caller's.
            unsafe { unmap(range) };
        }
    }

    unsafe fn release(&self, range: Range<usize>) {
        if self.is_in_place(&range) {
            *self.place() = 0..0;
            return placement::give_back(range.start);
        }
        // SAFETY: the caller's.
        unsafe { unmap(range) };
    }

    fn map(&self, bytes: usize) -> io::Result<usize> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        Ok(unsafe { mmap_anonymous(null_mut(), bytes, protection, flags)? } as usize)
    }

    unsafe fn unmap(&self, range: Range<usize>) {
        // SAFETY: the caller's.
        unsafe { unmap(range) };
    }

    unsafe fn remap(&self, range: Range<usize>, bytes: usize) -> io::Result<usize> {
        let start = range.start as *mut _;
        // SAFETY: the caller vouches for it.
        Ok(unsafe { mremap(start, range.len(), bytes, MremapFlags::MAYMOVE)? } as usize)
    }

    fn discard(&self, range: Range<usize>) -> io::Result<()> {
        // SAFETY: the caller wants what is in it dropped.
        unsafe { madvise(range.start as *mut _, range.len(), Advice::LinuxDontNeed)? };
        Ok(())
    }

    fn open(&self) {
        self.files().pagemap = open_own().ok();
    }

    fn close(&self) {
        self.files().pagemap = None;
    }

    fn swapped(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()> {
        let files = self.files();
        if files
            .scan(range.clone(), Query::any_of(SWAPPED), tell)
            .is_ok()
        {
            return Ok(());
        }
        // Used before Linux 6.7, or where a filter refuses the query. Runs that were told already
        // are told again.
        let range = range.start as u64..range.end as u64;
        pagemap::walk(files.pagemap()?, range, SWAPPED, &mut |run, _| {
            tell(run.start as usize..run.end as usize);
            true
        })
    }

    fn will_need(&self, range: Range<usize>) {
        Linux::advise(range, Advice::WillNeed);
    }

    fn page_out(&self, range: Range<usize>) {
        Linux::advise(range, Advice::LinuxPageOut);
    }

    fn cool(&self, range: Range<usize>) {
        Linux::advise(range, Advice::LinuxCold);
    }

    fn track(&self, range: Range<usize>) -> io::Result<()> {
        let mut files = self.files();
        if let Some(tracker) = &files.tracker {
            match write_tracking::register(tracker, range.clone()) {
                // Without this tracker, the ranges that it tracks could not be tracked by another one.
                Err(why) if is_a_tracker(tracker) => return Err(why),
                Ok(()) => return Ok(()),
                Err(_) => {}
            }
        }
        // The number may by now be that of a descriptor of the program's, so it is not closed.
        std::mem::forget(files.tracker.take());
        let unknown = io::Error::from_raw_os_error(rustix::io::Errno::NOSYS.raw_os_error());
        if files.untrackable {
            return Err(unknown);
        }
        let tracker = write_tracking::new();
        files.untrackable =
            matches!(&tracker, Err(why) if why.raw_os_error() == unknown.raw_os_error());
        let tracker = tracker?;
        write_tracking::register(&tracker, range)?;
        files.tracker = Some(tracker);
        Ok(())
    }

    fn arm(&self, range: Range<usize>) -> io::Result<()> {
        self.files().scan(range, Query::ARM, &mut |_| {})
    }

    fn disarm(&self, range: Range<usize>) {
        if let Some(tracker) = &self.files().tracker {
            // If this fails, writes to the range fault once more, without harm.
            let _ = write_tracking::disarm(tracker, range);
        }
    }

    fn written(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()> {
        self.files().scan(range, Query::WRITTEN, tell)
    }

    fn forked(&self) {
        let mut files = self.files();
        // These files describe the parent's pages; the parent's own descriptors stay open.
        files.pagemap = None;
        close(files.tracker.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_is_reserved_is_aligned_zero_and_zero_again() {
        let alignment = 1 << 20;
        let linux = Linux::new();
        let start = linux.reserve(3 << 20, alignment).unwrap();
        assert_eq!(start % alignment, 0);
        let range = start..start + (1 << 20);
        linux.commit(range.clone()).unwrap();
        // SAFETY: committed just now.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, range.len()) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        bytes.fill(1);
        linux.discard(range).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0));
    }

    /// Nothing is mapped in advance, and nobody else's mapping is replaced.
    #[test]
    fn a_reservation_takes_no_addresses_before_they_are_committed() {
        let linux = Linux::new();
        let start = linux.reserve(1 << 40, 2 << 20).unwrap();
        let first = start..start + (1 << 20);
        placement::map(first.clone(), ProtFlags::empty()).expect("nothing is mapped");
        assert!(linux.commit(first.clone()).is_err(), "somebody has this");
        // SAFETY: nobody uses it.
        unsafe { linux.uncommit(first.clone()) };
        linux.commit(first.clone()).unwrap();
        assert!(linux.commit(first.clone()).is_err(), "committed once");
        // A longer range that begins where the first ends is one mapping with it.
        linux.commit(first.end..first.end + (1 << 20)).unwrap();
        assert!(lengthen(first.end + (1 << 20)..first.end + (2 << 20)).is_ok());
        let other = Linux::new().reserve(1 << 40, 2 << 20).unwrap();
        assert!(other >= start + (1 << 40) || other + (1 << 40) <= start);
    }

    /// A heap that got no memory at its first place looks for another one.
    #[test]
    fn a_second_reservation_is_at_a_place_of_its_own() {
        let (linux, bytes, alignment) = (Linux::new(), 1 << 30, 2 << 20);
        let first = linux.reserve(bytes, alignment).unwrap();
        // SAFETY: nothing was committed.
        unsafe { linux.release(first..first + bytes) };
        placement::map(first..first + alignment, ProtFlags::empty()).expect("nothing is mapped");
        let second = linux.reserve(bytes, alignment).unwrap();
        let part = second..second + alignment;
        linux.commit(part.clone()).expect("nobody has it");
        // SAFETY: nobody uses it.
        unsafe {
            linux.uncommit(part.clone());
            linux.release(second..second + bytes);
            linux.uncommit(first..first + alignment);
        }
        placement::map(part.clone(), ProtFlags::empty()).expect("it was unmapped");
    }

    /// A range that cannot be tracked leaves others tracked.
    #[test]
    fn tracking_goes_on_after_a_range_that_cannot_be_tracked() {
        let (linux, bytes) = (Linux::new(), 1 << 20);
        let start = linux.reserve(2 * bytes, bytes).unwrap();
        let range = start..start + bytes;
        linux.commit(range.clone()).unwrap();
        if let Err(error) = linux.track(range.clone()) {
            plimsoll_testbed::skip(format_args!("no write tracking here: {error}"));
            return;
        }
        assert!(
            linux.track(range.end..range.end + bytes).is_err(),
            "not mapped"
        );
        linux.track(range).expect("as before");
    }

    /// The program closed the tracker, and its number is that of another file.
    #[test]
    fn a_child_closes_no_file_of_the_program() {
        let linux = Linux::new();
        let start = linux.reserve(1 << 20, 1 << 20).unwrap();
        linux.commit(start..start + (1 << 20)).unwrap();
        if let Err(error) = linux.track(start..start + (1 << 20)) {
            plimsoll_testbed::skip(format_args!("no write tracking here: {error}"));
            return;
        }
        let number = linux
            .files()
            .tracker
            .as_ref()
            .map(AsRawFd::as_raw_fd)
            .unwrap();
        let other = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the number is that of the tracker, which nobody uses meanwhile.
        unsafe {
            assert_eq!(libc::dup2(other.as_raw_fd(), number), number);
            linux.forked();
            assert_eq!(libc::close(number), 0, "it is open");
        }
    }

    #[test]
    fn a_mapping_grows_with_its_contents() {
        let linux = Linux::new();
        let start = linux.map(64 << 10).unwrap();
        // SAFETY: mapped just now; then at its new place.
        unsafe {
            *(start as *mut usize) = 7;
            let moved = linux.remap(start..start + (64 << 10), 64 << 20).unwrap();
            assert_eq!(*(moved as *mut usize), 7);
            assert_eq!(*((moved + (63 << 20)) as *mut usize), 0);
        }
    }

    /// How swap affects write tracking is tested elsewhere, on machines with swap.
    #[test]
    fn writes_are_tracked_from_when_pages_are_armed() {
        let linux = Linux::new();
        let bytes = 1 << 20;
        let start = linux.reserve(bytes, bytes).unwrap();
        let range = start..start + bytes;
        linux.commit(range.clone()).unwrap();
        linux.open();
        if let Err(error) = linux.track(range.clone()) {
            plimsoll_testbed::skip(format_args!("no write tracking here: {error}"));
            return;
        }
        let touch = |page: usize| {
            // SAFETY: committed above.
            unsafe { ((start + page * 4096) as *mut u8).write_volatile(1) };
        };
        (0..100).for_each(touch);
        linux.arm(range.clone()).unwrap();
        let seen = || {
            let mut seen = Vec::new();
            let armed = start..start + 100 * 4096;
            linux
                .written(armed, &mut |run| {
                    seen.push((run.start - start) / 4096..(run.end - start) / 4096);
                })
                .unwrap();
            seen
        };
        assert_eq!(seen(), []);
        touch(3);
        touch(99);
        assert_eq!(seen(), [3..4, 99..100]);
        let mut swapped = 0;
        linux
            .swapped(range.clone(), &mut |run| swapped += run.len())
            .unwrap();
        assert_eq!(swapped, 0, "arming leaves no marks where nothing is");
        let armed = start..start + 100 * 4096;
        linux.arm(armed).unwrap();
        linux.disarm(start + 10 * 4096..start + 20 * 4096);
        let expected = 10..20;
        assert_eq!(seen(), [expected]);
        linux.close();
        assert!(linux.arm(range).is_err());
    }

    #[test]
    fn more_than_there_are_addresses_is_an_error() {
        assert!(Linux::new().reserve(usize::MAX / 2, 1 << 20).is_err());
        assert!(Linux::new().reserve(usize::MAX - 5, 1 << 20).is_err());
    }
}
