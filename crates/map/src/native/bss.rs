//! Where a file's variables that begin as zeros (`.bss`) end. They are anonymous memory right behind
//! the file's data, and the kernel joins other anonymous memory to them. The file's headers say how
//! long they are; its first page, which has them, is read in the process, so that no file system is
//! waited for.

use crate::memory::Memory;
use object::LittleEndian as Little;
use object::elf::{ELFMAG, FileHeader64, PF_W, PT_LOAD, ProgramHeader64};
use object::pod::{Pod, from_bytes};
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::Area;

/// The most segments of a file that are looked at, and the most mappings below its data.
const MAX_SEGMENTS: u16 = 64;
const MAX_BELOW: usize = 64;

/// The address at which the variables of a file end whose data are mapped at `data`, the last of the
/// mappings `below`. `None` where that cannot be told.
pub(super) fn end_of(data: &Area, below: &[Area], memory: &dyn Memory) -> Option<u64> {
    let is_first = |area: &&Area| area.file == data.file && area.offset == 0;
    let mut near = below.iter().rev().take(MAX_BELOW);
    let first = near.find(is_first)?.addresses.start;
    let header: FileHeader64<Little> = read(first, memory)?;
    let ident = header.e_ident;
    if ident.magic != ELFMAG || ident.class != 2 || ident.data != 1 {
        return None;
    }
    let table = first.checked_add(header.e_phoff.get(Little))?;
    let size = size_of::<ProgramHeader64<Little>>() as u64;
    let count = header.e_phnum.get(Little).min(MAX_SEGMENTS);
    let mut lowest = None;
    let mut written = Vec::new();
    for number in 0..u64::from(count) {
        let at = table.checked_add(number * size)?;
        let segment: ProgramHeader64<Little> = read(at, memory)?;
        if segment.p_type.get(Little) != PT_LOAD {
            continue;
        }
        let start = segment.p_vaddr.get(Little);
        lowest.get_or_insert(start / page_size() * page_size());
        if segment.p_flags.get(Little) & PF_W != 0 {
            written.push((start, start.checked_add(segment.p_memsz.get(Little))?));
        }
    }
    let bias = first.wrapping_sub(lowest?);
    let last = data.addresses.end - 1;
    let ends = written.into_iter().filter_map(|(start, end)| {
        let (start, end) = (start.wrapping_add(bias), end.wrapping_add(bias));
        let end = end.checked_next_multiple_of(page_size())?;
        (start / page_size() * page_size()..end)
            .contains(&last)
            .then_some(end)
    });
    ends.max()
}

fn read<T: Pod>(at: u64, memory: &dyn Memory) -> Option<T> {
    let mut bytes = vec![0; size_of::<T>()];
    memory.read(at, &mut bytes).ok()?;
    from_bytes(&bytes).ok().map(|(value, _)| *value)
}
