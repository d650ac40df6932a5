//! A fake kernel that evicts superpages as a test says, and notes what brings them back. An evicted
//! superpage cannot be touched without a fault, and an armed one cannot be written to without one;
//! the fault handler plays the kernel's part.

use plimsoll_heap::SUPERPAGE;
use plimsoll_heap::os::{Linux, Os};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once};

const ABSENT: u8 = 1;
const ARMED: u8 = 2;

/// The state of one heap's pages.
pub(crate) struct Pages {
    start: AtomicUsize,
    states: Vec<AtomicU8>,
    /// Absent superpages that were touched.
    pub(crate) faults: AtomicUsize,
    /// Superpages that were requested from swap, and superpages that were given back.
    pub(crate) asked: AtomicUsize,
    pub(crate) given: AtomicUsize,
    /// Bytes of tables that can be used, and how often a table was made longer.
    pub(crate) tables: AtomicUsize,
    pub(crate) lengthened: AtomicUsize,
    /// Calls that fail: queries for residency, tracking of writes.
    pub(crate) blind: AtomicUsize,
    pub(crate) untracked: AtomicUsize,
    /// All reserved ranges.
    reserved: Mutex<Vec<Range<usize>>>,
}

/// The heaps of all running tests, for the fault handler.
static HEAPS: Mutex<Vec<Arc<Pages>>> = Mutex::new(Vec::new());

impl Pages {
    fn range(&self) -> Range<usize> {
        let start = self.start.load(SeqCst);
        start..start + self.states.len() * SUPERPAGE
    }

    fn each(&self, range: Range<usize>, mut tell: impl FnMut(usize, &AtomicU8)) {
        let start = self.start.load(SeqCst);
        for at in (range.start - start) / SUPERPAGE..(range.end - start).div_ceil(SUPERPAGE) {
            tell(start + at * SUPERPAGE, &self.states[at]);
        }
    }

    fn set(&self, address: usize, state: &AtomicU8, to: u8) {
        state.store(to, SeqCst);
        let protection = match to {
            0 => libc::PROT_READ | libc::PROT_WRITE,
            ARMED => libc::PROT_READ,
            _ => libc::PROT_NONE,
        };
        // SAFETY: a superpage of the heap; what it holds stays.
        assert_eq!(
            // SAFETY: as above.
            unsafe { libc::mprotect(address as *mut _, SUPERPAGE, protection) },
            0
        );
    }

    /// Evicts the superpages of a range.
    pub(crate) fn evict(&self, range: Range<usize>) {
        self.each(range, |address, state| {
            self.set(address, state, state.load(SeqCst) | ABSENT);
        });
    }

    /// How many superpages of a range are absent.
    pub(crate) fn absent(&self, range: Range<usize>) -> usize {
        let mut count = 0;
        self.each(range, |_, state| {
            count += usize::from(state.load(SeqCst) & ABSENT != 0);
        });
        count
    }

    /// Unmaps everything that the heap has: a process has room for a few thousand heaps only.
    ///
    /// # Safety
    /// Neither the heap nor its markers are used any more.
    pub(crate) unsafe fn unmap(&self) {
        HEAPS
            .lock()
            .unwrap()
            .retain(|pages| !std::ptr::eq(pages.as_ref(), self));
        for range in self.reserved.lock().unwrap().drain(..) {
            // SAFETY: reserved for this heap, see above.
            let ended = unsafe { libc::munmap(range.start as *mut _, range.len()) };
            assert_eq!(ended, 0);
        }
    }

    /// Writes a word to the heap without a trace of the write.
    pub(crate) fn write_unseen(&self, address: usize, word: usize) {
        self.each(address..address + size_of::<usize>(), |superpage, state| {
            let before = state.load(SeqCst);
            self.set(superpage, state, 0);
            // SAFETY: a word of an object.
            unsafe { *(address as *mut usize) = word };
            self.set(superpage, state, before);
        });
    }

    fn bring_back(&self, address: usize, state: &AtomicU8) {
        self.set(address, state, state.load(SeqCst) & !ABSENT);
    }

    fn tell_runs(
        &self,
        range: Range<usize>,
        is: impl Fn(u8) -> bool,
        tell: &mut dyn FnMut(Range<usize>),
    ) {
        self.each(range, |address, state| {
            if is(state.load(SeqCst)) {
                tell(address..address + SUPERPAGE);
            }
        });
    }
}

/// The part of the kernel that a heap sees.
pub(crate) struct Fake {
    linux: Linux,
    pages: Arc<Pages>,
}

impl Fake {
    /// A fake kernel for one heap of at most `most` bytes.
    pub(crate) fn new(most: usize) -> (Fake, Arc<Pages>) {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(install);
        let pages = Arc::new(Pages {
            start: AtomicUsize::new(0),
            states: (0..most / SUPERPAGE).map(|_| AtomicU8::new(0)).collect(),
            faults: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            given: AtomicUsize::new(0),
            tables: AtomicUsize::new(0),
            lengthened: AtomicUsize::new(0),
            blind: AtomicUsize::new(0),
            untracked: AtomicUsize::new(0),
            reserved: Mutex::default(),
        });
        HEAPS.lock().unwrap().push(pages.clone());
        let fake = Fake {
            linux: Linux::new(),
            pages: pages.clone(),
        };
        (fake, pages)
    }

    /// The part of a range that lies in the heap; metadata is never evicted here.
    fn of_heap(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let heap = self.pages.range();
        (heap.start != 0 && range.start >= heap.start && range.end <= heap.end)
            .then(|| range.clone())
    }
}

