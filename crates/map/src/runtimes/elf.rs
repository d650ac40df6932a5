//! An ELF file that a process has mapped: where its symbols, sections and data are in that process.
//! 64-bit, little-endian. Every read is bounded, whatever the file says, and leaves the page cache
//! as it was.

mod loader;

use crate::mapped;
use crate::sight::Sight;
use object::LittleEndian as Little;
use object::elf::{
    ELFMAG, ET_EXEC, FileHeader64, PF_W, PT_LOAD, ProgramHeader64, SHT_DYNSYM, SHT_SYMTAB,
    SectionHeader64, Sym64,
};
use object::pod::{Pod, from_bytes, slice_from_bytes};
use plimsoll_kernel::quiet::QuietFile;
use plimsoll_kernel::smaps::{Addresses, Area};
use std::path::Path;

/// The most entries of a table of segments or sections that are read.
const MAX_HEADERS: usize = 1024;
/// The largest table of symbols, or of their names, that is read, bytes.
const MAX_TABLE: u64 = 32 << 20;
/// The most mappings of one file that are looked at.
const MAX_MAPPINGS: usize = 256;

/// A file that is mapped, opened.
#[derive(Debug)]
pub(crate) struct Image {
    file: QuietFile,
    segments: Vec<ProgramHeader64<Little>>,
    sections: Vec<SectionHeader64<Little>>,
    /// The sections' names, each ended by a zero.
    names: Vec<u8>,
    /// What is added to the file's addresses to get the process's.
    bias: u64,
}

impl Image {
    /// The process's executable.
    pub(crate) fn of_executable(sight: &Sight) -> Option<Image> {
        let path = sight.executable.as_os_str();
        if path.is_empty() {
            return None;
        }
        Image::of(sight, |name| name == Path::new(path))
    }

    /// The first mapped file whose name satisfies `is`. `None` if there is none, if it cannot be
    /// opened, and if it is not the kind of file that a program or a library is.
    pub(crate) fn of(sight: &Sight, is: impl Fn(&Path) -> bool) -> Option<Image> {
        let first = sight.mappings_of(is).find(|area| area.file.inode != 0)?;
        let file = QuietFile::new(mapped::open(sight, first).ok()?);
        let header: FileHeader64<Little> = one(&file, 0)?;
        let ident = header.e_ident;
        let is_ours = ident.magic == ELFMAG && ident.class == 2 && ident.data == 1;
        if !is_ours {
            return None;
        }
        let segments = many::<ProgramHeader64<Little>>(
            &file,
            header.e_phoff.get(Little),
            usize::from(header.e_phnum.get(Little)),
        )?;
        let sections = many::<SectionHeader64<Little>>(
            &file,
            header.e_shoff.get(Little),
            usize::from(header.e_shnum.get(Little)),
        )
        .unwrap_or_default();
        let names = sections
            .get(usize::from(header.e_shstrndx.get(Little)))
            .and_then(|names| contents(&file, names))
            .unwrap_or_default();
        let bias = bias(
            sight,
            first,
            &segments,
            header.e_type.get(Little) == ET_EXEC,
        )?;
        Some(Image {
            file,
            segments,
            sections,
            names,
            bias,
        })
    }

    /// Where the file's first address is in the process.
    pub(crate) fn base(&self) -> u64 {
        let loaded = |s: &&ProgramHeader64<Little>| s.p_type.get(Little) == PT_LOAD;
        let segments = self.segments.iter().filter(loaded);
        let lowest = segments.map(|s| s.p_vaddr.get(Little)).min();
        lowest.unwrap_or(0).wrapping_add(self.bias)
    }

    /// Where a section is in the process. `None` if it is not there, or not loaded.
    pub(crate) fn section(&self, name: &str) -> Option<Addresses> {
        let section = self.sections.iter().find(|s| {
            let at = s.sh_name.get(Little) as usize;
            is_named(&self.names, at, name)
        })?;
        let start = section.sh_addr.get(Little);
        if start == 0 {
            return None;
        }
        let start = start.checked_add(self.bias)?;
        Some(start..start.checked_add(section.sh_size.get(Little))?)
    }

    /// Where a symbol is in the process, from the table that the loader uses or, if it is not
    /// there, from the one that debuggers use. Its end is its start if the table gives no size.
    pub(crate) fn symbol(&self, name: &str) -> Option<Addresses> {
        let symbols = |kind| self.symbol_in(kind, name);
        symbols(SHT_DYNSYM).or_else(|| symbols(SHT_SYMTAB))
    }

