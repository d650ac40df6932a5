//! Areas and states.

use serde::{Deserialize, Serialize};

/// The purpose of memory. Areas are shown in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// The collector's tables about the heap, as far as the runtime tells where they are: of `HotSpot`
    /// card tables and few others, no mark bits or remembered sets. The rest is `Malloc` or `Other`.
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

impl Kind {
    /// As people read it, at most 14 characters.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Eden => "eden",
            Kind::Survivor => "survivor",
            Kind::Old => "old",
            Kind::Humongous => "humongous",
            Kind::Heap => "heap",
            Kind::FreeHeap => "free heap",
            Kind::Metaspace => "metaspace",
            Kind::ClassSpace => "class space",
            Kind::CodeCache => "code cache",
            Kind::Collector => "collector",
            Kind::ClassArchive => "class archive",
            Kind::Archives => "archives",
            Kind::Executable => "executable",
            Kind::Libraries => "libraries",
            Kind::Stacks => "stacks",
            Kind::Malloc => "malloc",
            Kind::SharedMemory => "shared memory",
            Kind::Files => "files",
            Kind::Other => "other",
            Kind::Unattributed => "unattributed",
        }
    }
}

/// States of an area's memory, bytes. The kernel's own terms (`proc.rst`, "smaps").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct States {
    /// Mapped addresses.
    pub size: u64,
    /// In memory and mapped by this process.
    pub resident: u64,
    /// In swap.
    pub swapped: u64,
    /// In the page cache, of mapped files, whether this process maps the page or not. A part of a file
    /// that is mapped at several addresses counts once. `None` where that cannot be told for any file.
    pub cached: Option<u64>,
    /// Whether `cached` cannot be told for some mapped files. It is that of the others then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cached_unknown: bool,
    /// Resident, and mapped more than once: by other processes, or again by this one. `None` where
    /// the kernel does not show it to us, as all that follows.
    pub shared: Option<u64>,
    /// Resident, and used since its reference bit was cleared last; of files and shared memory by
    /// whatever process.
    pub referenced: Option<u64>,
    /// Resident, and back since the look before: at that look or an earlier one it had left memory.
    /// `None` without an earlier look, or where that cannot be told for any of it.
    pub refaulted: Option<u64>,
    /// Whether `refaulted` cannot be told for some memory. It is that of the rest then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub refaulted_unknown: bool,
    /// Resident, and private to this process: of no file and of no shared memory.
    pub anonymous: u64,
    /// The part of `resident` that was counted before, because this process maps the same part of a
    /// file at several addresses.
    pub repeated: u64,
    /// The part of `swapped` that was counted before, for the same reason.
    pub repeated_swapped: u64,
    /// Pages of mapped files that left the page cache so recently that reading them again is a
    /// refault. `None` as with `cached`.
    pub evicted: Option<u64>,
}

impl States {
    /// Adds another area's memory to this one's.
    pub fn add(&mut self, other: &States) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        let sum_known = |a: &mut Option<u64>, b: Option<u64>| {
            *a = match (*a, b) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (a, b) => a.or(b),
            }
        };
        sum(&mut self.size, other.size);
        sum(&mut self.resident, other.resident);
        sum(&mut self.swapped, other.swapped);
        sum(&mut self.anonymous, other.anonymous);
        sum(&mut self.repeated, other.repeated);
        sum(&mut self.repeated_swapped, other.repeated_swapped);
        sum_known(&mut self.cached, other.cached);
        sum_known(&mut self.shared, other.shared);
        sum_known(&mut self.referenced, other.referenced);
        sum_known(&mut self.refaulted, other.refaulted);
        sum_known(&mut self.evicted, other.evicted);
        self.cached_unknown |= other.cached_unknown;
        self.refaulted_unknown |= other.refaulted_unknown;
    }

    /// In the page cache, but not resident in this process.
    pub fn cached_only(&self) -> u64 {
        let mapped = self.resident.saturating_sub(self.anonymous);
        let mapped = mapped.saturating_sub(self.repeated);
        self.cached.unwrap_or(0).saturating_sub(mapped)
    }

    /// Whether there is memory to show.
    pub fn is_empty(&self) -> bool {
        self.size == 0 && self.resident == 0 && self.swapped == 0
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(flag: &bool) -> bool {
    !flag
}
