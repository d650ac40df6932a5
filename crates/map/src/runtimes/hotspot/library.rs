//! `libjvm.so` as a process has it: what its file says, and what is in the process's memory.

use super::initialiser;
use super::tables::{MAX_TABLE, Source};
use crate::memory::Memory;
use crate::runtimes::elf::Image;
use crate::runtimes::words::Words;
use crate::sight::Sight;
use plimsoll_kernel::smaps::Addresses;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

/// How much of the file is read at a time to find names, bytes.
const BLOCK: u64 = 16 << 10;
/// Most blocks that are kept: 1 MiB.
const MAX_BLOCKS: usize = 64;

/// The library of a process.
pub(super) struct Library<'a> {
    image: Image,
    words: Words<'a>,
    /// What the loader set pointers to, by where they are.
    pointers: HashMap<u64, u64>,
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
    pub(super) fn open(sight: &Sight, memory: &'a dyn Memory) -> Option<Library<'a>> {
        Some(Library {
            image: Image::of(sight, is_library)?,
            words: Words::new(sight, memory),
            pointers: HashMap::new(),
            numbers: None,
            blocks: RefCell::new(HashMap::new()),
        })
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
            let byte = self.byte(next)?;
            if byte == 0 {
                return String::from_utf8(text).ok().filter(|t| !t.is_empty());
            }
            text.push(byte);
            next = next.checked_add(1)?;
        }
        None
    }

    fn byte(&self, at: u64) -> Option<u8> {
        let start = at / BLOCK * BLOCK;
        let mut blocks = self.blocks.borrow_mut();
        if blocks.len() >= MAX_BLOCKS && !blocks.contains_key(&start) {
            blocks.clear();
        }
        if let Some(block) = blocks.get(&start) {
            return Some(block[(at - start) as usize]);
        }
        let mut block = Box::new([0; BLOCK as usize]);
        if !self.image.fill(start, &mut block[..]) {
            // At the end of a segment.
            let mut byte = [0];
            return self.image.fill(at, &mut byte).then_some(byte[0]);
        }
        let byte = block[(at - start) as usize];
        blocks.insert(start, block);
        Some(byte)
    }
}

impl Source for Library<'_> {
    fn exported(&self, name: &str) -> Option<u64> {
        self.image.exported(name).map(|range| range.start)
    }

    fn pointers_at<const N: usize>(&self, at: [Option<u64>; N]) -> [Option<u64>; N] {
        let mut found = [None; N];
        self.image.each_pointer(&mut |place, value| {
            for (found, at) in found.iter_mut().zip(at) {
                if at == Some(place) {
                    *found = Some(value);
                }
            }
        });
        found
    }

    fn know_pointers_in(&mut self, tables: impl Iterator<Item = u64>) {
        let tables: Vec<Addresses> = tables.map(|t| t..t.saturating_add(MAX_TABLE)).collect();
        self.image.each_pointer(&mut |place, value| {
            if tables.iter().any(|table| table.contains(&place)) {
                self.pointers.insert(place, value);
            }
        });
    }

    fn know_numbers_in(&mut self, range: Addresses) {
        let is_known = self
            .pointers
            .keys()
            .filter(|place| range.contains(place))
            .all(|&place| self.words.word(place).is_some());
        if !is_known {
            self.numbers = Some(initialiser::numbers(&self.image, &range));
        }
    }

    fn pointer(&self, at: u64) -> Option<u64> {
        let known = self.pointers.get(&at).copied();
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
}
