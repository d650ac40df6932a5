//! Go programs, with or without cgo, stripped or not. The heap's pages, and which of them hold
//! objects, goroutines' stacks or nothing, are read from the runtime's list of spans. Source:
//! `runtime/mheap.go` and `runtime/malloc.go` of Go 1.21 to 1.26.
//!
//! | word | meaning |
//! |---|---|
//! | *arena* | 64 MiB of addresses, aligned, that belong to the heap alone |
//! | *span* | adjacent pages (8 KiB) of an arena that are used for one thing |

mod arenas;
mod spans;
#[cfg(test)]
mod tests;

use crate::area::Kind;
use crate::labels::{Labeller, Labels};
use crate::memory::Memory;
use crate::runtimes::process_words::{PIECE, Ranges, Words};
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::Addresses;
pub use plimsoll_programs::go::Go;
use spans::{Found, Use};
use std::collections::BTreeSet;

/// Bytes of addresses of an arena, and its alignment.
const ARENA: u64 = 64 << 20;

impl Labeller for Go {
    fn title(&self) -> &'static str {
        "Go"
    }

    fn label(&self, snapshot: &Snapshot, memory: &dyn Memory, labels: &mut Labels) {
        let Some(image) = self.image(&snapshot.candidate()) else {
            return;
        };
        let variables: Vec<_> = image.variables().collect();
        label_heap(snapshot, memory, &variables, labels);
    }
}

fn label_heap(
    snapshot: &Snapshot,
    memory: &dyn Memory,
    variables: &[Addresses],
    labels: &mut Labels,
) {
    let words = Words::new(snapshot, memory);
    let allocated = Ranges::allocated(snapshot);
    by_names(snapshot, labels);
    match spans::find(&words, &allocated, variables) {
        Some(found) => {
            let arenas = arenas::find(&words, &allocated, variables, &found.spans);
            by_spans(&found, arenas, &allocated, labels);
        }
        None => {
            by_place(&allocated, labels);
            labels.note(
                "Go: the runtime's list of spans was not found (it is not in memory, may not be read, \
                 or is laid out in a way that is not known), so only what lies where Go documents its \
                 heap, from 0xc000000000 on, is shown as heap: objects, stacks of goroutines and free \
                 memory together.",
            );
        }
    }
}

/// Labels arenas by what is known of their spans; what no span has is free.
fn by_spans(found: &Found, arenas: BTreeSet<u64>, allocated: &Ranges, labels: &mut Labels) {
    for span in &found.spans {
        let kind = match span.usage {
            Use::Objects => Kind::Heap,
            Use::Stacks => Kind::Stacks,
            Use::Other => Kind::Collector,
        };
        labels.add(span.addresses.clone(), kind);
    }
    let rest = if found.unread == 0 {
        Kind::FreeHeap
    } else {
        labels.note(format!(
            "Go: {} of {} entries of the runtime's list of spans are not in memory or too many, so \
             free memory of the heap, and stacks of goroutines, count as heap where they are in \
             none of the others.",
            found.unread, found.listed,
        ));
        Kind::Heap
    };
    for arena in arenas {
        let arena = arena * ARENA..(arena + 1).saturating_mul(ARENA);
        for part in allocated.within(&arena) {
            labels.add(part, rest);
        }
    }
    for table in &found.tables {
        for part in allocated.within(table) {
            labels.add(part, Kind::Collector);
        }
    }
    labels.note(
        "Go: an object's free neighbours in the same span count as heap; tables of the runtime that \
         lie outside of the heap and are not its spans are shown as other.",
    );
}

/// Labels what lies where Go puts its heap if it can (`runtime/malloc.go`, `mallocinit`). Versions
/// from 1.26 on put it anywhere.
fn by_place(allocated: &Ranges, labels: &mut Labels) {
    /// The address of the first arena.
    const HEAP: u64 = 0xc0_0000_0000;
    let mut arena = HEAP;
    loop {
        let before = labels.labels.len();
        for part in allocated.within(&(arena..arena + ARENA)) {
            labels.add(part, Kind::Heap);
        }
        arena += ARENA;
        if labels.labels.len() == before || arena >= HEAP << 1 {
            return;
        }
    }
}

/// Labels mappings by the names that the runtime gave them: from Go 1.25 on, where the kernel keeps
/// names (`CONFIG_ANON_VMA_NAME`).
fn by_names(snapshot: &Snapshot, labels: &mut Labels) {
    for area in &snapshot.mappings {
        let name = area.name.strip_prefix("[anon: Go: ");
        let kind = match name.map(|name| name.trim_end_matches(']')) {
            Some(
                "heap index" | "page summary" | "page alloc" | "page alloc index"
                | "scavenge index" | "gc bits" | "GC span queue" | "allspans array",
            ) => Kind::Collector,
            Some("OS thread stack" | "goroutine stack (system)") => Kind::Stacks,
            _ => continue,
        };
        labels.add(area.addresses.clone(), kind);
    }
}

/// The pieces that some bytes are in.
fn pieces(start: u64, bytes: u64) -> Addresses {
    let end = start.saturating_add(bytes);
    start / PIECE * PIECE..end.checked_next_multiple_of(PIECE).unwrap_or(end)
}
