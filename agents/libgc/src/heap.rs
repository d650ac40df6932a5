//! The program's heap: libgc's, without the ballast. Sizes in bytes.

use crate::ballast;
use crate::collector::Libgc;

/// The heap at one moment. While it changes, one number may be ahead of another by a block.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    /// Address space of libgc's heap, with the ballast.
    pub whole: u64,
    /// Heap that the program can use without a collection.
    pub extent: u64,
    /// The part of that in blocks with objects.
    pub used: u64,
    /// The part that may be resident: neither unmapped nor ballast.
    pub mapped: u64,
    /// Free blocks that are not unmapped.
    pub idle: u64,
    /// Bytes that the program has allocated since its start.
    pub allocated: u64,
}

impl Heap {
    /// Reads libgc's counters, without its lock.
    pub fn read(gc: &Libgc) -> Heap {
        let stats = gc.read();
        let held = ballast::held();
        Heap {
            whole: stats.heap as u64,
            extent: (stats.heap as u64).saturating_sub(held),
            used: stats.used().saturating_sub(held),
            mapped: stats.mapped().saturating_sub(held),
            idle: stats.idle(),
            allocated: stats.allocated().saturating_sub(ballast::ever()),
        }
    }
}