// SAFETY: as `Linux`; what is evicted keeps its contents, and comes back when it is touched.
unsafe impl Os for Fake {
    fn reserve(&self, bytes: usize, alignment: usize) -> io::Result<usize> {
        let start = self.linux.reserve(bytes, alignment)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // All of it is mapped, so that any part can be evicted.
        // SAFETY: addresses that were found for this heap alone.
        let mapped = unsafe { libc::mmap(start as *mut _, bytes, libc::PROT_NONE, flags, -1, 0) };
        assert_eq!(mapped as usize, start);
        let range = start..start + bytes;
        self.pages.reserved.lock().unwrap().push(range);
        if self.pages.start.load(SeqCst) == 0 {
            // The metadata comes first, then the heap.
            let heap = self.pages.states.len() * SUPERPAGE;
            self.pages.start.store(start + bytes - heap, SeqCst);
        }
        Ok(start)
    }

    fn commit(&self, range: Range<usize>) -> io::Result<()> {
        let heap = self.pages.range();
        let first = self.pages.reserved.lock().unwrap()[0].start;
        if (first..heap.start).contains(&range.start) {
            self.pages.tables.fetch_add(range.len(), SeqCst);
            self.pages.lengthened.fetch_add(1, SeqCst);
        }
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a part of what was reserved.
        match unsafe { libc::mprotect(range.start as *mut _, range.len(), both) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    unsafe fn uncommit(&self, _: Range<usize>) {}

    unsafe fn release(&self, _: Range<usize>) {
        // SAFETY: the caller's; nothing of this kernel is used after that.
        unsafe { self.pages.unmap() };
    }

    unsafe fn unmap(&self, range: Range<usize>) {
        self.pages
            .reserved
            .lock()
            .unwrap()
            .retain(|other| *other != range);
        // SAFETY: the caller's.
        unsafe { self.linux.unmap(range) };
    }

    fn map(&self, bytes: usize) -> io::Result<usize> {
        let start = self.linux.map(bytes)?;
        self.pages
            .reserved
            .lock()
            .unwrap()
            .push(start..start + bytes);
        Ok(start)
    }

    unsafe fn remap(&self, range: Range<usize>, bytes: usize) -> io::Result<usize> {
        // SAFETY: the caller's.
        let start = unsafe { self.linux.remap(range.clone(), bytes)? };
        let mut all = self.pages.reserved.lock().unwrap();
        let of_it = all.iter_mut().find(|other| **other == range).unwrap();
        *of_it = start..start + bytes;
        Ok(start)
    }

    fn discard(&self, range: Range<usize>) -> io::Result<()> {
        if let Some(range) = self.of_heap(&range) {
            self.pages
                .each(range, |address, state| self.pages.set(address, state, 0));
        }
        self.linux.discard(range)
    }

    fn swapped(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()> {
        if self.pages.blind.load(SeqCst) != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.pages
            .tell_runs(range, |state| state & ABSENT != 0, tell);
        Ok(())
    }

    fn will_need(&self, range: Range<usize>) {
        self.pages.each(range, |address, state| {
            self.pages.asked.fetch_add(1, SeqCst);
            self.pages.bring_back(address, state);
        });
    }

    fn page_out(&self, range: Range<usize>) {
        if let Some(range) = self.of_heap(&range) {
            self.pages.given.fetch_add(range.len() / SUPERPAGE, SeqCst);
            self.pages.evict(range);
        }
    }

    fn cool(&self, _: Range<usize>) {}

    fn track(&self, _: Range<usize>) -> io::Result<()> {
        match self.pages.untracked.load(SeqCst) {
            0 => Ok(()),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    fn arm(&self, range: Range<usize>) -> io::Result<()> {
        self.pages.each(range, |address, state| {
            self.pages.set(address, state, state.load(SeqCst) | ARMED);
        });
        Ok(())
    }

    fn disarm(&self, range: Range<usize>) {
        self.pages.each(range, |address, state| {
            self.pages.set(address, state, state.load(SeqCst) & !ARMED);
        });
    }

    fn written(&self, range: Range<usize>, tell: &mut dyn FnMut(Range<usize>)) -> io::Result<()> {
        self.pages
            .tell_runs(range, |state| state & ARMED == 0, tell);
        Ok(())
    }
}

/// Installs a handler that treats faults as the kernel would.
fn install() {
    // SAFETY: a handler that only uses atomics and mprotect, but for a lock that no thread holds
    // while it touches a heap.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &action, &raw mut BEFORE);
    }
}

/// The handler that was installed before: a fuzzer's, a sanitizer's.
static mut BEFORE: libc::sigaction = {
    // SAFETY: zeros are the default action.
    unsafe { std::mem::zeroed() }
};

extern "C" fn on_fault(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel's information on this fault.
    let address = unsafe { (*info).si_addr() } as usize;
    let heaps = HEAPS.lock().unwrap();
    let Some(pages) = heaps.iter().find(|pages| pages.range().contains(&address)) else {
        // A real fault is left to the previous handler, when the instruction runs again.
        // SAFETY: written once, before the first heap.
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const BEFORE, std::ptr::null_mut()) };
        return;
    };
    let at = (address - pages.range().start) / SUPERPAGE;
    let state = &pages.states[at];
    let superpage = pages.range().start + at * SUPERPAGE;
    if state.load(SeqCst) & ABSENT != 0 {
        pages.faults.fetch_add(1, SeqCst);
        pages.bring_back(superpage, state);
    } else {
        // A write to an armed superpage. A fault in a page that was never committed would repeat
        // for ever.
        assert_ne!(state.load(SeqCst), 0);
        pages.set(superpage, state, 0);
    }
}
