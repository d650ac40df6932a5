//! ELF files, 64-bit and little-endian: for which processor a file is, by which loader it is started, which
//! libraries it needs, and which sections it has. Every read is bounded, whatever the file says.
//!
//! | module | is |
//! |---|---|
//! | `source` | the open file |
//! | `needs` | whether a program needs a library, directly or through others |
//! | `image` | a file that a process has mapped: where its sections and variables are there |
//! | `symbols` | where its symbols are there |
//! | `loader` | what the loader makes of it: contents by address, code, pointers |

mod image;
mod loader;
mod needs;
mod source;
mod symbols;

pub use image::Image;
pub use needs::{PLACES, needs};

use object::LittleEndian as Little;
use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, Dyn64, ELFMAG, FileHeader64, PT_DYNAMIC,
    PT_INTERP, PT_LOAD, ProgramHeader64, SectionHeader64,
};
use object::pod::{Pod, from_bytes, slice_from_bytes};
use plimsoll_kernel::mapped::Named;
use source::Source;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most entries of a table of segments or sections that are read.
const MAX_HEADERS: usize = 1024;
/// The most entries of a dynamic section that are read.
const MAX_DYNAMIC: usize = 1 << 16;
/// The largest section, table of symbols or of their names, that is read, bytes.
const MAX_TABLE: u64 = 32 << 20;
/// The most libraries that a file is believed to need.
const MAX_NEEDED: usize = 256;

/// A program or a library, opened.
#[derive(Debug)]
pub struct Elf {
    file: Source,
    header: FileHeader64<Little>,
    segments: Vec<ProgramHeader64<Little>>,
    sections: Vec<SectionHeader64<Little>>,
    /// The sections' names, each ended by a zero.
    names: Vec<u8>,
}

impl Elf {
    /// Opens the file at a path. `None` if it cannot be opened, or is not the kind of file that a program or
    /// a library is.
    pub fn at(path: &Path) -> Option<Elf> {
        Elf::named(&Named::at(path).ok()?)
    }

    /// As [`Elf::at`], of a file that is named already.
    pub fn named(named: &Named) -> Option<Elf> {
        Elf::opened(Source::plain(named.open().ok()?))
    }

    /// As [`Elf::at`], of an open file.
    fn opened(file: Source) -> Option<Elf> {
        let header: FileHeader64<Little> =
            from_bytes(&bytes(&file, 0, 64)?).ok().map(|it| *it.0)?;
        let ident = header.e_ident;
        if ident.magic != ELFMAG || ident.class != 2 || ident.data != 1 {
            return None;
        }
        let count = usize::from(header.e_phnum.get(Little));
        let segments = many(&file, header.e_phoff.get(Little), count.min(MAX_HEADERS));
        let count = usize::from(header.e_shnum.get(Little));
        let sections: Option<Vec<SectionHeader64<Little>>> =
            many(&file, header.e_shoff.get(Little), count.min(MAX_HEADERS));
        let sections = sections.unwrap_or_default();
        let names = sections
            .get(usize::from(header.e_shstrndx.get(Little)))
            .and_then(|names| contents(&file, names));
        Some(Elf {
            file,
            header,
            segments: segments.unwrap_or_default(),
            sections,
            names: names.unwrap_or_default(),
        })
    }

    /// The number of the processor that the file is for (`e_machine`).
    pub fn processor(&self) -> u16 {
        self.header.e_machine.get(Little)
    }

    /// The program interpreter: the path of the loader, which belongs to one C library. `None` where it has
    /// none.
    pub fn interpreter(&self) -> Option<PathBuf> {
        let segment = self.segment(PT_INTERP)?;
        let text = segment_of(&self.file, segment)?;
        let name = text.split(|&byte| byte == 0).next()?;
        (!name.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(name)))
    }

    /// Whether it has a `DT_RPATH`, which the loader searches before `LD_LIBRARY_PATH`.
    pub fn has_rpath(&self) -> bool {
        let dynamic = self.dynamic().unwrap_or_default();
        first(&dynamic, DT_RPATH).is_some() && first(&dynamic, DT_RUNPATH).is_none()
    }

    /// The names of the libraries that it needs itself.
    pub fn needed(&self) -> Vec<String> {
        self.find_needed().unwrap_or_default()
    }

    fn find_needed(&self) -> Option<Vec<String>> {
        let dynamic = self.dynamic()?;
        let strings = first(&dynamic, DT_STRTAB)?;
        let length = first(&dynamic, DT_STRSZ)?;
        // The table is given as an address. The segment that contains the address tells its offset in
        // the file.
        let skip = |s: &ProgramHeader64<Little>| strings.checked_sub(s.p_vaddr.get(Little));
        let is_in = |s: &&ProgramHeader64<Little>| {
            s.p_type.get(Little) == PT_LOAD && skip(s).is_some_and(|at| at < s.p_filesz.get(Little))
        };
        let segment = self.segments.iter().find(is_in)?;
        let at = segment.p_offset.get(Little).checked_add(skip(segment)?)?;
        let text = bytes(&self.file, at, length)?;
        let name = |entry: &Dyn64<Little>| {
            let rest = text.get(usize::try_from(entry.d_val.get(Little)).ok()?..)?;
            let end = rest.iter().position(|&byte| byte == 0)?;
            String::from_utf8(rest[..end].to_vec()).ok()
        };
        let needed = dynamic.iter().filter(|entry| is(entry, DT_NEEDED));
        Some(needed.filter_map(name).take(MAX_NEEDED).collect())
    }

    /// Whether it has a section of this name.
    pub fn has_section(&self, name: &str) -> bool {
        self.section(name).is_some()
    }

    /// The contents of the section of this name. `None` if there is none, or if it is very large.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        contents(&self.file, self.section(name)?)
    }

    fn section(&self, name: &str) -> Option<&SectionHeader64<Little>> {
        self.sections.iter().find(|section| {
            let at = section.sh_name.get(Little) as usize;
            is_named(&self.names, at, name)
        })
    }

    fn segment(&self, kind: u32) -> Option<&ProgramHeader64<Little>> {
        let mut segments = self.segments.iter();
        segments.find(|segment| segment.p_type.get(Little) == kind)
    }

    fn dynamic(&self) -> Option<Vec<Dyn64<Little>>> {
        let segment = self.segment(PT_DYNAMIC)?;
        let count = segment.p_filesz.get(Little) as usize / size_of::<Dyn64<Little>>();
        let at = segment.p_offset.get(Little);
        many(&self.file, at, count.min(MAX_DYNAMIC))
    }
}

