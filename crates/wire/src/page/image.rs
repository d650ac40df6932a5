//! The writer's side: which bytes to put where, in which order.

use super::{MAGIC, Numbers, PAGE_SIZE, VERSION, offset};

/// One write into the page file: these bytes at this offset. Always inside the first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Where in the file, bytes.
    pub offset: u64,
    /// What.
    pub bytes: &'a [u8],
}

/// What the broker last published for one principal, and what to write next. 112 bytes; no I/O,
/// no allocation.
///
/// To make a page: create the file, set its length to [`PAGE_SIZE`], write [`PageImage::create`].
/// To publish: write the three steps of [`PageImage::publish`] in their order, with a full fence
/// (`atomic::fence(SeqCst)`) between two of them. If a write fails half-way, publish again: the
/// sequence goes on from the one that was tried.
#[derive(Clone, Debug)]
pub struct PageImage {
    bytes: [u8; offset::END],
    odd: [u8; 8],
}

impl PageImage {
    /// A page that nothing was published on yet; readers get nothing from it.
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

    /// The whole image, to be written once into a new file of [`PAGE_SIZE`] zero bytes. Before the
    /// file is visible to its reader nothing needs an order.
    pub fn create(&self) -> Step<'_> {
        Step {
            offset: 0,
            bytes: &self.bytes,
        }
    }

    /// Takes the numbers over and gives the three writes that publish them: sequence odd, payload,
    /// sequence even. `now_ns` becomes the heartbeat. The generation moves when limit, available,
    /// owed, deadline or level differ from the last publication.
    pub fn publish(&mut self, numbers: &Numbers, now_ns: u64) -> [Step<'_>; 3] {
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
        self.put(offset::HEARTBEAT, now_ns);
        if changed || sequence == 0 {
            self.put(offset::GENERATION, self.generation() + 1);
        }
        self.put(offset::SEQUENCE, sequence.wrapping_add(2));
        [
            Step {
                offset: offset::SEQUENCE as u64,
                bytes: &self.odd,
            },
            self.part(offset::LIMIT, offset::ID),
            self.part(offset::SEQUENCE, offset::LIMIT),
        ]
    }

    /// The one write that says "still here" when no number changed: the heartbeat is a word of its
    /// own and needs no sequence. Only after a first [`PageImage::publish`].
    pub fn heartbeat(&mut self, now_ns: u64) -> Step<'_> {
        self.put(offset::HEARTBEAT, now_ns);
        self.part(offset::HEARTBEAT, offset::GENERATION)
    }

    /// How often the numbers changed; the same that a reader sees.
    pub fn generation(&self) -> u64 {
        self.get(offset::GENERATION)
    }

    /// The principal's number.
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
