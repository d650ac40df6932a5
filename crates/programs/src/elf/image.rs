//! An ELF file that a process has mapped: where its sections and variables are in that process. Reading it
//! leaves the page cache as it was.

use super::source::Source;
use super::{Elf, Little};
use crate::candidate::Candidate;
use crate::mapped;
use object::elf::{ET_EXEC, PF_W, PT_LOAD, ProgramHeader64};
use plimsoll_kernel::smaps::{Addresses, Area};
use std::path::Path;

/// The most mappings of one file that are looked at.
const MAX_MAPPINGS: usize = 256;

/// A file that is mapped, opened.
#[derive(Debug)]
pub struct Image {
    pub(super) elf: Elf,
    /// Load bias: added to an address of the file, it gives the address in the process.
    pub(super) bias: u64,
}

impl Image {
    /// The process's executable.
    pub fn of_executable(process: &Candidate<'_>) -> Option<Image> {
        let path = process.executable();
        if path.as_os_str().is_empty() {
            return None;
        }
        Image::of(process, |name| name == path)
    }

    /// The first mapped file whose name satisfies `is`. `None` if there is none, if it cannot be
    /// opened, and if it is not the kind of file that a program or a library is.
    pub fn of(process: &Candidate<'_>, is: impl Fn(&Path) -> bool) -> Option<Image> {
        let is_it = |area: &&Area| area.file.inode != 0 && is(Path::new(&area.name));
        let first = process.mappings().iter().find(is_it)?;
        let pid = i32::try_from(process.pid()).ok()?;
        let file = mapped::open(pid, process.mounts(), first).ok()?;
        let elf = Elf::opened(Source::quiet(file))?;
        let bias = bias(process.mappings(), first, &elf)?;
        Some(Image { elf, bias })
    }

    /// Where the file's first address is in the process.
    pub fn base(&self) -> u64 {
        let lowest = self.loaded().map(|s| s.p_vaddr.get(Little)).min();
        lowest.unwrap_or(0).wrapping_add(self.bias)
    }

    /// Segments of the file that the loader maps.
    pub(super) fn loaded(&self) -> impl Iterator<Item = &ProgramHeader64<Little>> {
        let segments = self.elf.segments.iter();
        segments.filter(|segment| segment.p_type.get(Little) == PT_LOAD)
    }

    /// Where a section is in the process. `None` if it is not there, or not loaded.
    pub fn section(&self, name: &str) -> Option<Addresses> {
        let section = self.elf.section(name)?;
        let start = section.sh_addr.get(Little);
        if start == 0 {
            return None;
        }
        let start = start.checked_add(self.bias)?;
        Some(start..start.checked_add(section.sh_size.get(Little))?)
    }

    /// Where the process has the file's variables: those with a first value, and those without.
    pub fn variables(&self) -> impl Iterator<Item = Addresses> {
        let written = self.loaded().filter(|s| s.p_flags.get(Little) & PF_W != 0);
        written.filter_map(|s| {
            let start = s.p_vaddr.get(Little).checked_add(self.bias)?;
            Some(start..start.checked_add(s.p_memsz.get(Little))?)
        })
    }
}

/// The difference between the process's addresses and the file's. A file may be mapped more than
/// once, as a program that reads its own executable does: what the loader mapped has the first
/// segment, and the variables, at the distances that the file says.
fn bias(mappings: &[Area], first: &Area, elf: &Elf) -> Option<u64> {
    let is_fixed = elf.header.e_type.get(Little) == ET_EXEC;
    let segments = &elf.segments;
    let mine: Vec<&Area> = mappings
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::mapping;
    use plimsoll_kernel::mounts::Mounts;
    use plimsoll_kernel::page_cache;
    use plimsoll_kernel::process::{Process, page_size};
    use plimsoll_testbed::skip;
    use proptest::prelude::*;
    use rustix::fs::{Advice, fadvise};
    use std::io::Write;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;
    use std::sync::Arc;

    /// This process, as if it was a program of this file and had it mapped so.
    fn image(path: &Path, mapping: Area) -> Option<Image> {
        let mounts = Arc::new(Mounts::of(&Process::own().unwrap()).unwrap());
        let mappings = [mapping];
        Image::of_executable(&Candidate::seen(
            std::process::id(),
            path,
            &mounts,
            &mappings,
        ))
    }

    fn ask(
        path: &Path,
        mapping: Area,
    ) -> Option<(Vec<Addresses>, Option<Addresses>, Option<Addresses>)> {
        let image = image(path, mapping)?;
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
        let (variables, data, none) = ask(&own, mapping(&own)).unwrap();
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
        let own = std::env::current_exe().unwrap();
        let mut other = mapping(&own);
        other.file.inode += 1;
        assert!(ask(&own, other).is_none());
    }

    /// Reads all kinds of things of a file.
    fn read_much(path: &Path) {
        let image = image(path, mapping(path)).unwrap();
        assert_eq!(image.symbol("no such symbol"), None);
        let mut pointers = 0;
        image.each_pointer(&mut |_, _| pointers += 1);
        let code = image.code().next().unwrap();
        let mut bytes = vec![0; (code.end - code.start) as usize];
        assert!(pointers > 0 && image.fill(code.start, &mut bytes));
    }

    /// A copy of a program, opened. No page of it is in the page cache.
    struct Evicted {
        copy: tempfile::NamedTempFile,
        file: std::fs::File,
    }

    impl Evicted {
        /// `None` where no file beside the tests can leave the page cache.
        fn new() -> Option<Evicted> {
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
            let it = Evicted { copy, file };
            let is_told = page_cache::tells_of(&it.file);
            if !is_told || it.cached().is_none_or(|all| all.contains(&true)) {
                skip("no file beside the tests can leave the page cache");
                return None;
            }
            Some(it)
        }

        fn pages(&self) -> u64 {
            self.file.metadata().unwrap().len().div_ceil(page_size())
        }

        /// Which of its pages are in the page cache.
        fn cached(&self) -> Option<Vec<bool>> {
            let cached = |page: u64| {
                let part = page * page_size()..(page + 1) * page_size();
                let there = page_cache::of(&self.file, self.copy.path(), part);
                Some(there.ok()?.cached.0 > 0)
            };
            (0..self.pages()).map(cached).collect()
        }
    }

    #[test]
    fn the_page_cache_is_left_as_it_was() {
        let Some(it) = Evicted::new() else { return };
        let before = it.cached();
        read_much(it.copy.path());
        assert_eq!(it.cached(), before);
        for page in [1, it.pages() - 1] {
            it.file.read_exact_at(&mut [0], page * page_size()).unwrap();
        }
        let before = it.cached();
        let there = before.iter().flatten().filter(|&&is_there| is_there);
        assert_eq!(there.count(), 2);
        read_much(it.copy.path());
        assert_eq!(it.cached(), before);
    }

    #[test]
    fn a_program_that_is_read_as_a_file_stays_in_the_page_cache() {
        let Some(it) = Evicted::new() else { return };
        let elf = Elf::at(it.copy.path()).unwrap();
        assert!(elf.contents(".rodata").is_some());
        drop(elf);
        assert!(it.cached().unwrap().contains(&true));
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
            let _ = ask(&path, mapping(&path));
            std::fs::remove_file(&path).unwrap();
        }
    }
}
