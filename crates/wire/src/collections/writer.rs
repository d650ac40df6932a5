//! The writers' sides. Nothing here allocates, blocks or panics: the agent calls it within pauses.

use super::{About, Bound, MAGIC, MAX_TEXT, PAUSE, PAUSES, Pause, Process, SIZE, Signal, Totals};
use super::{VERSION, WISH_LASTS, Wish, Words, offset};
use plimsoll_unit::{Bytes, Nanos};
use std::sync::atomic::{Ordering, fence};

/// The agent's side for its collections. Used by one thread at a time.
#[derive(Debug)]
pub struct Writer<'a> {
    words: Words<'a>,
}

/// The agent's side for readings of the process. Used by one thread at a time, which need not be that
/// of the [`Writer`].
#[derive(Debug)]
pub struct ProcessWriter<'a> {
    words: Words<'a>,
}

impl<'a> Writer<'a> {
    /// Makes a page of zeros a page of collections.
    pub fn new(words: Words<'a>, about: &About) -> (Writer<'a>, ProcessWriter<'a>) {
        words.put(
            offset::VERSION,
            u64::from(VERSION) | (SIZE as u64) << u32::BITS,
        );
        words.put(offset::PID, about.pid);
        words.put(offset::COLLECTOR, about.collector as u64);
        words.put(offset::SIGNAL, about.signal as u64);
        words.put(offset::LOADED, about.loaded_ns);
        put_text(words, offset::SIGNAL_TEXT, &about.signal_text);
        fence(Ordering::Release);
        words.at(offset::MAGIC).store(MAGIC, Ordering::Release);
        (Writer { words }, ProcessWriter { words })
    }

    /// Says why nothing is given back: an empty text where it is.
    pub fn refuse(&mut self, why: &str) {
        self.words.write(offset::SEQUENCE, |words| {
            put_text(words, offset::REFUSAL_TEXT, why);
        });
    }

    /// Publishes a pause that ended and the sums that include it.
    pub fn ended(&mut self, pause: &Pause, totals: &Totals) {
        self.words.write(offset::SEQUENCE, |words| {
            words.put_all(offset::TOTALS, &totals.words());
            let slot = (pause.number % PAUSES) as usize;
            words.put_all(offset::PAUSES + slot * PAUSE * 8, &pause.words());
        });
    }

    /// The adapter's orders now. `None` when there was no adapter, or none any more.
    pub fn wish(&self, now: Nanos) -> Option<Wish> {
        wished(self.words, now)
    }
}

impl ProcessWriter<'_> {
    /// Changes what was said of the stall signal when the page was made. Call it before the first reading by
    /// the new signal: who reads the process first and then the signal ([`View::about`](super::View::about))
    /// takes no reading for one of the signal before.
    pub fn signal(&mut self, signal: Signal, text: &str) {
        put_text(self.words, offset::SIGNAL_TEXT, text);
        self.words.put(offset::SIGNAL, signal as u64);
    }

    /// Publishes a reading.
    pub fn read(&mut self, process: &Process) {
        let words = [
            process.at_ns,
            process.stalls,
            process.stall_ns,
            process.major_faults,
        ];
        self.words.write(offset::PROCESS_SEQUENCE, |page| {
            page.put_all(offset::PROCESS, &words);
        });
    }
}

/// The adapter's orders now. `None` when there was no adapter, or none any more. Any thread may ask.
pub fn wished(words: Words<'_>, now: Nanos) -> Option<Wish> {
    let wished = words.at(offset::WISHED).load(Ordering::Acquire);
    (wished > 0 && now - Nanos(wished) <= WISH_LASTS).then(|| {
        let [above, times] = words.get_all(offset::BOUND);
        Wish {
            resident: Bytes(words.get(offset::RESIDENT)),
            bound: (above < u64::MAX).then_some(Bound {
                above: Bytes(above),
                times,
            }),
        }
    })
}

/// The adapter's side: leaves a wish, or takes it back. It lasts [`WISH_LASTS`]; repeat it before.
pub fn wish(words: Words<'_>, wish: Option<Wish>, now: Nanos) {
    match wish {
        Some(wish) => {
            let bound = wish
                .bound
                .map_or([u64::MAX, 0], |bound| [bound.above.0, bound.times]);
            words.put_all(offset::BOUND, &bound);
            words.put(offset::RESIDENT, wish.resident.0);
            let wished = words.at(offset::WISHED);
            wished.store(now.0.max(1), Ordering::Release);
        }
        None => words.at(offset::WISHED).store(0, Ordering::Release),
    }
}

/// Stores a text, cut to [`MAX_TEXT`] bytes.
fn put_text(words: Words<'_>, at: usize, text: &str) {
    let mut length = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    let (chunks, _) = text.as_bytes().split_at(length);
    for (index, chunk) in chunks.chunks(8).enumerate() {
        let mut word = [0; 8];
        for (byte, &source) in word.iter_mut().zip(chunk) {
            *byte = source;
        }
        words.put(at + 8 + index * 8, u64::from_ne_bytes(word));
    }
    words.put(at, length as u64);
}