fn is(entry: &Dyn64<Little>, kind: i64) -> bool {
    entry.d_tag.get(Little) == kind
}

fn first(dynamic: &[Dyn64<Little>], kind: i64) -> Option<u64> {
    let found = dynamic.iter().find(|entry| is(entry, kind))?;
    Some(found.d_val.get(Little))
}

fn bytes(file: &Source, at: u64, length: u64) -> Option<Vec<u8>> {
    let end = at.checked_add(length)?;
    if length > MAX_TABLE || end > file.length().ok()? {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

fn contents(file: &Source, section: &SectionHeader64<Little>) -> Option<Vec<u8>> {
    bytes(
        file,
        section.sh_offset.get(Little),
        section.sh_size.get(Little),
    )
}

fn segment_of(file: &Source, segment: &ProgramHeader64<Little>) -> Option<Vec<u8>> {
    bytes(
        file,
        segment.p_offset.get(Little),
        segment.p_filesz.get(Little),
    )
}

fn many<T: Pod>(file: &Source, at: u64, count: usize) -> Option<Vec<T>> {
    let bytes = bytes(file, at, (count * size_of::<T>()) as u64)?;
    let (values, _) = slice_from_bytes(&bytes, count).ok()?;
    Some(values.to_vec())
}

fn is_named(names: &[u8], at: usize, name: &str) -> bool {
    let rest = names.get(at..).unwrap_or_default();
    rest.strip_prefix(name.as_bytes())
        .is_some_and(|rest| rest.first() == Some(&0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testbed::elf::{program, with_sections};
    use proptest::prelude::*;
    use std::io::{Read, Write};

    const TEXT: &str = "/etc/passwd";

    #[test]
    fn our_own_test_is_for_this_processor_and_has_a_loader() {
        let own = Elf::at(&std::env::current_exe().unwrap()).unwrap();
        let ours = if cfg!(target_arch = "x86_64") {
            62
        } else {
            183
        };
        assert_eq!(own.processor(), ours);
        assert!(own.interpreter().unwrap().is_absolute() && !own.has_rpath());
        assert!(own.needed().contains(&"libc.so.6".to_owned()));
        assert!(Elf::at(Path::new(TEXT)).is_none());
    }

    #[test]
    fn what_is_made_up_for_tests_tells_all_of_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |bytes: Vec<u8>| {
            std::fs::write(file.path(), bytes).unwrap();
            let elf = Elf::at(file.path()).unwrap();
            (elf.processor(), elf.interpreter(), elf.needed())
        };
        let needs = ["libx.so", "libc.so.6"];
        let loader = Some(PathBuf::from("/gnu/ld.so"));
        assert_eq!(
            read(program(183, Some("/gnu/ld.so"), &needs)),
            (183, loader, needs.map(str::to_owned).to_vec())
        );
        assert_eq!(read(program(62, None, &[])), (62, None, Vec::new()));
        // A name that ends before it begins, and a file that ends before its name.
        assert_eq!(read(program(62, Some(""), &[])).1, None);
        let mut short = program(62, Some("/lib/ld.so"), &[]);
        short.truncate(100);
        assert_eq!(read(short).1, None);
    }

    #[test]
    fn sections_are_found_by_their_names() {
        let own = Elf::at(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.has_section(".text") && own.has_section(".rodata"));
        assert!(!own.has_section(".tex") && !own.has_section(".svm_heap"));
        assert!(
            own.contents(".rodata")
                .is_some_and(|text| text.len() > 1000)
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            with_sections(&[(".a", b"one"), (".b", b"two")]),
        )
        .unwrap();
        let made_up = Elf::at(file.path()).unwrap();
        assert_eq!(made_up.contents(".b").as_deref(), Some(&b"two"[..]));
        assert!(made_up.has_section(".a") && !made_up.has_section(".c"));
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
            let elf = Elf::at(file.path()).unwrap();
            let _ = (elf.needed(), elf.has_rpath(), elf.interpreter(), elf.contents(".rodata"));
        }
    }
}
