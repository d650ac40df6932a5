//! A kernel that refuses calls; a test decides which.

use super::Os;
use std::io;
use std::ops::Range;

/// The calls of [`Os`] that the kernel may refuse. A hint that has no effect counts as refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Call {
    /// [`Os::reserve`]
    Reserve,
    /// [`Os::commit`]
    Commit,
    /// [`Os::map`] or [`Os::remap`]
    Map,
    /// [`Os::discard`]
    Discard,
    /// [`Os::open`]
    Open,
    /// [`Os::swapped`]
    Swapped,
    /// [`Os::will_need`]
    WillNeed,
    /// [`Os::page_out`]
    PageOut,
    /// [`Os::cool`]
    Cool,
    /// [`Os::track`]
    Track,
    /// [`Os::arm`]
    Arm,
    /// [`Os::disarm`]
    Disarm,
    /// [`Os::written`]
    Written,
}

impl Call {
    /// Every call.
    pub const ALL: [Call; 13] = [
        Call::Reserve,
        Call::Commit,
        Call::Map,
        Call::Discard,
        Call::Open,
        Call::Swapped,
        Call::WillNeed,
        Call::PageOut,
        Call::Cool,
        Call::Track,
        Call::Arm,
        Call::Disarm,
        Call::Written,
    ];
}

/// Passes calls on to `os`, unless `refuses` returns true for them. `refuses` may be called while
/// the world is stopped.
pub struct FaultInjection<O, F> {
    os: O,
    refuses: F,
}

impl<O: Os, F: Fn(Call) -> bool + Send + Sync> FaultInjection<O, F> {
    /// Wraps `os`; `refuses` decides which calls fail.
    pub fn new(os: O, refuses: F) -> FaultInjection<O, F> {
        FaultInjection { os, refuses }
    }

    fn ask(&self, call: Call) -> io::Result<()> {
        if (self.refuses)(call) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }

    /// Tells the first half of a query's range, as if the query broke off there.
    fn tell_half(
        &self,
        call: Call,
        range: Range<usize>,
        ask: impl FnOnce(&O, Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Err(refused) = self.ask(call) else {
            return ask(&self.os, range);
        };
        let half = crate::SUPERPAGE * (range.len() / crate::SUPERPAGE / 2);
        if half > 0 {
            ask(&self.os, range.start..range.start + half)?;
        }
        Err(refused)
    }
}

// SAFETY: what is done is done by `os`; what is not done is said to have failed, or is a hint.
unsafe impl<O: Os, F: Fn(Call) -> bool + Send + Sync> Os for FaultInjection<O, F> {
    fn reserve(&self, bytes: usize, alignment: usize) -> io::Result<usize> {
        self.ask(Call::Reserve)?;
        self.os.reserve(bytes, alignment)
    }

    fn commit(&self, range: Range<usize>) -> io::Result<()> {
        self.ask(Call::Commit)?;
        self.os.commit(range)
    }

    unsafe fn uncommit(&self, range: Range<usize>) {
        // SAFETY: the caller's.
        unsafe { self.os.uncommit(range) }
    }

    unsafe fn release(&self, range: Range<usize>) {
        // SAFETY: the caller's.
        unsafe { self.os.release(range) }
    }

    unsafe fn unmap(&self, range: Range<usize>) {
        // SAFETY: the caller's.
        unsafe { self.os.unmap(range) }
    }

    fn map(&self, bytes: usize) -> io::Result<usize> {
        self.ask(Call::Map)?;
        self.os.map(bytes)
    }

    unsafe fn remap(&self, range: Range<usize>, bytes: usize) -> io::Result<usize> {
        self.ask(Call::Map)?;
        // SAFETY: the caller's.
        unsafe { self.os.remap(range, bytes) }
    }

    fn discard(&self, range: Range<usize>) -> io::Result<()> {
        self.ask(Call::Discard)?;
        self.os.discard(range)
    }

    fn open(&self) {
        if self.ask(Call::Open).is_ok() {
            self.os.open();
        }
    }

    fn close(&self) {
        self.os.close();
    }

    fn swapped(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()> {
        self.tell_half(Call::Swapped, range, |os, range| os.swapped(range, tell))
    }

    fn will_need(&self, range: Range<usize>) {
        if self.ask(Call::WillNeed).is_ok() {
            self.os.will_need(range);
        }
    }

    fn page_out(&self, range: Range<usize>) {
        if self.ask(Call::PageOut).is_ok() {
            self.os.page_out(range);
        }
    }

    fn cool(&self, range: Range<usize>) {
        if self.ask(Call::Cool).is_ok() {
            self.os.cool(range);
        }
    }

    fn track(&self, range: Range<usize>) -> io::Result<()> {
        self.ask(Call::Track)?;
        self.os.track(range)
    }

    fn arm(&self, range: Range<usize>) -> io::Result<()> {
        self.tell_half(Call::Arm, range, |os, range| os.arm(range))
    }

    fn disarm(&self, range: Range<usize>) {
        if self.ask(Call::Disarm).is_ok() {
            self.os.disarm(range);
        }
    }

    fn written(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()> {
        self.tell_half(Call::Written, range, |os, range| os.written(range, tell))
    }

    fn forked(&self) {
        self.os.forked();
    }
}
