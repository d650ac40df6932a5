//! The tables in which `libjvm.so` tells debuggers where its fields are (`vmStructs.hpp` in the
//! JDK's sources: `gHotSpotVMStructs` and its siblings).
//!
//! Names are read from the file. Numbers are read from the process, because since JDK 17 the machine
//! fills most of them in when it starts; where that memory is not resident they are taken from the
//! instructions that fill them in (`initialiser`).

use std::collections::HashMap;
use std::ops::Range;

/// Most entries of one table. JDK 17 has about 800.
const MAX_ENTRIES: u64 = 8192;
/// Longest name, bytes.
const MAX_NAME: usize = 256;
/// Most bytes of the entries of one table.
const MAX_TABLE: u64 = 512 << 10;

/// The symbol of the first table, which every machine with tables has.
pub const FIRST: &str = "gHotSpotVMStructs";
/// Prefix of the symbols of the table of long constants, after `gHotSpot`.
const LONGS: &str = "VMLongConstantEntry";

/// A machine's library and the memory in which its tables are, as the reader sees it: from outside, or from
/// within the process. Addresses are those of the process. `None`: not there, or not readable.
pub trait Source {
    /// Where an exported symbol is.
    fn exported(&self, name: &str) -> Option<u64>;
    /// The value that the loader gave the pointer at an address.
    fn pointer_at(&self, at: u64) -> Option<u64>;
    /// The pointer at an address; never 0.
    fn pointer(&self, at: u64) -> Option<u64>;
    /// The 64-bit number at an address.
    fn number(&self, at: u64) -> Option<u64>;
    /// The 32-bit number at an address.
    fn half(&self, at: u64) -> Option<u32>;
    /// The text that the pointer at an address points to, which ends with a zero after at most `most`
    /// bytes; never empty.
    fn name_at(&self, at: u64, most: usize) -> Option<String>;
    /// Called before numbers in a range are read.
    fn know_numbers_in(&mut self, _range: Range<u64>) {}
}

/// Where a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this address in the process.
    Static(u64),
    /// This many bytes after the start of each object of its type.
    Offset(u64),
}

/// A field, and its type as C++ writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Where it is.
    pub place: Place,
    /// Its type; empty where the table names none.
    pub kind: String,
}

/// Contents of the tables of one process's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Fields, by type and name.
    pub fields: HashMap<(String, String), Field>,
    /// Sizes of types, bytes.
    pub sizes: HashMap<String, u64>,
    /// Values of enumerations and constants.
    pub constants: HashMap<String, i64>,
    /// Where the values of flags are in the process, by their names.
    pub flags: HashMap<String, u64>,
}

/// Where the parts of an entry are, bytes from its start. The library exports these numbers, but
/// since JDK 17 it computes them when it starts.
struct Layout<const N: usize> {
    parts: [u64; N],
    stride: u64,
}

impl<const N: usize> Layout<N> {
    /// `usual`: the layout in `vmStructs.hpp`, for where the exported numbers are not readable.
    fn read(library: &impl Source, entry: &str, names: [&str; N], usual: Layout<N>) -> Layout<N> {
        let word = |name: &str| {
            let at = library.exported(&format!("gHotSpot{entry}{name}"))?;
            library.number(at)
        };
        let parts = names.map(|name| word(&format!("{name}Offset")));
        let stride = word("ArrayStride").filter(|&stride| stride > 0 && stride <= 256);
        let (Some(stride), true) = (stride, parts.iter().all(Option::is_some)) else {
            return usual;
        };
        let parts = parts.map(|part| part.unwrap_or_default());
        if parts.iter().all(|&part| part < stride) {
            Layout { parts, stride }
        } else {
            usual
        }
    }
}

impl Tables {
    /// Reads them, at most some megabytes. `None` if the library has none, or if its names cannot be read.
    pub fn read(library: &mut impl Source) -> Option<Tables> {
        let starts = [
            FIRST,
            "gHotSpotVMTypes",
            "gHotSpotVMIntConstants",
            "gHotSpotVMLongConstants",
        ];
        let start = |name| library.pointer_at(library.exported(name)?);
        let [structs, types, ints, longs] = starts.map(start);
        let structs = structs?;
        let mut tables = Tables::default();
        tables.read_structs(library, structs);
        if let Some(types) = types {
            tables.read_types(library, types);
        }
        if let Some(ints) = ints {
            tables.read_constants(library, ints, "VMIntConstantEntry");
        }
        if let Some(longs) = longs {
            tables.read_constants(library, longs, LONGS);
        }
        tables.read_flags(library);
        (!tables.fields.is_empty()).then_some(tables)
    }

