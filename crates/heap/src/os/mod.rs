//! Every system call of the heap. Tests put a scripted [`Os`] in the place of [`Linux`].

mod linux;
mod unlucky;

pub use linux::Linux;
pub use unlucky::{Call, Unlucky};

use std::io;
use std::ops::Range;

/// What the heap asks of the kernel. Ranges are addresses; they start and end at superpages or at
/// the ends of what was reserved. None of the calls allocates with `malloc`: most are made while
/// the world stands still.
///
/// # Safety
/// `reserve` gives memory that nobody else has; after `commit` it may be read and written;
/// `discard` leaves zeros; no other call changes what is in it. `written` leaves out no page that
/// was written to since it was armed.
pub unsafe trait Os: Send + Sync {
    /// Addresses that hold nothing yet and may not be touched: so many bytes, aligned to
    /// `alignment` (a power of two).
    ///
    /// # Errors
    /// There is no such room: a limit on addresses, or the machine has no more.
    fn reserve(&self, bytes: usize, alignment: usize) -> io::Result<usize>;

    /// Makes a part of what was reserved readable and writable; it holds zeros.
    ///
    /// # Errors
    /// The kernel promises no more memory (strict overcommit), or has no room for the mapping.
    fn commit(&self, range: Range<usize>) -> io::Result<()>;

    /// Drops what is in a part, unread: it holds zeros, and takes no memory until it is written.
    ///
    /// # Errors
    /// Nothing was dropped: locked pages.
    fn discard(&self, range: Range<usize>) -> io::Result<()>;

    /// Begins a look at pages, when the world is stopped.
    fn open(&self) {}

    /// Ends it.
    fn close(&self) {}

    /// Tells each run of pages that are in swap, by address; some perhaps twice.
    ///
    /// # Errors
    /// The kernel does not say: no `/proc`, or not for this process.
    fn swapped(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()>;

    /// Asks that pages in swap be read soon.
    fn will_need(&self, range: Range<usize>);

    /// Asks that pages be written to swap and their memory taken.
    fn page_out(&self, range: Range<usize>);

    /// Says of pages that nobody has used them lately: where memory is short they are the first to go.
    fn cool(&self, range: Range<usize>);

    /// Has writes to a range tracked, from when pages of it are armed; once is enough.
    ///
    /// # Errors
    /// The kernel is older than 6.7, or the process may not.
    fn track(&self, range: Range<usize>) -> io::Result<()>;

    /// Arms the pages of a tracked range that hold something: from now on they were not written to.
    ///
    /// # Errors
    /// The range is not tracked (any more): a forked child, a closed descriptor.
    fn arm(&self, range: Range<usize>) -> io::Result<()>;

    /// Takes back that pages were armed: writes to them are no faults any more. What cannot be
    /// taken back stays.
    fn disarm(&self, range: Range<usize>);

    /// Tells each run of pages that were written to since they were armed, or never were armed.
    ///
    /// # Errors
    /// As [`arm`](Os::arm): everything may have been written to.
    fn written(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()>;

    /// In a child of fork: forgets what was the parent's.
    fn forked(&self) {}
}
