//! `libjvm.so` as a process has it: what its file says, and what is in the process's memory.

use super::initialiser;
use crate::memory::Memory;
use crate::runtimes::process_words::Words;
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::Addresses;
use plimsoll_programs::elf::Image;
use plimsoll_programs::hotspot::tables::Source;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

/// How much of the file is read at a time to find names, bytes.
const BLOCK: u64 = 16 << 10;
/// Most blocks that are kept: 1 MiB.
const MAX_BLOCKS: usize = 64;

/// The library of a process.
pub(super) struct Library<'a> {
    image: Image,
    words: Words<'a>,
    /// The pointers as the loader set them.
    pointers: Pointers,
    /// Numbers that the program's first instructions set, by where they are; read where memory is not
    /// resident.
    numbers: Option<HashMap<u64, u64>>,
    blocks: RefCell<HashMap<u64, Box<[u8; BLOCK as usize]>>>,
}

/// Whether a mapping of this name is of the machine.
pub(super) fn is_library(name: &Path) -> bool {
    is_named(name, "libjvm.so")
}

/// Whether a path ends in a name, of a file that may be deleted meanwhile.
pub(super) fn is_named(path: &Path, name: &str) -> bool {
    let file = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
    file.strip_suffix(" (deleted)").unwrap_or(file) == name
}

impl<'a> Library<'a> {
    /// Opens the file of the mapped library. `None` if it is gone and cannot be reached.
    pub(super) fn open(snapshot: &Snapshot, memory: &'a dyn Memory) -> Option<Library<'a>> {
        let image = Image::of(&snapshot.candidate(), is_library)?;
        Some(Library {
            pointers: Pointers::of(&image),
            image,
            words: Words::new(snapshot, memory),
            numbers: None,
            blocks: RefCell::new(HashMap::new()),
        })
    }

    /// Forgets the process's memory, so that it is read anew.
    pub(super) fn forget_memory(&mut self) {
        self.words.forget();
    }

    /// The number that is at an address when the program has started.
    fn first_number(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        let is_there = self.image.fill(at, &mut bytes);
        let in_file = is_there.then(|| u64::from_le_bytes(bytes));
        let Some(numbers) = self.numbers.as_ref().filter(|n| !n.is_empty()) else {
            return in_file;
        };
        // In a file whose numbers are set by instructions a 0 tells nothing.
        let set = numbers.get(&at).copied();
        set.or_else(|| in_file.filter(|&number| number > 0))
    }

    /// The text at an address of the file.
    pub(super) fn text(&self, at: u64, most: usize) -> Option<String> {
        let mut text = Vec::new();
        let mut next = at;
        while text.len() < most {
            let before = text.len();
            if self.append_text(next, most - before, &mut text)? {
                return String::from_utf8(text).ok().filter(|t| !t.is_empty());
            }
            next = next.checked_add((text.len() - before) as u64)?;
        }
        None
    }

    /// Appends text at an address of the file, `most` bytes at most and no further than its block.
    /// Tells whether a zero ends it; `None` if it cannot be read.
    fn append_text(&self, at: u64, most: usize, text: &mut Vec<u8>) -> Option<bool> {
        let start = at / BLOCK * BLOCK;
        let mut blocks = self.blocks.borrow_mut();
        if blocks.len() >= MAX_BLOCKS && !blocks.contains_key(&start) {
            blocks.clear();
        }
        let block = match blocks.entry(start) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let mut block = Box::new([0; BLOCK as usize]);
                if !self.image.fill(start, &mut block[..]) {
                    // At the end of a segment.
                    let mut byte = [0];
                    let is_there = self.image.fill(at, &mut byte);
                    text.extend(byte.iter().filter(|&&byte| byte != 0));
                    return is_there.then_some(byte[0] == 0);
                }
                place.insert(block)
            }
        };
        let rest = &block[(at - start) as usize..];
        let rest = &rest[..rest.len().min(most)];
        let end = rest.iter().position(|&byte| byte == 0);
        text.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
        Some(end.is_some())
    }
}

impl Source for Library<'_> {
    fn exported(&self, name: &str) -> Option<u64> {
        self.image.exported(name).map(|range| range.start)
    }

    fn pointer_at(&self, at: u64) -> Option<u64> {
        self.pointers.at(at)
    }

    fn pointer(&self, at: u64) -> Option<u64> {
        let known = self.pointers.at(at);
        known.or_else(|| self.number(at)).filter(|&value| value > 0)
    }

    fn number(&self, at: u64) -> Option<u64> {
        self.words.word(at).or_else(|| self.first_number(at))
    }

    fn half(&self, at: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        let is_there = self.words.fill(at, &mut bytes) || self.image.fill(at, &mut bytes);
        is_there.then(|| u32::from_le_bytes(bytes))
    }

    fn name_at(&self, at: u64, most: usize) -> Option<String> {
        self.text(self.pointer(at)?, most)
    }

    fn know_numbers_in(&mut self, range: Addresses) {
        let mut places = self.pointers.within(&range);
        let is_known = places.all(|place| self.words.word(place).is_some());
        if !is_known {
            self.numbers = Some(initialiser::numbers(&self.image, &range));
        }
    }
}

/// The most pointers that are kept: 4 MiB. The library of JDK 25 has 124,228.
const MAX_POINTERS: usize = 1 << 19;

/// The pointers of a library that the loader sets to places in it, read once: a table of them has some
/// MiB. Both as distances from the lowest of them, by place.
struct Pointers {
    base: u64,
    all: Vec<(u32, u32)>,
}

impl Pointers {
    fn of(image: &Image) -> Pointers {
        let base = image.base();
        let mut all = Vec::new();
        image.each_pointer(&mut |place, value| {
            let distance = |address: u64| u32::try_from(address.checked_sub(base)?).ok();
            if let (Some(place), Some(value)) = (distance(place), distance(value))
                && all.len() < MAX_POINTERS
            {
                all.push((place, value));
            }
        });
        // Where two are for one place, the last one is the one that counts.
        if !all.is_sorted_by_key(|pointer| pointer.0) {
            all.sort_by_key(|pointer| pointer.0);
        }
        Pointers { base, all }
    }

    fn at(&self, at: u64) -> Option<u64> {
        let place = u32::try_from(at.checked_sub(self.base)?).ok()?;
        let after = self.all.partition_point(|pointer| pointer.0 <= place);
        let (found, value) = *self.all.get(after.checked_sub(1)?)?;
        (found == place).then(|| self.base.wrapping_add(value.into()))
    }

    fn within(&self, range: &Addresses) -> impl Iterator<Item = u64> {
        let (base, end) = (self.base, range.end);
        let place = move |pointer: &(u32, u32)| base.wrapping_add(pointer.0.into());
        let from = self
            .all
            .partition_point(|pointer| place(pointer) < range.start);
        let places = self.all[from..].iter().map(place);
        places.take_while(move |place| *place < end)
    }
}
