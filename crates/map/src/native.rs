//! The memory that every program has: the executable, libraries, stacks, malloc, files.
//!
//! `arenas` finds the heaps of the C library's arenas, `bss` where a file's variables end.

mod arenas;
mod bss;

use crate::area::Kind;
use crate::labels::Labels;
use crate::memory::Memory;
use crate::snapshot::Snapshot;
use plimsoll_kernel::process::page_size;
use plimsoll_kernel::smaps::{Area, FileKey};
use std::collections::HashSet;
use std::path::Path;

/// The C library's arenas begin at multiples of this and are at most this long, bytes (`HEAP_MAX_SIZE`
/// in glibc's `malloc/arena.c`).
const ARENA: u64 = 64 << 20;
/// Most memory below a mapping that counts as the guard of a stack, bytes.
const LARGEST_GUARD: u64 = 1 << 20;
/// A mapping without a guard below it is one stack if it is no larger than this, bytes.
const LARGEST_STACK: u64 = 64 << 20;
/// Most blocks of the C library that are followed in one mapping.
const MAX_BLOCKS: usize = 4096;
/// Most mappings, and further multiples of [`ARENA`] in them, at which memory of the C library is looked for.
const MAX_LOOKED_INTO: usize = 16_384;

/// Labels all mappings by what the kernel tells of them, and the C library's large blocks by their
/// heads.
pub fn label(snapshot: &Snapshot, memory: &dyn Memory, labels: &mut Labels) {
    let code = code_files(&snapshot.mappings);
    let stacks = Stacks::of(snapshot);
    let mut left = MAX_LOOKED_INTO;
    for (index, area) in snapshot.mappings.iter().enumerate() {
        let before = index.checked_sub(1).map(|i| &snapshot.mappings[i]);
        let before = before.filter(|b| b.addresses.end == area.addresses.start);
        let after = snapshot.mappings.get(index + 1);
        let after = after.filter(|a| a.addresses.start == area.addresses.end);
        if !is_plain(area) {
            labels.add(area.addresses.clone(), of_name(snapshot, area, &code));
            continue;
        }
        let owner = before.filter(|b| extends(b, area));
        let mut rest = area.clone();
        if let Some(owner) = owner {
            let end = bss::end_of(owner, &snapshot.mappings[..index], memory);
            let end = end.unwrap_or(area.addresses.end);
            rest.addresses.start = end.clamp(area.addresses.start, area.addresses.end);
            let of_file = area.addresses.start..rest.addresses.start;
            labels.add(of_file, of_name(snapshot, owner, &code));
        }
        if rest.addresses.is_empty() {
            continue;
        }
        let kind = if stacks.is_one(&rest, before) {
            Kind::Stacks
        } else if arenas::is_one(&rest, after) {
            Kind::Malloc
        } else {
            if rest.writable && left > 0 {
                left -= 1;
                label_blocks(&rest, memory, labels);
                left -= arenas::label(&rest.addresses, memory, left, labels);
            }
            Kind::Other
        };
        labels.add(rest.addresses, kind);
    }
}

/// Whether a mapping is anonymous and has no name.
fn is_plain(area: &Area) -> bool {
    area.name.is_empty() && area.file.inode == 0
}

/// Whether anonymous memory after a file's data is the rest of that data, which begins as zeros
/// (`.bss`).
fn extends(data: &Area, area: &Area) -> bool {
    data.name.starts_with('/') && data.writable && !data.shared_mapping && area.writable
}

/// The files with a mapping that can be executed.
fn code_files(mappings: &[Area]) -> HashSet<FileKey> {
    let code = mappings
        .iter()
        .filter(|area| area.executable && area.file.inode != 0);
    code.map(|area| area.file).collect()
}

/// The purpose of an area, by its name. The names that are no paths are those of `proc.rst`, "maps".
fn of_name(snapshot: &Snapshot, area: &Area, code: &HashSet<FileKey>) -> Kind {
    let deleted = " (deleted)";
    let name = area.name.strip_suffix(deleted).unwrap_or(&area.name);
    if let Some(name) = name.strip_prefix("[anon:") {
        return of_given_name(name);
    }
    match name {
        "[heap]" => return Kind::Malloc,
        _ if name.starts_with("[stack") => return Kind::Stacks,
        _ if name.starts_with("[anon_shmem") => return Kind::SharedMemory,
        _ if !name.starts_with('/') => return Kind::Other,
        _ => {}
    }
    let shared = ["/memfd:", "/dev/shm/", "/SYSV", "/dev/zero"];
    let executable = snapshot.executable.to_str().unwrap_or("");
    let executable = executable.strip_suffix(deleted).unwrap_or(executable);
    if name == executable {
        Kind::Executable
    } else if shared.iter().any(|start| name.starts_with(start)) {
        Kind::SharedMemory
    } else if ["/dev/", "/[", "/anon_hugepage"]
        .iter()
        .any(|start| name.starts_with(start))
    {
        Kind::Other
    } else {
        of_path(Path::new(name), code.contains(&area.file))
    }
}

