//! The program's heap: libgc's, without the ballast.

use crate::ballast;
use crate::collector::Libgc;
use plimsoll_unit::Bytes;

/// The heap at one moment. While it changes, one number may be ahead of another by a block.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    /// Address space of libgc's heap, with the ballast.
    pub whole: Bytes,
    /// Heap that the program can use without a collection.
    pub extent: Bytes,
    /// The part of that in blocks with objects.
    pub used: Bytes,
    /// The part that may be resident: neither unmapped nor ballast.
    pub mapped: Bytes,
    /// Free blocks that are not unmapped.
    pub idle: Bytes,
    /// The memory that the program has allocated since its start.
    pub allocated: Bytes,
}

impl Heap {
    /// Reads libgc's counters, without its lock.
    pub fn read(gc: &Libgc) -> Heap {
        let stats = gc.read();
        let held = ballast::held();
        Heap {
            whole: stats.heap.into(),
            extent: Bytes::from(stats.heap) - held,
            used: stats.used() - held,
            mapped: stats.mapped() - held,
            idle: stats.idle(),
            allocated: stats.allocated() - ballast::ever(),
        }
    }
}
