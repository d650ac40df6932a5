//! Reads just enough of the ELF format to tell which libraries an executable needs, directly or
//! through others, and which sections it has.

mod sections;

#[cfg(test)]
pub(crate) use sections::made_up;
pub(crate) use sections::{has_section, section};

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The most libraries that are looked at.
const MAX_FILES: usize = 256;
/// Bytes of a dynamic section or of a string table that are read at most.
const MAX_SECTION: u64 = 4 << 20;
/// Where libraries are looked for besides `LD_LIBRARY_PATH`.
pub(crate) const PLACES: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
];

/// Whether the executable needs the library, directly or not. `false` for anything but a 64-bit
/// little-endian ELF file.
pub(crate) fn needs(executable: &Path, library: &[u8]) -> bool {
    let mut places: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH")
        .map(|list| {
            std::env::split_paths(&list)
                .filter(|p| p.is_absolute())
                .collect()
        })
        .unwrap_or_default();
    places.extend(PLACES.iter().map(PathBuf::from));
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    let mut files = vec![executable.to_owned()];
    while let Some(file) = files.pop() {
        for name in needed(&file).unwrap_or_default() {
            if name == library {
                return true;
            }
            if seen.len() >= MAX_FILES || !seen.insert(name.clone()) {
                continue;
            }
            let Ok(name) = String::from_utf8(name) else {
                continue;
            };
            files.extend(
                places
                    .iter()
                    .map(|place| place.join(&name))
                    .find(|path| path.is_file()),
            );
        }
    }
    false
}

fn read_at(file: &mut File, at: u64, length: u64) -> Option<Vec<u8>> {
    file.seek(SeekFrom::Start(at)).ok()?;
    let mut bytes = Vec::new();
    file.take(length.min(MAX_SECTION))
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

/// A 64-bit little-endian ELF file, and its header.
fn opened(path: &Path) -> Option<(File, Vec<u8>)> {
    let mut file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let header = read_at(&mut file, 0, 64)?;
    (header.get(..6)? == b"\x7fELF\x02\x01").then_some((file, header))
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    word(bytes, at).map(u64::from_le_bytes)
}

/// `DT_NEEDED`, `DT_STRTAB`, `DT_STRSZ`, `DT_RPATH`, `DT_RUNPATH`.
const NEEDED: u64 = 1;
const STRINGS: u64 = 5;
const STRINGS_SIZE: u64 = 10;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;

/// Whether the executable has a `DT_RPATH`, which the loader searches before `LD_LIBRARY_PATH`.
pub(crate) fn has_rpath(executable: &Path) -> bool {
    let Some(dynamic) = Dynamic::read(executable) else {
        return false;
    };
    let has = |kind| dynamic.entries().any(|(found, _)| found == kind);
    has(RPATH) && !has(RUNPATH)
}

/// The names in the `DT_NEEDED` entries of a file.
fn needed(path: &Path) -> Option<Vec<Vec<u8>>> {
    let mut dynamic = Dynamic::read(path)?;
    let strings = dynamic.first(STRINGS)?;
    let length = dynamic.first(STRINGS_SIZE)?;
    // The table is given as an address. The segment that contains the address tells its offset in
    // the file.
    let inside =
        |s: &&Segment| s.kind == 1 && s.address <= strings && strings - s.address < s.length;
    let segment = dynamic.segments.iter().find(inside)?;
    let at = segment.offset.checked_add(strings - segment.address)?;
    let text = read_at(&mut dynamic.file, at, length)?;
    let names = dynamic
        .entries()
        .filter(|e| e.0 == NEEDED)
        .filter_map(|(_, at)| {
            let rest = text.get(usize::try_from(at).ok()?..)?;
            Some(rest[..rest.iter().position(|&b| b == 0)?].to_vec())
        });
    Some(names.take(MAX_FILES).collect())
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    length: u64,
}

/// The dynamic section of an executable or a library.
struct Dynamic {
    file: File,
    segments: Vec<Segment>,
    words: Vec<u8>,
}

impl Dynamic {
    fn read(path: &Path) -> Option<Dynamic> {
        let (mut file, header) = opened(path)?;
        let size = u64::from(u16::from_le_bytes(word(&header, 54)?));
        let count = u64::from(u16::from_le_bytes(word(&header, 56)?));
        let table = read_at(&mut file, u64_at(&header, 32)?, size * count)?;
        let mut segments = Vec::new();
        for entry in table.chunks_exact(usize::try_from(size).ok().filter(|&s| s >= 56)?) {
            let kind = u32::from_le_bytes(word(entry, 0)?);
            segments.push(Segment {
                kind,
                offset: u64_at(entry, 8)?,
                address: u64_at(entry, 16)?,
                length: u64_at(entry, 32)?,
            });
        }
        let dynamic = segments.iter().find(|s| s.kind == 2)?;
        let words = read_at(&mut file, dynamic.offset, dynamic.length)?;
        Some(Dynamic {
            file,
            segments,
            words,
        })
    }

    fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.words
            .chunks_exact(16)
            .filter_map(|e| Some((u64_at(e, 0)?, u64_at(e, 8)?)))
    }

    fn first(&self, kind: u64) -> Option<u64> {
        self.entries().find(|e| e.0 == kind).map(|e| e.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    #[test]
    fn our_own_test_needs_the_c_library() {
        let own = std::env::current_exe().unwrap();
        assert!(needs(&own, b"libc.so.6"));
        assert!(!needs(&own, b"libgc.so.1"));
        assert!(!needs(Path::new("/etc/passwd"), b"libc.so.6"));
        assert!(!has_rpath(&own) && !has_rpath(Path::new("/etc/passwd")));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn damaged_files_never_panic(
            changes in proptest::collection::vec((0_usize..4096, any::<u8>()), 1..64),
        ) {
            let mut bytes = vec![0; 4096];
            std::fs::File::open("/proc/self/exe").unwrap().read_exact(&mut bytes).unwrap();
            for (at, value) in changes {
                bytes[at] = value;
            }
            bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            let _ = needed(file.path());
            let _ = has_rpath(file.path());
            let _ = section(file.path(), b".rodata");
        }
    }
}
