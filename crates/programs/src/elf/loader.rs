//! The loader's view of a file: contents by address, code, and the pointers that the loader sets.

use super::{Image, Little, MAX_TABLE, bytes};
use object::elf::{PF_X, R_AARCH64_RELATIVE, R_X86_64_RELATIVE, Rela64, SHT_RELA, SHT_RELR};
use object::pod::slice_from_bytes;
use plimsoll_kernel::smaps::Addresses;

/// How many bytes of a table of relocations are read at a time; a multiple of its entries' sizes.
const PIECE: u64 = 64 * 1024 * 3;
/// The most places of packed relocations that are looked up in the file: a small table can name very many.
const MAX_PACKED: u32 = 1 << 20;

impl Image {
    /// Where the process has the file's code.
    pub fn code(&self) -> impl Iterator<Item = Addresses> {
        let code = self.loaded().filter(|s| s.p_flags.get(Little) & PF_X != 0);
        code.filter_map(|s| {
            let start = s.p_vaddr.get(Little).checked_add(self.bias)?;
            Some(start..start.checked_add(s.p_filesz.get(Little))?)
        })
    }

    /// Fills `into` with what the file holds for address `at` of the process: values as they are
    /// before the program runs, pointers not yet set. Variables without a first value are 0. False
    /// if that is not all in one segment.
    pub fn fill(&self, at: u64, into: &mut [u8]) -> bool {
        self.try_fill(at, into).is_some()
    }

    fn try_fill(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let start = at.checked_sub(self.bias)?;
        let end = start.checked_add(into.len() as u64)?;
        let segment = self.loaded().find(|s| {
            let first = s.p_vaddr.get(Little);
            let end_of_it = first.checked_add(s.p_memsz.get(Little));
            first <= start && end_of_it.is_some_and(|last| end <= last)
        })?;
        let skip = start - segment.p_vaddr.get(Little);
        let in_file = segment.p_filesz.get(Little).saturating_sub(skip);
        let length = in_file.min(into.len() as u64) as usize;
        let offset = segment.p_offset.get(Little).checked_add(skip)?;
        into[length..].fill(0);
        self.elf
            .file
            .read_exact_at(&mut into[..length], offset)
            .ok()
    }

    /// Calls `tell` with the place of each pointer that the loader sets to a place in this file, and
    /// with what it sets it to, both as addresses of the process. Reads at most as much of all tables as one
    /// may have.
    pub fn each_pointer(&self, tell: &mut dyn FnMut(u64, u64)) {
        let (mut left, mut places) = (MAX_TABLE, MAX_PACKED);
        for section in &self.elf.sections {
            let kind = section.sh_type.get(Little);
            let (at, size) = (
                section.sh_offset.get(Little),
                section.sh_size.get(Little).min(left),
            );
            let mut packed = Packed::default();
            let mut done = 0;
            while (kind == SHT_RELA || kind == SHT_RELR) && done < size {
                let length = PIECE.min(size - done);
                let Some(bytes) = bytes(&self.elf.file, at.saturating_add(done), length) else {
                    break;
                };
                match kind {
                    SHT_RELA => self.each_of_rela(&bytes, tell),
                    _ => packed.each(&bytes, &mut places, &mut |place| {
                        let place = place.wrapping_add(self.bias);
                        let mut word = [0; 8];
                        if self.fill(place, &mut word) {
                            tell(place, u64::from_le_bytes(word).wrapping_add(self.bias));
                        }
                    }),
                }
                done += length;
            }
            left -= done;
        }
    }

    fn each_of_rela(&self, bytes: &[u8], tell: &mut dyn FnMut(u64, u64)) {
        let count = bytes.len() / size_of::<Rela64<Little>>();
        let Ok((entries, _)) = slice_from_bytes::<Rela64<Little>>(bytes, count) else {
            return;
        };
        for entry in entries {
            let kind = entry.r_info.get(Little) as u32;
            if kind == R_X86_64_RELATIVE || kind == R_AARCH64_RELATIVE {
                tell(
                    entry.r_offset.get(Little).wrapping_add(self.bias),
                    (entry.r_addend.get(Little) as u64).wrapping_add(self.bias),
                );
            }
        }
    }
}

/// Reads packed relocations (`SHT_RELR`): an even word is a place, an odd word is a bit for each of
/// the 63 words after the last place.
#[derive(Default)]
struct Packed {
    next: u64,
}

impl Packed {
    /// Calls `tell` with each place, as long as there are any `left`.
    fn each(&mut self, bytes: &[u8], left: &mut u32, tell: &mut dyn FnMut(u64)) {
        for word in bytes.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            let count = if word & 1 == 0 {
                1
            } else {
                word.count_ones() - 1
            };
            let Some(rest) = left.checked_sub(count) else {
                *left = 0;
                return;
            };
            *left = rest;
            if word & 1 == 0 {
                tell(word);
                self.next = word.wrapping_add(8);
                continue;
            }
            for bit in 0..63 {
                if word >> (bit + 1) & 1 == 1 {
                    tell(self.next.wrapping_add(8 * bit));
                }
            }
            self.next = self.next.wrapping_add(8 * 63);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_relocations_are_unpacked() {
        let words = [0x1000_u64, 0b1011, 1 << 63 | 1, 0x2000];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut packed = Packed::default();
        let mut places = Vec::new();
        // In two pieces, as a large table is read.
        let mut left = 6;
        packed.each(&bytes[..16], &mut left, &mut |place| places.push(place));
        packed.each(&bytes[16..], &mut left, &mut |place| places.push(place));
        let last = 0x1008 + 8 * 63 + 8 * 62;
        assert_eq!(places, [0x1000, 0x1008, 0x1018, last, 0x2000]);
        // One is left. Nothing is looked up from where there are more.
        packed.each(&u64::MAX.to_le_bytes(), &mut left, &mut |place| {
            places.push(place);
        });
        packed.each(&bytes[..8], &mut left, &mut |place| places.push(place));
        assert_eq!((places.len(), left), (5, 0));
    }
}
