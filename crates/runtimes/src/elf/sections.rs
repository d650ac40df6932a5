//! Sections: the parts of an ELF file by their names.

use super::{opened, opened_by, read_at, u64_at, word};
use plimsoll_kernel::mapped::Named;
use std::fs::File;
use std::path::Path;

/// Where a section lies in its file, bytes.
#[derive(Clone, Copy, Debug)]
struct Section {
    name: u32,
    offset: u64,
    length: u64,
}

/// The contents of the section with this name, cut after some megabytes.
pub(crate) fn section(path: &Path, name: &[u8]) -> Option<Vec<u8>> {
    let (mut file, sections, names) = table(opened(path)?)?;
    let found = sections.iter().find(|s| named(s, &names) == Some(name))?;
    read_at(&mut file, found.offset, found.length)
}

/// Whether the file has a section of this name.
pub(crate) fn has_section(path: &Path, name: &[u8]) -> bool {
    opened(path).is_some_and(|opened| has(opened, name))
}

/// As [`has_section`], of a file that is named already.
pub(crate) fn has_section_in(file: Named, name: &[u8]) -> bool {
    opened_by(file).is_some_and(|opened| has(opened, name))
}

fn has(opened: (File, Vec<u8>), name: &[u8]) -> bool {
    table(opened)
        .is_some_and(|(_, sections, names)| sections.iter().any(|s| named(s, &names) == Some(name)))
}

fn named<'a>(section: &Section, names: &'a [u8]) -> Option<&'a [u8]> {
    let rest = names.get(usize::try_from(section.name).ok()?..)?;
    rest.split(|&byte| byte == 0).next()
}

/// The open file, its sections, and the string table that holds their names.
fn table((mut file, header): (File, Vec<u8>)) -> Option<(File, Vec<Section>, Vec<u8>)> {
    let half = |at| word(&header, at).map(u16::from_le_bytes);
    let (size, count) = (u64::from(half(58)?), u64::from(half(60)?));
    let table = read_at(&mut file, u64_at(&header, 40)?, size * count)?;
    let entries = table.chunks_exact(usize::try_from(size).ok().filter(|&s| s >= 64)?);
    let section = |entry: &[u8]| {
        Some(Section {
            name: word(entry, 0).map(u32::from_le_bytes)?,
            offset: u64_at(entry, 24)?,
            length: u64_at(entry, 32)?,
        })
    };
    let sections: Vec<Section> = entries.filter_map(section).collect();
    let names = sections.get(usize::from(half(62)?))?;
    let names = read_at(&mut file, names.offset, names.length)?;
    Some((file, sections, names))
}

/// A file with these sections and nothing else.
#[cfg(test)]
pub(crate) fn made_up(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut names = vec![0];
    let mut file = b"\x7fELF\x02\x01".to_vec();
    file.resize(64, 0);
    let mut entries = vec![[0; 64]];
    for (name, content) in sections.iter().chain(&[(".shstrtab", &[][..])]) {
        let at = u32::try_from(names.len()).unwrap();
        names.extend(name.bytes().chain([0]));
        let content = if content.is_empty() { &names } else { *content };
        let mut entry = [0; 64];
        entry[..4].copy_from_slice(&at.to_le_bytes());
        entry[24..32].copy_from_slice(&(file.len() as u64).to_le_bytes());
        entry[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
        entries.push(entry);
        file.extend_from_slice(content);
    }
    let at = (file.len() as u64).to_le_bytes();
    file[40..48].copy_from_slice(&at);
    let count = u16::try_from(entries.len()).unwrap();
    file[58..60].copy_from_slice(&64_u16.to_le_bytes());
    file[60..62].copy_from_slice(&count.to_le_bytes());
    file[62..64].copy_from_slice(&(count - 1).to_le_bytes());
    file.extend(entries.into_iter().flatten());
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_found_by_their_names() {
        let own = std::env::current_exe().unwrap();
        assert!(has_section(&own, b".text") && has_section(&own, b".rodata"));
        assert!(!has_section(&own, b".tex") && !has_section(&own, b".svm_heap"));
        assert!(!has_section(Path::new("/etc/passwd"), b".text"));
        assert!(section(&own, b".rodata").is_some_and(|text| text.len() > 1000));
    }

    #[test]
    fn what_is_made_up_for_tests_reads_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), made_up(&[(".a", b"one"), (".b", b"two")])).unwrap();
        assert_eq!(section(file.path(), b".b").as_deref(), Some(&b"two"[..]));
        assert!(has_section(file.path(), b".a") && !has_section(file.path(), b".c"));
    }
}
