//! A small file in ELF, as a linker would lay it out, with the symbols and sections that runtimes look
//! for and tables for debuggers as `libjvm.so` has them.

/// Where data begins, in the file and as addresses.
const DATA: usize = 0x8000;
/// The symbols and where in the data each is.
const SYMBOLS: [(&str, usize); 9] = [
    ("gHotSpotVMStructs", 0),
    ("gHotSpotVMTypes", 8),
    ("gHotSpotVMIntConstants", 16),
    ("gHotSpotVMLongConstants", 24),
    ("GC_malloc", 32),
    ("GC_arrays", 40),
    ("plimsoll_gc_places", 48),
    ("Py_GetVersion", 56),
    ("_ZN2v88internal7Version6major_E", 64),
];
/// Where in the data the tables are, and the names that they point to.
const TABLES: [usize; 3] = [0x400, 0x3000, 0x4000];
const TEXT: usize = 0x5000;
/// Types and fields that the map looks for.
const FIELDS: &str = include_str!("../../../crates/map/src/runtimes/hotspot/fields.txt");
/// Types whose sizes, and constants whose values it looks for.
const TYPES: [&str; 3] = ["JVMFlag", "HeapRegion", "G1HeapRegion"];
const CONSTANTS: [&str; 3] = ["ZPageTypeLarge", "ZAddressOffsetMask", "ZGranuleSizeShift"];

struct Writer {
    bytes: Vec<u8>,
    /// Places of pointers in the data and what they point to.
    pointers: Vec<(u64, u64)>,
    text: usize,
}

impl Writer {
    fn word(&mut self, at: usize, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if self.bytes.len() < at + bytes.len() {
            self.bytes.resize(at + bytes.len(), 0);
        }
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn point(&mut self, at: usize, to: usize) {
        self.pointers.push((at as u64, to as u64));
        self.word(at, to as u64);
    }

    /// A pointer to a text.
    fn name(&mut self, at: usize, name: &str) {
        let text = self.text;
        self.put(text, name.as_bytes());
        self.put(text + name.len(), &[0]);
        self.text += name.len() + 1;
        self.point(at, text);
    }
}

/// The file; the input says where fields are.
pub(crate) fn file(input: &[u8]) -> Vec<u8> {
    let mut input = input.iter().copied().chain(std::iter::repeat(1));
    let mut writer = Writer { bytes: Vec::new(), pointers: Vec::new(), text: DATA + TEXT };
    for (index, table) in TABLES.iter().enumerate() {
        writer.point(DATA + 8 * index, DATA + table);
    }
    structs(&mut writer, &mut input);
    for (index, name) in TYPES.iter().enumerate() {
        let at = DATA + TABLES[1] + 40 * index;
        writer.name(at, name);
        writer.word(at + 32, u64::from(input.next().unwrap_or(0)));
    }
    for (index, name) in CONSTANTS.iter().enumerate() {
        let at = DATA + TABLES[2] + 16 * index;
        writer.name(at, name);
        writer.word(at + 8, u64::from(input.next().unwrap_or(0)));
    }
    head(writer)
}

fn structs(writer: &mut Writer, input: &mut impl Iterator<Item = u8>) {
    let flags = "JVMFlag static flags\nJVMFlag _name\nJVMFlag _addr\n";
    for (index, line) in FIELDS.lines().chain(flags.lines()).enumerate() {
        let at = DATA + TABLES[0] + 48 * index;
        let words: Vec<&str> = line.split(' ').collect();
        let (Some(kind), Some(name)) = (words.first(), words.last()) else { continue };
        writer.name(at, kind);
        writer.name(at + 8, name);
        let is_static = words.len() > 2;
        writer.word(at + 24, is_static.into());
        let number = u64::from(input.next().unwrap_or(0)) * 8;
        match is_static {
            true => writer.point(at + 40, DATA + 128 + number as usize),
            false => writer.word(at + 32, number),
        }
    }
}

/// Puts header, segments, symbols, relocations and sections in front of and behind the data.
fn head(mut writer: Writer) -> Vec<u8> {
    let end = writer.bytes.len();
    let pointers = std::mem::take(&mut writer.pointers);
    let mut names = vec![0u8];
    let mut symbols = vec![0u8; 24];
    for (name, at) in SYMBOLS {
        symbols.extend((names.len() as u32).to_le_bytes());
        symbols.extend([0x11, 0, 1, 0]);
        symbols.extend((DATA as u64 + at as u64).to_le_bytes());
        symbols.extend(8u64.to_le_bytes());
        names.extend(name.bytes().chain([0]));
    }
    let mut relocations = Vec::new();
    for (at, to) in pointers {
        relocations.extend(at.to_le_bytes());
        relocations.extend(8u64.to_le_bytes());
        relocations.extend(to.to_le_bytes());
    }
    let parts = [(0x200, symbols), (0x400, names), (0x800, relocations)];
    for (at, part) in &parts {
        writer.put(*at, part);
    }
    let section_names = b"\0.dynsym\0.dynstr\0.rela\0.data\0.go.buildinfo\0.shstrtab\0";
    writer.put(end, section_names);
    let [symbols, names, relocations] = &parts;
    let sections: [(u32, u32, u64, u64, u64, u32); 7] = [
        (0, 0, 0, 0, 0, 0),
        (1, 11, 0x200, 0x200, symbols.1.len() as u64, 2),
        (9, 3, 0x400, 0x400, names.1.len() as u64, 0),
        (17, 4, 0x800, 0x800, relocations.1.len() as u64, 1),
        (23, 1, DATA as u64, DATA as u64, (end - DATA) as u64, 0),
        (29, 1, DATA as u64, DATA as u64, 64, 0),
        (43, 3, 0, end as u64, section_names.len() as u64, 0),
    ];
    let table = (end + section_names.len()).next_multiple_of(8);
    for (index, (name, kind, address, offset, size, link)) in sections.into_iter().enumerate() {
        let mut section = Vec::new();
        section.extend(name.to_le_bytes());
        section.extend(kind.to_le_bytes());
        section.extend(2u64.to_le_bytes());
        for word in [address, offset, size] {
            section.extend(word.to_le_bytes());
        }
        section.extend(link.to_le_bytes());
        section.extend([0; 20]);
        writer.put(table + 64 * index, &section);
    }
    let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
    for word in [0, 64, table as u64] {
        header.extend(word.to_le_bytes());
    }
    header.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 7, 0, 6, 0]);
    writer.put(0, &header);
    for (index, (flags, at, size)) in [(5u32, 0, DATA), (6, DATA, end - DATA)].into_iter().enumerate() {
        let mut segment = 1u32.to_le_bytes().to_vec();
        segment.extend(flags.to_le_bytes());
        for word in [at, at, at, size, size, 4096] {
            segment.extend((word as u64).to_le_bytes());
        }
        writer.put(64 + 56 * index, &segment);
    }
    writer.bytes
}