/// Names that programs give to anonymous memory (`PR_SET_VMA_ANON_NAME`).
fn of_given_name(name: &str) -> Kind {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["malloc", "jemalloc", "scudo", "tcmalloc", "mimalloc"]) {
        Kind::Malloc
    } else if has(&["stack"]) {
        Kind::Stacks
    } else {
        Kind::Other
    }
}

fn of_path(path: &Path, code: bool) -> Kind {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
    let end = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    let archives = [
        "jar", "jmod", "war", "ear", "zip", "whl", "egg", "pyz", "asar",
    ];
    if archives.contains(&end.to_ascii_lowercase().as_str()) || path.ends_with("lib/modules") {
        Kind::Archives
    } else if end == "jsa" {
        Kind::ClassArchive
    } else if code || end == "so" || name.contains(".so.") {
        Kind::Libraries
    } else {
        Kind::Files
    }
}

/// How stacks of threads look in a process.
struct Stacks {
    pointers: Vec<u64>,
    /// Sizes of mappings that are certainly one stack, or that new stacks will have, bytes.
    sizes: HashSet<u64>,
}

impl Stacks {
    fn of(snapshot: &Snapshot) -> Stacks {
        let mut pointers = snapshot.stack_pointers.clone();
        pointers.sort_unstable();
        let mut stacks = Stacks {
            pointers,
            sizes: HashSet::new(),
        };
        // The guard of a stack is a part of its size. It has one page if the program asks for nothing else.
        let usual = snapshot.stack_limit.checked_sub(page_size());
        stacks.sizes.extend(usual.filter(|&size| size > 0));
        for pair in snapshot.mappings.windows(2) {
            let [before, area] = pair else { continue };
            if is_guard(before, area) && stacks.has_pointer(area) {
                stacks.sizes.insert(area.size());
            }
        }
        stacks
    }

    fn has_pointer(&self, area: &Area) -> bool {
        let first = (self.pointers).partition_point(|&pointer| pointer < area.addresses.start);
        self.pointers
            .get(first)
            .is_some_and(|&pointer| pointer < area.addresses.end)
    }

    /// Whether a mapping is a stack: a thread's stack pointer is in it; or it has a guard below and the
    /// size of another one that is. The C library keeps stacks of threads that ended, and a thread that
    /// runs does not show where its stack is.
    fn is_one(&self, area: &Area, before: Option<&Area>) -> bool {
        if !area.writable || area.shared_mapping {
            return false;
        }
        let guarded = before.is_some_and(|before| is_guard(before, area));
        if self.has_pointer(area) {
            guarded || area.size() <= LARGEST_STACK
        } else {
            guarded && self.sizes.contains(&area.size())
        }
    }
}

/// Whether a mapping without access lies right below another one.
fn is_guard(below: &Area, area: &Area) -> bool {
    let closed = !below.readable && !below.writable && !below.executable;
    closed
        && is_plain(below)
        && below.addresses.end == area.addresses.start
        && below.size() <= LARGEST_GUARD
}

/// Labels large blocks of the C library, which are mappings of their own. Each begins with a head: 0
/// and its size with bit 1 set (`IS_MMAPPED`; glibc's `malloc/malloc.c`). The kernel joins those that
/// lie side by side.
fn label_blocks(area: &Area, memory: &dyn Memory, labels: &mut Labels) {
    /// The bit of a block's size for a mapping of its own.
    const MAPPED: u64 = 2;
    let mut at = area.addresses.start;
    for _ in 0..MAX_BLOCKS {
        let mut head = [0; 16];
        if at >= area.addresses.end || memory.read(at, &mut head).is_err() {
            break;
        }
        let word = |from: usize| {
            let bytes = head[from..from + 8].try_into();
            bytes.map_or(0, u64::from_ne_bytes)
        };
        let (before, size) = (word(0), word(8) ^ MAPPED);
        let left = area.addresses.end - at;
        let fits = size > 0 && size <= left && size.is_multiple_of(page_size());
        if before != 0 || !fits {
            break;
        }
        labels.add(at..at + size, Kind::Malloc);
        at += size;
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
