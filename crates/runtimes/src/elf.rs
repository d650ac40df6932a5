//! Reads just enough of the ELF format to tell for which processor a file is, by which loader it is started,
//! which libraries an executable needs, directly or through others, and which sections it has.

#[cfg(test)]
mod made;
mod sections;

#[cfg(test)]
pub(crate) use made::program as made_up_program;

#[cfg(test)]
pub(crate) use sections::made_up;
pub(crate) use sections::{has_section, has_section_in, section};

use plimsoll_kernel::mapped::Named;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
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
    opened_by(Named::at(path).ok()?)
}

fn opened_by(named: Named) -> Option<(File, Vec<u8>)> {
    let mut file = File::from(named.open().ok()?);
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

/// Kinds of segments: `PT_LOAD`, `PT_DYNAMIC`, `PT_INTERP`.
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;

/// The number of the processor that a file is for (`e_machine`). `None` for anything but a 64-bit
/// little-endian ELF file.
pub(crate) fn processor(path: &Path) -> Option<u16> {
    let (_, header) = opened(path)?;
    word(&header, 18).map(u16::from_le_bytes)
}

/// The program interpreter of an executable: the path of the loader, which belongs to one C library. `None`
/// where it has none.
pub(crate) fn interpreter(executable: &Path) -> Option<PathBuf> {
    let (mut file, segments) = segments(executable)?;
    let segment = segments.iter().find(|s| s.kind == INTERPRETER)?;
    let text = read_at(&mut file, segment.offset, segment.length)?;
    let name = text.split(|&byte| byte == 0).next()?;
    (!name.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(name)))
}

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
        |s: &&Segment| s.kind == LOAD && s.address <= strings && strings - s.address < s.length;
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

/// The open file, and its segments.
fn segments(path: &Path) -> Option<(File, Vec<Segment>)> {
    let (mut file, header) = opened(path)?;
    let size = u64::from(u16::from_le_bytes(word(&header, 54)?));
    let count = u64::from(u16::from_le_bytes(word(&header, 56)?));
    let table = read_at(&mut file, u64_at(&header, 32)?, size * count)?;
    let entries = table.chunks_exact(usize::try_from(size).ok().filter(|&s| s >= 56)?);
    let segment = |entry: &[u8]| {
        Some(Segment {
            kind: u32::from_le_bytes(word(entry, 0)?),
            offset: u64_at(entry, 8)?,
            address: u64_at(entry, 16)?,
            length: u64_at(entry, 32)?,
        })
    };
    let segments = entries.map(segment).collect::<Option<_>>()?;
    Some((file, segments))
}

impl Dynamic {
    fn read(path: &Path) -> Option<Dynamic> {
        let (mut file, segments) = segments(path)?;
        let dynamic = segments.iter().find(|s| s.kind == DYNAMIC)?;
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

    #[test]
    fn our_own_test_is_for_this_processor_and_has_a_loader() {
        let own = std::env::current_exe().unwrap();
        let ours = match cfg!(target_arch = "x86_64") {
            true => 62,
            false => 183,
        };
        assert_eq!(processor(&own), Some(ours));
        assert!(interpreter(&own).unwrap().is_absolute());
        let text = Path::new("/etc/passwd");
        assert_eq!((processor(text), interpreter(text)), (None, None));
    }

    #[test]
    fn what_is_made_up_for_tests_tells_all_of_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |bytes: Vec<u8>| std::fs::write(file.path(), bytes).unwrap();
        write(made_up_program(
            183,
            Some("/gnu/ld.so"),
            &["libx.so", "libc.so.6"],
        ));
        assert_eq!(processor(file.path()), Some(183));
        assert_eq!(interpreter(file.path()), Some(PathBuf::from("/gnu/ld.so")));
        assert!(needs(file.path(), b"libc.so.6") && needs(file.path(), b"libx.so"));
        write(made_up_program(62, None, &[]));
        assert_eq!(processor(file.path()), Some(62));
        assert_eq!(interpreter(file.path()), None);
        assert!(!needs(file.path(), b"libc.so.6"));
        // A name that ends before it begins, and a file that ends before its name.
        write(made_up_program(62, Some(""), &[]));
        assert_eq!(interpreter(file.path()), None);
        let mut short = made_up_program(62, Some("/lib/ld.so"), &[]);
        short.truncate(100);
        write(short);
        assert_eq!(interpreter(file.path()), None);
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
            let _ = (processor(file.path()), interpreter(file.path()));
            let _ = section(file.path(), b".rodata");
        }
    }
}
