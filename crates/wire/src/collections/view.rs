//! The reader's side. A page is of another process, which may write anything: any words give some
//! reading or none, in bounded time.

use super::{
    About, Collector, MAGIC, MAX_TEXT, PAUSE, PAUSES, Pause, Process, SIZE, Signal, Totals,
};
use super::{VERSION, Words, offset};
use std::sync::atomic::Ordering;

/// Tries before a reader gives up. A write takes less than a microsecond; a writer whose thread is
/// interrupted, or that died, keeps the sequence odd for longer.
const TRIES: usize = 1000;

/// Why words are no page of collections of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The first bytes are wrong.
    #[error("it does not begin with PLIMSGCS: it is no page of collections, or not one yet")]
    Magic,
    /// A layout of another version.
    #[error("its layout version is {0}, this program reads {VERSION}: update the older of the two")]
    Version(u32),
    /// The size is not that of the layout.
    #[error("it says that it is {0} bytes long, expected {SIZE}")]
    Size(u32),
}

/// A page that was checked.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    words: Words<'a>,
}

impl<'a> View<'a> {
    /// Checks that this is a page of a known layout.
    ///
    /// # Errors
    /// [`ViewError`] says what is wrong with it.
    pub fn new(words: Words<'a>) -> Result<View<'a>, ViewError> {
        if words.at(offset::MAGIC).load(Ordering::Acquire) != MAGIC {
            return Err(ViewError::Magic);
        }
        let form = words.get(offset::VERSION);
        match (form as u32, (form >> u32::BITS) as u32) {
            (VERSION, size) if size as usize == SIZE => Ok(View { words }),
            (VERSION, size) => Err(ViewError::Size(size)),
            (version, _) => Err(ViewError::Version(version)),
        }
    }

    /// Facts that were fixed when the agent was loaded, and its signal. To know the signal of a reading, ask
    /// for this after [`View::process`]: a signal is written before the first reading by it.
    pub fn about(&self) -> About {
        let words = self.words;
        About {
            pid: words.get(offset::PID),
            collector: Collector::from_number(words.get(offset::COLLECTOR)),
            signal: Signal::from_number(words.get(offset::SIGNAL)),
            loaded_ns: words.get(offset::LOADED),
            signal_text: text(words, offset::SIGNAL_TEXT),
        }
    }

    /// The last reading of the process. `None` before the first, or while the writer is stuck.
    pub fn process(&self) -> Option<Process> {
        let words = retry(|| self.words.read(offset::PROCESS_SEQUENCE, of_process))?;
        let [at_ns, stalls, stall_ns, major_faults] = words;
        Some(Process {
            at_ns,
            stalls,
            stall_ns,
            major_faults,
        })
    }

    /// The sums over all pauses. `None` before the first, or while the writer is stuck.
    pub fn totals(&self) -> Option<Totals> {
        let load = |words: Words<'_>| words.get_all(offset::TOTALS);
        retry(|| self.words.read(offset::SEQUENCE, load)).map(Totals::of)
    }

    /// A pause by its number. `None` if it has not ended yet or was forgotten, or while the writer is
    /// stuck.
    pub fn pause(&self, number: u64) -> Option<Pause> {
        let at = offset::PAUSES + (number % PAUSES) as usize * PAUSE * 8;
        let load = |words: Words<'_>| words.get_all(at);
        let pause = retry(|| self.words.read(offset::SEQUENCE, load)).map(Pause::of)?;
        (number > 0 && pause.number == number).then_some(pause)
    }

    /// The pauses after number `seen`, oldest first: at most the last [`PAUSES`].
    pub fn pauses_after(&self, seen: u64) -> impl Iterator<Item = Pause> + use<'a> {
        let view = *self;
        let last = view.totals().map_or(0, |totals| totals.pauses);
        let first = seen.max(last.saturating_sub(PAUSES));
        (first..last).filter_map(move |before| view.pause(before + 1))
    }

    /// Why nothing is given back; `None` where it is (or would be, if the adapter wished it).
    pub fn refusal(&self) -> Option<String> {
        let load = |words: Words<'_>| text(words, offset::REFUSAL_TEXT);
        let refusal = retry(|| self.words.read(offset::SEQUENCE, load));
        refusal.filter(|text| !text.is_empty())
    }
}

fn of_process(words: Words<'_>) -> [u64; super::PROCESS] {
    words.get_all(offset::PROCESS)
}

fn retry<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..TRIES {
        if let Some(loaded) = attempt() {
            return Some(loaded);
        }
        std::hint::spin_loop();
    }
    None
}

/// A text of another process: what is not UTF-8 or controls a terminal is replaced.
fn text(words: Words<'_>, at: usize) -> String {
    let length = usize::try_from(words.get(at)).unwrap_or(MAX_TEXT);
    let length = length.min(MAX_TEXT);
    let mut bytes = Vec::with_capacity(MAX_TEXT);
    for index in 0..length.div_ceil(8) {
        bytes.extend(words.get(at + 8 + index * 8).to_ne_bytes());
    }
    bytes.truncate(length);
    let text = String::from_utf8_lossy(&bytes);
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(plain).collect()
}
