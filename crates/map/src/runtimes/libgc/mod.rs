//! Programs that use libgc (bdwgc) 7 or 8, or our drop-in for it.
//!
//! The drop-in exports a table of its places. libgc lists its heap in an array among its variables;
//! the array is found by what it is, in stripped libraries too (`sections`).

mod blocks;
mod sections;
#[cfg(test)]
mod tests;

use crate::area::Kind;
use crate::labels::{Labeller, Labels};
use crate::memory::Memory;
use crate::runtimes::process_words::{Ranges, Words, words_of};
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::Addresses;
use plimsoll_programs::elf::Image;
pub use plimsoll_programs::libgc::{LibGc, LinkedLibGc};

/// The name as people write it.
const TITLE: &str = "libgc";
/// The most superpages of the drop-in whose bit (free or not) is read: 64 GiB.
const MAX_SUPERPAGES: u64 = 4 << 20;

impl Labeller for LibGc {
    fn title(&self) -> &'static str {
        TITLE
    }

    fn label(&self, snapshot: &Snapshot, memory: &dyn Memory, labels: &mut Labels) {
        if let Some(image) = self.image(&snapshot.candidate()) {
            label(&image, snapshot, memory, labels);
        }
    }
}

impl Labeller for LinkedLibGc {
    fn title(&self) -> &'static str {
        TITLE
    }

    fn label(&self, snapshot: &Snapshot, memory: &dyn Memory, labels: &mut Labels) {
        if let Some(image) = self.image(&snapshot.candidate()) {
            label(&image, snapshot, memory, labels);
        }
    }
}

/// Labels what the collector in this file knows of.
fn label(image: &Image, snapshot: &Snapshot, memory: &dyn Memory, labels: &mut Labels) {
    let words = Words::new(snapshot, memory);
    if let Some(table) = image.exported("plimsoll_gc_places") {
        match Places::read(&words, table.start) {
            Some(places) => places.label(&words, &Ranges::allocated(snapshot), labels),
            None => labels.note(
                "libgc (Plimsoll's): the table of its places is not in memory, or the program has \
                 not allocated yet; its heap is shown as other.",
            ),
        }
        return;
    }
    // Its first word is the heap's size.
    let arrays = image.symbol("GC_arrays");
    let size = arrays.and_then(|at| words.word(at.start));
    let variables: Vec<_> = image.variables().collect();
    label_sections(
        snapshot,
        &words,
        &variables,
        size.filter(|&size| size > 0),
        labels,
    );
}

/// Labels the heap of the original libgc; `size` is its size in bytes, if that is known.
fn label_sections(
    snapshot: &Snapshot,
    words: &Words,
    variables: &[Addresses],
    size: Option<u64>,
    labels: &mut Labels,
) {
    let allocated = Ranges::allocated(snapshot);
    let private = Ranges::of(snapshot, |area| {
        area.file.inode == 0 && !area.shared_mapping
    });
    let Some(found) = sections::find(words, &private, variables, size) else {
        labels.note(
            "libgc: its list of heap sections was not found (its variables may not be in memory, \
             or not be readable by us, or the program has not allocated yet); its heap is shown \
             as malloc or other.",
        );
        return;
    };
    let free = blocks::free(words, &found);
    for block in &free.blocks {
        for part in allocated.within(block) {
            labels.add(part, Kind::FreeHeap);
        }
    }
    for section in &found.sections {
        for part in allocated.within(section) {
            labels.add(part, Kind::Heap);
        }
    }
    if free.unread > 0 {
        labels.note(format!(
            "libgc: of {} KiB of the heap it is not known whether they are free, because the \
             collector's headers are not in memory; they are shown as heap.",
            free.unread >> 10,
        ));
    }
    labels.note(
        "libgc: free objects in blocks that hold others count as heap; the collector's own tables \
         and mark bits are shown as other.",
    );
}

/// The table of the drop-in (`crates/libgc/src/abi/heap_map.rs`).
#[derive(Debug)]
struct Places {
    metadata: Addresses,
    /// Objects are in it, up to what `committed` says.
    heap: Addresses,
    /// A bit a superpage: it is committed and free.
    free: u64,
    superpage: u64,
}

impl Places {
    fn read(words: &Words, at: u64) -> Option<Places> {
        let [
            magic,
            version,
            metadata,
            heap,
            end,
            free,
            committed,
            superpage,
        ] = words_of(&words.bytes::<64>(at)?);
        if magic.to_le_bytes() != *b"plimsoll" || version != 1 {
            return None;
        }
        let committed = words.word(committed)?;
        let is_sound = metadata < heap
            && heap <= end
            && end < 1 << 57
            && committed <= end - heap
            && (4096..=1 << 24).contains(&superpage)
            && (metadata..heap).contains(&free);
        is_sound.then(|| Places {
            metadata: metadata..heap,
            heap: heap..heap + committed,
            free,
            superpage,
        })
    }

    fn label(&self, words: &Words, allocated: &Ranges, labels: &mut Labels) {
        let superpages = (self.heap.end - self.heap.start) / self.superpage;
        let mut free = Vec::new();
        let mut unread = 0;
        for at in (0..superpages.min(MAX_SUPERPAGES)).step_by(64) {
            let Some(bits) = words.word(self.free + at / 8) else {
                unread += 64;
                continue;
            };
            for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
                let start = self.heap.start + (at + bit) * self.superpage;
                free.push(start..start + self.superpage);
            }
        }
        let whole = Ranges::from(vec![self.heap.clone()]);
        for range in Ranges::from(free)
            .iter()
            .flat_map(|range| whole.within(range))
        {
            for part in allocated.within(&range) {
                labels.add(part, Kind::FreeHeap);
            }
        }
        for part in allocated.within(&self.heap) {
            labels.add(part, Kind::Heap);
        }
        for part in allocated.within(&self.metadata) {
            labels.add(part, Kind::Collector);
        }
        if unread > 0 || superpages > MAX_SUPERPAGES {
            labels.note(
                "libgc (Plimsoll's): which parts of the heap are free is not known for all of it, so \
                 free ones among the rest are shown as heap.",
            );
        }
        labels.note(
            "libgc (Plimsoll's): free objects in superpages that hold others count as heap; stacks of \
             the marker are shown as other.",
        );
    }
}