    /// Reads the table of flags, which the other tables tell of.
    fn read_flags(&mut self, library: &impl Source) -> Option<()> {
        let place = |name: &str| {
            let field = self.fields.get(&("JVMFlag".to_owned(), name.to_owned()));
            field.map(|field| field.place)
        };
        let (Place::Static(first), Place::Offset(name), Place::Offset(value)) =
            (place("flags")?, place("_name")?, place("_addr")?)
        else {
            return None;
        };
        let stride = *self.sizes.get("JVMFlag")?;
        if stride == 0 || stride > 256 || name >= stride || value >= stride {
            return None;
        }
        let table = library.pointer(first)?;
        for entry in entries(table, stride) {
            let Some(name) = library.name_at(entry + name, MAX_NAME) else {
                break;
            };
            if let Some(at) = library.pointer(entry + value) {
                self.flags.insert(name, at);
            }
        }
        Some(())
    }

    fn read_structs(&mut self, library: &mut impl Source, table: u64) {
        let names = [
            "TypeName",
            "FieldName",
            "TypeString",
            "IsStatic",
            "Offset",
            "Address",
        ];
        let usual = Layout {
            parts: [0, 8, 16, 24, 32, 40],
            stride: 48,
        };
        let layout = Layout::read(library, "VMStructEntry", names, usual);
        let [kind, name, type_of, is_static, offset, address] = layout.parts;
        let length = entries(table, layout.stride)
            .take_while(|entry| library.name_at(entry + kind, MAX_NAME).is_some())
            .count() as u64;
        library.know_numbers_in(table..table + length * layout.stride);
        for entry in entries(table, layout.stride) {
            let Some(kind) = library.name_at(entry + kind, MAX_NAME) else {
                break;
            };
            let Some(name) = library.name_at(entry + name, MAX_NAME) else {
                continue;
            };
            let place = match library.half(entry + is_static) {
                Some(0) => library.number(entry + offset).map(Place::Offset),
                Some(_) => library.pointer(entry + address).map(Place::Static),
                None => None,
            };
            let Some(place) = place else { continue };
            let type_of = library.name_at(entry + type_of, MAX_NAME);
            let field = Field {
                place,
                kind: type_of.unwrap_or_default(),
            };
            self.fields.insert((kind, name), field);
        }
        // No machine has all its fields at the starts of their objects: the numbers were not set yet
        // in what could be read.
        let says_something =
            |field: &Field| matches!(field.place, Place::Offset(offset) if offset > 0);
        if !self.fields.values().any(says_something) {
            self.fields.clear();
        }
    }

    fn read_types(&mut self, library: &mut impl Source, table: u64) {
        let usual = Layout {
            parts: [0, 32],
            stride: 40,
        };
        let layout = Layout::read(library, "VMTypeEntry", ["TypeName", "Size"], usual);
        for entry in entries(table, layout.stride) {
            let Some(name) = library.name_at(entry + layout.parts[0], MAX_NAME) else {
                break;
            };
            if let Some(size) = library.number(entry + layout.parts[1]) {
                self.sizes.insert(name, size);
            }
        }
    }

    fn read_constants(&mut self, library: &mut impl Source, table: u64, entry: &str) {
        let usual = Layout {
            parts: [0, 8],
            stride: 16,
        };
        let is_long = entry == LONGS;
        let layout = Layout::read(library, entry, ["Name", "Value"], usual);
        for entry in entries(table, layout.stride) {
            let Some(name) = library.name_at(entry + layout.parts[0], MAX_NAME) else {
                break;
            };
            let at = entry + layout.parts[1];
            let value = if is_long {
                library.number(at).map(|value| value as i64)
            } else {
                library.half(at).map(|value| i64::from(value as i32))
            };
            if let Some(value) = value {
                self.constants.insert(name, value);
            }
        }
    }
}

fn entries(table: u64, stride: u64) -> impl Iterator<Item = u64> {
    let most = MAX_ENTRIES.min(MAX_TABLE / stride.max(1));
    (0..most).map_while(move |index| {
        let at = table.checked_add(index * stride)?;
        (at < u64::MAX - MAX_TABLE).then_some(at)
    })
}
