//! Every system call of the heap. Tests replace [`Linux`] with a scripted [`Os`].

mod fault_injection;
mod linux;
mod placement;

pub use fault_injection::{Call, FaultInjection};
pub use linux::Linux;

use std::io;
use std::ops::Range;

/// The requests of the heap to the kernel. Ranges are addresses in bytes; they start and end at superpage
/// boundaries or at the ends of the reservation. No call allocates with `malloc`: most are made while the
/// world is stopped.
///
/// # Safety
/// `reserve` and `map` return memory that nobody else uses; after `commit` it can be read and
/// written; `discard` leaves zeros; no other call changes its contents. `written` leaves out no page that
/// was written to since it was armed.
pub unsafe trait Os: Send + Sync {
    /// Finds `bytes` bytes of addresses for a heap, aligned to `alignment` (a power of two), and
    /// returns the first. They hold nothing yet and must not be touched before
    /// [`commit`](Os::commit).
    ///
    /// # Errors
    /// There are not as many addresses.
    fn reserve(&self, bytes: usize, alignment: usize) -> io::Result<usize>;

    /// Makes a part of the reservation readable and writable; it holds zeros. A part is committed
    /// once.
    ///
    /// # Errors
    /// Nothing was committed: the process may have no more addresses, the kernel promises no more
    /// memory (strict overcommit) or has no room for another mapping, or somebody else has mapped
    /// something there.
    fn commit(&self, range: Range<usize>) -> io::Result<()>;

    /// Takes a commit back, so that the part may be committed again. Its contents are lost.
    ///
    /// # Safety
    /// Nobody uses an address in `range`.
    unsafe fn uncommit(&self, range: Range<usize>);

    /// Gives a reservation back. None of it is committed any more.
    ///
    /// # Safety
    /// Nobody uses an address in `range`, which is all that one call of [`reserve`](Os::reserve) found.
    unsafe fn release(&self, range: Range<usize>);

    /// Maps `bytes` bytes outside of the reservation, and returns the first. They hold zeros.
    ///
    /// # Errors
    /// As for [`commit`](Os::commit).
    fn map(&self, bytes: usize) -> io::Result<usize>;

    /// Makes what [`map`](Os::map) mapped `bytes` bytes long, which is more than before, and
    /// returns its first byte: it may have moved. The rest holds zeros.
    ///
    /// # Safety
    /// Nobody uses an address in `range`.
    ///
    /// # Errors
    /// As for [`commit`](Os::commit). The mapping is as before.
    unsafe fn remap(&self, range: Range<usize>, bytes: usize) -> io::Result<usize>;

    /// Unmaps what [`map`](Os::map) mapped.
    ///
    /// # Safety
    /// Nobody uses an address in `range`, which is all that was mapped.
    unsafe fn unmap(&self, range: Range<usize>);

    /// Drops the contents of a range without reading them. It then holds zeros, and takes no memory
    /// until it is written to.
    ///
    /// # Errors
    /// Nothing was dropped, because the pages are locked.
    fn discard(&self, range: Range<usize>) -> io::Result<()>;

    /// Begins an inspection of pages; called when the world is stopped.
    fn open(&self) {}

    /// Ends the inspection that [`open`](Os::open) began.
    fn close(&self) {}

    /// Calls `tell` with each run of pages that are in swap, in address order. A run may be told
    /// twice.
    ///
    /// # Errors
    /// The kernel does not say: there is no `/proc`, or this process may not read it.
    fn swapped(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()>;

    /// Asks the kernel to read pages from swap soon.
    fn will_need(&self, range: Range<usize>);

    /// Asks the kernel to write pages to swap and free their memory.
    fn page_out(&self, range: Range<usize>);

    /// Marks pages as not used lately: when memory is short, the kernel evicts them first.
    fn cool(&self, range: Range<usize>);

    /// Tracks writes to a range, from when its pages are armed. One call per range is enough.
    ///
    /// # Errors
    /// The kernel is older than 6.7, or the process lacks the permission.
    fn track(&self, range: Range<usize>) -> io::Result<()>;

    /// Arms those pages of a tracked range that hold something: they count as not written to from
    /// now on.
    ///
    /// # Errors
    /// The range is not tracked, or no longer: a forked child, a closed descriptor.
    fn arm(&self, range: Range<usize>) -> io::Result<()>;

    /// Disarms pages, so that writes to them no longer fault. Pages that cannot be disarmed stay
    /// armed.
    fn disarm(&self, range: Range<usize>);

    /// Calls `tell` with each run of pages that were written to since they were armed, or were
    /// never armed.
    ///
    /// # Errors
    /// As for [`arm`](Os::arm); the caller must then assume that every page was written to.
    fn written(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()>;

    /// Called in a child of fork: forgets the state that belonged to the parent.
    fn forked(&self) {}
}
