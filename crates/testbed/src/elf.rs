//! ELF files that are made up: they tell what a reader looks for, and cannot be run.

/// Bytes of the header, of an entry of its table of segments, and of one of its table of sections.
const HEADER: usize = 64;
const SEGMENT: usize = 56;
const SECTION: usize = 64;
/// Kinds of segments: `PT_LOAD`, `PT_DYNAMIC`, `PT_INTERP`.
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
/// Entries of the dynamic section: `DT_NEEDED`, `DT_STRTAB`, `DT_STRSZ`.
const NEEDED: u64 = 1;
const STRINGS: u64 = 5;
const STRINGS_SIZE: u64 = 10;

/// A header of a 64-bit, little-endian file, whose other fields are zero.
fn header() -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01".to_vec();
    file.resize(HEADER, 0);
    file
}

/// A program, or a library, for this processor (`e_machine`), with this interpreter, that needs these
/// libraries.
pub fn program(processor: u16, interpreter: Option<&str>, needs: &[&str]) -> Vec<u8> {
    let mut strings = vec![0];
    let mut dynamic = Vec::new();
    for name in needs {
        dynamic.push((NEEDED, strings.len() as u64));
        strings.extend(name.bytes().chain([0]));
    }
    let name: Vec<u8> = interpreter.map_or(Vec::new(), |name| name.bytes().chain([0]).collect());
    // After the table of three segments: the strings, the interpreter, the dynamic section.
    let strings_at = (HEADER + 3 * SEGMENT) as u64;
    let name_at = strings_at + strings.len() as u64;
    let dynamic_at = name_at + name.len() as u64;
    dynamic.extend([
        (STRINGS, strings_at),
        (STRINGS_SIZE, strings.len() as u64),
        (0, 0),
    ]);
    let kind_of_name = interpreter.map_or(0, |_| INTERPRETER);
    let segments = [
        (LOAD, strings_at, strings.len() as u64),
        (kind_of_name, name_at, name.len() as u64),
        (DYNAMIC, dynamic_at, dynamic.len() as u64 * 16),
    ];
    let mut file = header();
    file[18..20].copy_from_slice(&processor.to_le_bytes());
    file[32..40].copy_from_slice(&(HEADER as u64).to_le_bytes());
    file[54..56].copy_from_slice(&(SEGMENT as u16).to_le_bytes());
    file[56..58].copy_from_slice(&3_u16.to_le_bytes());
    for (kind, at, length) in segments {
        let mut entry = [0; SEGMENT];
        entry[..4].copy_from_slice(&kind.to_le_bytes());
        entry[8..16].copy_from_slice(&at.to_le_bytes());
        // Addresses are places in the file.
        entry[16..24].copy_from_slice(&at.to_le_bytes());
        entry[32..40].copy_from_slice(&length.to_le_bytes());
        file.extend(entry);
    }
    file.extend(strings);
    file.extend(name);
    for (kind, value) in dynamic {
        file.extend(kind.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file
}

/// A file with these sections and nothing else.
pub fn with_sections(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut names = vec![0];
    let mut file = header();
    let mut entries = vec![[0; SECTION]];
    for (name, content) in sections.iter().chain(&[(".shstrtab", &[][..])]) {
        let at = names.len() as u32;
        names.extend(name.bytes().chain([0]));
        let content = if content.is_empty() { &names } else { *content };
        let mut entry = [0; SECTION];
        entry[..4].copy_from_slice(&at.to_le_bytes());
        entry[24..32].copy_from_slice(&(file.len() as u64).to_le_bytes());
        entry[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
        entries.push(entry);
        file.extend_from_slice(content);
    }
    let at = (file.len() as u64).to_le_bytes();
    file[40..48].copy_from_slice(&at);
    let count = entries.len() as u16;
    file[58..60].copy_from_slice(&(SECTION as u16).to_le_bytes());
    file[60..62].copy_from_slice(&count.to_le_bytes());
    file[62..64].copy_from_slice(&(count - 1).to_le_bytes());
    file.extend(entries.into_iter().flatten());
    file
}
