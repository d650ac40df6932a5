//! A kernel that refuses: what fails, and when, somebody else says.

use super::Os;
use std::io;
use std::ops::Range;

/// The calls of [`Os`] that the kernel may refuse; a hint that it does not follow counts as refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Call {
    /// [`Os::reserve`]
    Reserve,
    /// [`Os::commit`]
    Commit,
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
    /// Every one.
    pub const ALL: [Call; 12] = [
        Call::Reserve,
        Call::Commit,
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

/// Passes calls on, but for those of which `refuses` says so. `refuses` may be asked while the
/// world stands still.
pub struct Unlucky<O, F> {
    os: O,
    refuses: F,
}

impl<O: Os, F: Fn(Call) -> bool + Send + Sync> Unlucky<O, F> {
    /// A kernel like `os`, with bad luck.
    pub fn new(os: O, refuses: F) -> Unlucky<O, F> {
        Unlucky { os, refuses }
    }

    fn ask(&self, call: Call) -> io::Result<()> {
        if (self.refuses)(call) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }

    /// A query breaks off: it has told of the first half.
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
unsafe impl<O: Os, F: Fn(Call) -> bool + Send + Sync> Os for Unlucky<O, F> {
    fn reserve(&self, bytes: usize, alignment: usize) -> io::Result<usize> {
        self.ask(Call::Reserve)?;
        self.os.reserve(bytes, alignment)
    }

    fn commit(&self, range: Range<usize>) -> io::Result<()> {
        self.ask(Call::Commit)?;
        self.os.commit(range)
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
