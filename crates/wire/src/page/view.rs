//! The reader's side: loads from a mapped page.

use super::{Level, MAGIC, Numbers, PAGE_SIZE, STALE_AFTER, VERSION, offset};
use plimsoll_unit::{Bytes, Nanos};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of 8 bytes on a page.
const WORDS: usize = PAGE_SIZE / 8;
/// Tries before a reader gives up on an odd sequence. A writer keeps it odd for three short system
/// calls; a writer that died in between keeps it odd for ever.
const TRIES: usize = 1000;

/// Why a file is not an availability page of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The first bytes are wrong: not a page, or a truncated one.
    #[error("it does not begin with PLIMSOLL: it is no availability page, or it was truncated")]
    Magic,
    /// A layout of another version.
    #[error("its layout version is {0}, this program reads {VERSION}: update the older of the two")]
    Version(u32),
    /// The size is not that of the layout.
    #[error("it says that it is {0} bytes long, expected {PAGE_SIZE}")]
    Size(u32),
}

/// A consistent set of a page's contents at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The numbers.
    pub numbers: Numbers,
    /// `CLOCK_MONOTONIC` ns of the broker's last sign of life.
    pub heartbeat: u64,
    /// Counts changes of the numbers.
    pub generation: u64,
    /// The principal's id.
    pub id: u64,
}

impl Reading {
    /// Whether the broker that wrote this is gone, judged by the heartbeat. `now` is
    /// `CLOCK_MONOTONIC`.
    pub fn is_stale(&self, now: Nanos) -> bool {
        now - Nanos(self.heartbeat) > STALE_AFTER
    }
}

/// A mapped page. Reading takes no lock, makes no system call and never blocks the writer.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    words: &'a [AtomicU64; WORDS],
}

impl<'a> PageView<'a> {
    /// Makes a view of a mapped page.
    ///
    /// # Safety
    /// `base` is aligned to 8 and points to [`PAGE_SIZE`] bytes that stay mapped and readable for
    /// `'a`; whoever else writes them does so by atomic stores or through the file (`pwrite`).
    pub unsafe fn new(base: NonNull<u8>) -> PageView<'a> {
        debug_assert!(base.as_ptr().addr().is_multiple_of(8));
        // SAFETY: the caller vouches for alignment, length and lifetime; AtomicU64 has the layout
        // of u64 and every bit pattern is a value.
        let words = unsafe { base.cast::<[AtomicU64; WORDS]>().as_ref() };
        PageView { words }
    }

    /// Makes a view of words in this process's own memory (tests, simulations).
    pub fn of_words(words: &'a [AtomicU64; WORDS]) -> PageView<'a> {
        PageView { words }
    }

    /// Checks that this is a page of a known layout. Call it once after mapping.
    ///
    /// # Errors
    /// [`PageError`] says what is wrong with it.
    pub fn check(&self) -> Result<(), PageError> {
        if self.word(offset::MAGIC) != MAGIC {
            return Err(PageError::Magic);
        }
        let form = self.word(offset::VERSION);
        match (form as u32, (form >> 32) as u32) {
            (VERSION, size) if size as usize == PAGE_SIZE => Ok(()),
            (VERSION, size) => Err(PageError::Size(size)),
            (version, _) => Err(PageError::Version(version)),
        }
    }

    /// The memory that it may use now, by one aligned load. 0 when nothing was published or the page is gone:
    /// that is no limit to obey; see [`PageView::read`].
    #[inline]
    pub fn limit(&self) -> Bytes {
        Bytes(self.word(offset::LIMIT))
    }

    /// A consistent set, read by sequence lock. `None` when nothing was published yet, the page is
    /// gone (and its magic with it), or the writer died during a write. The bounded retries take
    /// some microseconds at most.
    #[inline]
    pub fn read(&self) -> Option<Reading> {
        match self.attempt() {
            Some(reading) => Some(reading),
            None => self.retry(),
        }
    }

    /// Whether the page's broker is gone, judged by the heartbeat. `now` is `CLOCK_MONOTONIC`.
    #[inline]
    pub fn is_stale(&self, now: Nanos) -> bool {
        now - Nanos(self.word(offset::HEARTBEAT)) > STALE_AFTER
    }

    #[cold]
    #[inline(never)]
    fn retry(&self) -> Option<Reading> {
        for _ in 0..TRIES {
            std::hint::spin_loop();
            if let Some(reading) = self.attempt() {
                return Some(reading);
            }
            if self.word(offset::MAGIC) != MAGIC || self.word(offset::SEQUENCE) == 0 {
                return None;
            }
        }
        None
    }

    #[inline]
    fn attempt(&self) -> Option<Reading> {
        let before = self.at(offset::SEQUENCE).load(Ordering::Acquire);
        let reading = Reading {
            numbers: Numbers {
                limit: self.word(offset::LIMIT),
                available: self.word(offset::AVAILABLE),
                owed: self.word(offset::OWED),
                deadline: self.word(offset::DEADLINE),
                uses: self.word(offset::USES),
                share: self.word(offset::SHARE),
                level: Level::from_number(self.word(offset::LEVEL)),
                sensed: self.word(offset::SENSED),
            },
            heartbeat: self.word(offset::HEARTBEAT),
            generation: self.word(offset::GENERATION),
            id: self.word(offset::ID),
        };
        let magic = self.word(offset::MAGIC);
        fence(Ordering::Acquire);
        let after = self.word(offset::SEQUENCE);
        let whole = before == after && before & 1 == 0 && before != 0 && magic == MAGIC;
        whole.then_some(reading)
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.at(at).load(Ordering::Relaxed)
    }

    #[inline]
    fn at(&self, at: usize) -> &'a AtomicU64 {
        &self.words[at / 8]
    }
}
