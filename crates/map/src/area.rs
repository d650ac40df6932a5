//! Areas and states.

use serde::Serialize;

/// What memory is for, in the order in which areas are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// New objects of a generational heap.
    Eden,
    /// Objects that survived a collection of the young generation.
    Survivor,
    /// Objects that survived several collections.
    Old,
    /// Objects of at least half a region.
    Humongous,
    /// A heap that is not divided, or whose parts are not known.
    Heap,
    /// Committed memory of a heap in which no objects are.
    FreeHeap,
    /// Class metadata.
    Metaspace,
    /// Class metadata with compressed pointers.
    ClassSpace,
    /// Compiled code.
    CodeCache,
    /// What the collector keeps about the heap: card tables, mark bits, remembered sets.
    Collector,
    /// A class data sharing archive.
    ClassArchive,
    /// Jars, `lib/modules`, and other archives of code.
    Archives,
    /// The executable.
    Executable,
    /// Shared libraries.
    Libraries,
    /// Stacks of threads.
    Stacks,
    /// The C allocator's memory.
    Malloc,
    /// Memory of the kind of tmpfs that several processes can map.
    SharedMemory,
    /// Other mapped files.
    Files,
    /// Memory that nothing tells about.
    Other,
    /// The kernel counted it, but it changed while we looked.
    Unattributed,
}

/// States of an area's memory, bytes. The kernel's own terms (`proc.rst`, "smaps").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct States {
    /// Mapped addresses.
    pub size: u64,
    /// In memory and mapped by this process.
    pub resident: u64,
    /// In swap.
    pub swapped: u64,
    /// Of mapped files: in the page cache, whether mapped by this process or not.
    pub cached: u64,
    /// Resident, and mapped by other processes too.
    pub shared: u64,
    /// Resident, with the reference bit set.
    pub referenced: u64,
}