    /// Where a symbol is that the loader knows of: faster if it may not be there at all.
    pub(crate) fn exported(&self, name: &str) -> Option<Addresses> {
        self.symbol_in(SHT_DYNSYM, name)
    }

    fn symbol_in(&self, kind: u32, name: &str) -> Option<Addresses> {
        let is_table = |s: &&SectionHeader64<Little>| s.sh_type.get(Little) == kind;
        let table = self.sections.iter().find(is_table)?;
        let names = self.sections.get(table.sh_link.get(Little) as usize)?;
        let names = contents(&self.file, names)?;
        let symbols = contents(&self.file, table)?;
        let count = symbols.len() / size_of::<Sym64<Little>>();
        let (symbols, _) = slice_from_bytes::<Sym64<Little>>(&symbols, count).ok()?;
        let symbol = symbols.iter().find(|symbol| {
            symbol.st_shndx.get(Little) != 0
                && is_named(&names, symbol.st_name.get(Little) as usize, name)
        })?;
        let start = symbol.st_value.get(Little).checked_add(self.bias)?;
        Some(start..start.checked_add(symbol.st_size.get(Little))?)
    }

    /// Where the process has the file's variables: those with a first value, and those without.
    pub(crate) fn variables(&self) -> impl Iterator<Item = Addresses> {
        self.segments
            .iter()
            .filter(|s| s.p_type.get(Little) == PT_LOAD && s.p_flags.get(Little) & PF_W != 0)
            .filter_map(|s| {
                let start = s.p_vaddr.get(Little).checked_add(self.bias)?;
                Some(start..start.checked_add(s.p_memsz.get(Little))?)
            })
    }
}

/// The difference between the process's addresses and the file's. A file may be mapped more than
/// once, as a program that reads its own executable does: what the loader mapped has the first
/// segment, and the variables, at the distances that the file says.
fn bias(
    sight: &Sight,
    first: &Area,
    segments: &[ProgramHeader64<Little>],
    is_fixed: bool,
) -> Option<u64> {
    let mine: Vec<&Area> = sight
        .mappings
        .iter()
        .filter(|area| area.file == first.file)
        .take(MAX_MAPPINGS)
        .collect();
    // Every kernel that we run on maps at multiples of this.
    let page = |address: u64| address & !4095;
    let loaded = |s: &&ProgramHeader64<Little>| s.p_type.get(Little) == PT_LOAD;
    let lowest = segments.iter().find(loaded)?;
    let lowest = page(lowest.p_vaddr.get(Little));
    let is_there = |bias: u64| {
        let written = |s: &&ProgramHeader64<Little>| {
            loaded(s) && s.p_flags.get(Little) & PF_W != 0 && s.p_filesz.get(Little) > 0
        };
        segments.iter().filter(written).all(|segment| {
            let at = page(segment.p_vaddr.get(Little)).wrapping_add(bias);
            mine.iter().any(|area| area.addresses.contains(&at))
        })
    };
    mine.iter()
        .map(|area| area.addresses.start.wrapping_sub(lowest))
        .filter(|&bias| !is_fixed || bias == 0)
        .find(|&bias| is_there(bias))
}

