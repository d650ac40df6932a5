//! Files that are made up for tests.

use super::{DYNAMIC, INTERPRETER, LOAD, NEEDED, STRINGS, STRINGS_SIZE};

/// Bytes of the header, and of an entry of its table of segments.
const HEADER: u64 = 64;
const ENTRY: u64 = 56;

/// A program, or a library, for this processor (`e_machine`), with this interpreter, that needs these
/// libraries. It cannot be run.
pub(crate) fn program(processor: u16, interpreter: Option<&str>, needs: &[&str]) -> Vec<u8> {
    let mut strings = vec![0];
    let mut dynamic = Vec::new();
    for name in needs {
        dynamic.push((NEEDED, strings.len() as u64));
        strings.extend(name.bytes().chain([0]));
    }
    let name: Vec<u8> = interpreter.map_or(Vec::new(), |name| name.bytes().chain([0]).collect());
    // After the table of three segments: the strings, the interpreter, the dynamic section.
    let strings_at = HEADER + 3 * ENTRY;
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
    let mut file = b"\x7fELF\x02\x01".to_vec();
    file.resize(HEADER as usize, 0);
    file[18..20].copy_from_slice(&processor.to_le_bytes());
    file[32..40].copy_from_slice(&HEADER.to_le_bytes());
    file[54..56].copy_from_slice(&(ENTRY as u16).to_le_bytes());
    file[56..58].copy_from_slice(&3_u16.to_le_bytes());
    for (kind, at, length) in segments {
        let mut entry = [0; ENTRY as usize];
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
