//! The writer's side: which bytes to write where, and in which order.

use super::{MAGIC, Numbers, PAGE_SIZE, VERSION, offset};
use plimsoll_unit::Nanos;

/// One write to the page file: `bytes` at `offset`. Always inside the first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Bytes to write.
    pub bytes: &'a [u8],
}

/// The last publication for one principal, and the next writes. 120 bytes; no I/O, no allocation.
///
/// To make a page: create the file, set its length to [`PAGE_SIZE`], write [`PageImage::create`].
/// To publish: write the three steps of [`PageImage::publish`] in order, with a full fence
/// (`atomic::fence(SeqCst)`) between each two. If a write fails half-way, publish again: the
/// sequence continues from the failed attempt.
#[derive(Clone, Debug)]
pub struct PageImage {
    bytes: [u8; offset::END],
    odd: [u8; 8],
}

impl PageImage {
    /// A page without a publication; readers get nothing from it.
    pub fn new(id: u64) -> PageImage {
        let mut image = PageImage {
            bytes: [0; offset::END],
            odd: [0; 8],
        };
        image.put(offset::MAGIC, MAGIC);
        image.put(
            offset::VERSION,
            u64::from(VERSION) | (PAGE_SIZE as u64) << 32,
        );
        image.put(offset::ID, id);
        image
    }

    /// The whole image, to be written once to a new file of [`PAGE_SIZE`] zero bytes. No order is
    /// needed before the file is visible to readers.
    pub fn create(&self) -> Step<'_> {
        Step {
            offset: 0,
            bytes: &self.bytes,
        }
    }

    /// Stores the numbers and returns the three writes that publish them: sequence odd, payload,
    /// sequence even. `now` becomes the heartbeat. The generation increases when limit,
    /// available, owed, deadline or level differ from the last publication.
    pub fn publish(&mut self, numbers: &Numbers, now: Nanos) -> [Step<'_>; 3] {
        let sequence = self.get(offset::SEQUENCE);
        self.odd = sequence.wrapping_add(1).to_ne_bytes();
        let fields = [
            (offset::LIMIT, numbers.limit),
            (offset::AVAILABLE, numbers.available),
            (offset::OWED, numbers.owed),
            (offset::DEADLINE, numbers.deadline),
            (offset::LEVEL, numbers.level as u64),
        ];
        let changed = fields.iter().any(|&(at, value)| self.get(at) != value);
        for (at, value) in fields {
            self.put(at, value);
        }
        self.put(offset::USES, numbers.uses);
        self.put(offset::SHARE, numbers.share);
        self.put(offset::SENSED, numbers.sensed);
        self.put(offset::HEARTBEAT, now.0);
        if changed || sequence == 0 {
            self.put(offset::GENERATION, self.generation() + 1);
        }
        self.put(offset::SEQUENCE, sequence.wrapping_add(2));
        [
            Step {
                offset: offset::SEQUENCE as u64,
                bytes: &self.odd,
            },
            self.part(offset::LIMIT, offset::END),
            self.part(offset::SEQUENCE, offset::LIMIT),
        ]
    }

    /// The single write that renews the heartbeat when no number changed. The heartbeat is one word
    /// and needs no sequence. Call it only after a first [`PageImage::publish`].
    pub fn heartbeat(&mut self, now: Nanos) -> Step<'_> {
        self.put(offset::HEARTBEAT, now.0);
        self.part(offset::HEARTBEAT, offset::GENERATION)
    }

    /// Number of changes of the numbers, as readers see it.
    pub fn generation(&self) -> u64 {
        self.get(offset::GENERATION)
    }

    /// The principal's id.
    pub fn id(&self) -> u64 {
        self.get(offset::ID)
    }

    fn part(&self, from: usize, to: usize) -> Step<'_> {
        Step {
            offset: from as u64,
            bytes: &self.bytes[from..to],
        }
    }

    fn get(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_ne_bytes(word)
    }

    fn put(&mut self, at: usize, value: u64) {
        self.bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
}