fn bytes(file: &QuietFile, at: u64, length: u64) -> Option<Vec<u8>> {
    let end = at.checked_add(length)?;
    if length > MAX_TABLE || end > file.length().ok()? {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

fn contents(file: &QuietFile, section: &SectionHeader64<Little>) -> Option<Vec<u8>> {
    bytes(
        file,
        section.sh_offset.get(Little),
        section.sh_size.get(Little),
    )
}

fn one<T: Pod>(file: &QuietFile, at: u64) -> Option<T> {
    let bytes = bytes(file, at, size_of::<T>() as u64)?;
    from_bytes(&bytes).ok().map(|(value, _)| *value)
}

fn many<T: Pod>(file: &QuietFile, at: u64, count: usize) -> Option<Vec<T>> {
    let count = count.min(MAX_HEADERS);
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
    use plimsoll_kernel::mounts::Mounts;
    use plimsoll_kernel::page_cache;
    use plimsoll_kernel::process::{Process, page_size};
    use plimsoll_kernel::smaps::FileKey;
    use plimsoll_testbed::skip;
    use proptest::prelude::*;
    use rustix::fs::{Advice, fadvise};
    use std::io::Write;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::PathBuf;
    use std::sync::Arc;

    /// A process that has mapped a file as the loader does.
    fn sight(path: &Path) -> Sight {
        let there = std::fs::metadata(path).unwrap();
        let area = |start: u64| Area {
            addresses: start..start + (1 << 30),
            file: FileKey {
                major: rustix::fs::major(there.dev()),
                minor: rustix::fs::minor(there.dev()),
                inode: there.ino(),
            },
            name: path.to_str().unwrap().into(),
            ..Area::default()
        };
        Sight {
            pid: std::process::id() as i32,
            executable: path.into(),
            mounts: Arc::new(Mounts::of(&Process::own().unwrap()).unwrap()),
            mappings: vec![area(0x5500_0000_0000)],
            ..Sight::default()
        }
    }

    fn ask(sight: &Sight) -> Option<(Vec<Addresses>, Option<Addresses>, Option<Addresses>)> {
        let image = Image::of_executable(sight)?;
        let variables = image.variables().collect();
        Some((
            variables,
            image.section(".data"),
            image.symbol("no such symbol"),
        ))
    }

    #[test]
    fn variables_are_where_the_sections_say() {
        let own = std::env::current_exe().unwrap();
        let (variables, data, none) = ask(&sight(&own)).unwrap();
        let data = data.unwrap();
        assert!(
            variables
                .iter()
                .any(|range| range.start <= data.start && data.end <= range.end)
        );
        assert_eq!(none, None);
    }

    #[test]
    fn a_file_that_took_the_mapped_one_s_place_is_not_read() {
        let mut sight = sight(&std::env::current_exe().unwrap());
        for area in &mut sight.mappings {
            area.file.inode += 1;
        }
        assert!(ask(&sight).is_none());
    }

    /// Reads all kinds of things of a file.
    fn read_much(path: &Path) {
        let image = Image::of_executable(&sight(path)).unwrap();
        assert_eq!(image.symbol("no such symbol"), None);
        let mut pointers = 0;
        image.each_pointer(&mut |_, _| pointers += 1);
        let code = image.code().next().unwrap();
        let mut bytes = vec![0; (code.end - code.start) as usize];
        assert!(pointers > 0 && image.fill(code.start, &mut bytes));
    }

    #[test]
    fn the_page_cache_is_left_as_it_was() {
        // Beside the tests, which are seldom in a file system without a disk.
        let own = std::env::current_exe().unwrap();
        let mut copy = tempfile::NamedTempFile::new_in(own.parent().unwrap()).unwrap();
        copy.write_all(&std::fs::read("/bin/true").unwrap())
            .unwrap();
        copy.as_file().sync_all().unwrap();
        let file = copy.reopen().unwrap();
        for advice in [Advice::DontNeed, Advice::Random] {
            fadvise(&file, 0, None, advice).unwrap();
        }
        let pages = file.metadata().unwrap().len().div_ceil(page_size());
        let cached = |page: u64| {
            let part = page * page_size()..(page + 1) * page_size();
            Some(page_cache::of(&file, copy.path(), part).ok()?.cached > 0)
        };
        let cached = || (0..pages).map(cached).collect::<Option<Vec<_>>>();
        let is_told = page_cache::tells_of(&file);
        let Some(before) = cached().filter(|all| is_told && !all.contains(&true)) else {
            return skip("no file beside the tests can leave the page cache");
        };
        read_much(copy.path());
        assert_eq!(cached().unwrap(), before);
        for page in [1, pages - 1] {
            file.read_exact_at(&mut [0], page * page_size()).unwrap();
        }
        let before = cached().unwrap();
        assert_eq!(before.iter().filter(|&&is_there| is_there).count(), 2);
        read_much(copy.path());
        assert_eq!(cached().unwrap(), before);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn damaged_files_are_read_without_harm(
            case in 0u32..1000,
            damage in proptest::collection::vec((0usize..1 << 16, any::<bool>(), any::<u8>()), 1..40),
        ) {
            let Ok(mut bytes) = std::fs::read("/bin/true") else { return Ok(()) };
            let length = bytes.len();
            for (at, is_end, byte) in damage {
                // The header and the segments are at the start, the sections at the end.
                let at = if is_end { length - 1 - at % 2048.min(length) } else { at % 1024 };
                bytes[at] = byte;
            }
            let name = format!("plimsoll-elf-{}-{case}", std::process::id());
            let path: PathBuf = std::env::temp_dir().join(name);
            std::fs::write(&path, &bytes).unwrap();
            let _ = ask(&sight(&path));
            std::fs::remove_file(&path).unwrap();
        }
    }
}
