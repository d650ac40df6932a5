//! The virtual machine around us, by the tables that its library exports for debuggers. Fields and
//! flags are found by name. While the tables are read, every address may be wrong: memory is copied by
//! a system call that fails where nothing is mapped.

use plimsoll_kernel::process_vm::copy_own;
use plimsoll_programs::hotspot::tables::{Place, Source, Tables};
use plimsoll_wire::collections::Collector;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::fmt;

/// Bytes that are copied at once; a part of a page, so that a block is readable as a whole or not.
const BLOCK: u64 = 4096;
/// Most blocks that are kept while the tables are read: 1 MiB.
const MAX_BLOCKS: usize = 256;
/// No field is further from the start of its object, bytes.
const MAX_OFFSET: u64 = 64 << 10;

/// Collectors, by the flag that chooses each.
const COLLECTORS: [(&str, Collector); 6] = [
    ("UseSerialGC", Collector::Serial),
    ("UseParallelGC", Collector::Parallel),
    ("UseG1GC", Collector::G1),
    ("UseShenandoahGC", Collector::Shenandoah),
    ("UseZGC", Collector::Z),
    ("UseEpsilonGC", Collector::Epsilon),
];

/// Why something is not done. Each is a sentence for a person, without the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The library has no tables.
    NoTables,
    /// A name is missing.
    NoField(&'static str, &'static str),
    /// A constant is missing.
    NoConstant(&'static str),
    /// A flag is missing.
    NoFlag(&'static str),
    /// A value that was read cannot be true.
    Odd(&'static str),
    /// Not a version whose heap is touched.
    Version(u32),
    /// A collector whose heap is left alone: it gives memory back by itself, or never collects.
    Collector(Collector),
    /// A flag that this does not go with.
    Flag(&'static str),
    /// The heap is no private anonymous memory.
    NotAnonymous,
    /// The system refused, with this error number.
    System(i32),
    /// A panic ended the agent.
    Panic,
}

impl Refusal {
    /// The same within a pause, where nothing may be allocated.
    pub fn short(&self) -> &'static str {
        match self {
            Refusal::System(_) => {
                "the kernel refuses it (madvise): the heap may be locked in memory"
            }
            Refusal::Panic => {
                "the agent ended after an error of its own (a panic; the program's standard error has its \
                 message): please report it"
            }
            _ => "what this JVM tells of its heap stopped making sense",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoTables => write!(
                f,
                "its libjvm.so has no tables for debuggers, or none that can be read"
            ),
            Refusal::NoField(kind, name) => write!(
                f,
                "this JVM does not tell debuggers where its {kind}::{name} is"
            ),
            Refusal::NoConstant(name) => {
                write!(f, "this JVM does not tell debuggers what {name} is")
            }
            Refusal::NoFlag(name) => write!(f, "this JVM has no flag {name}"),
            Refusal::Odd(what) => write!(f, "what this JVM tells of {what} makes no sense"),
            Refusal::Version(version) => write!(
                f,
                "Java {version} is not among 11 to 25 (of which 11, 17, 21 and 25 were tried)"
            ),
            Refusal::Collector(collector) => {
                write!(
                    f,
                    "only heaps of Serial, Parallel and G1 are, not of {collector:?}"
                )
            }
            Refusal::Flag(flag) => write!(f, "-XX:{flag} asks for memory that stays"),
            Refusal::NotAnonymous => write!(f, "the heap is no private anonymous memory"),
            Refusal::System(errno) => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(f, "the kernel refuses it (madvise: {error})")
            }
            Refusal::Panic => f.write_str(self.short()),
        }
    }
}

/// A virtual machine, by the tables of its process.
#[derive(Debug)]
pub struct Machine {
    tables: Tables,
}

impl Machine {
    /// Reads the tables of the library that this address is in.
    ///
    /// # Errors
    /// Without tables.
    pub fn of(in_library: *const c_void) -> Result<Machine, Refusal> {
        let mut own = Own {
            library: Library::of(in_library).ok_or(Refusal::NoTables)?,
            blocks: RefCell::new(HashMap::new()),
        };
        let tables = Tables::read(&mut own).ok_or(Refusal::NoTables)?;
        Ok(Machine { tables })
    }

    /// A machine with these tables, whatever they say.
    ///
    /// # Safety
    /// The places that [`crate::heap::Heap`] and [`crate::counters::Counters`] find by the tables are checked
    /// then, and read later without asking again whether they are mapped: they stay mapped while these are
    /// used.
    pub unsafe fn with(tables: Tables) -> Machine {
        Machine { tables }
    }

    /// Its collector.
    pub fn collector(&self) -> Collector {
        let chosen = |&&(flag, _): &&(&str, Collector)| self.is_set(flag) == Some(true);
        let found = COLLECTORS.iter().find(chosen);
        found.map_or(Collector::Unknown, |(_, collector)| *collector)
    }

    /// Its feature version (17 of 17.0.15).
    ///
    /// # Errors
    /// If it does not say.
    pub fn version(&self) -> Result<u32, Refusal> {
        let at = self.of_static("Abstract_VM_Version", "_vm_major_version")?;
        half(at).ok_or(Refusal::Odd("its version"))
    }

    /// Whether a flag that is on or off is on. `None` if there is no such flag.
    pub fn is_set(&self, flag: &str) -> Option<bool> {
        let mut byte = [0];
        let at = *self.tables.flags.get(flag)?;
        copy_own(at, &mut byte).then_some(byte[0] != 0)
    }

    /// Whether a flag that holds a text has one. `None` if there is no such flag.
    pub fn has_text(&self, flag: &str) -> Option<bool> {
        let at = *self.tables.flags.get(flag)?;
        word(at).map(|text| text != 0)
    }

    /// The value of a constant. `None` if there is no such constant.
    pub fn constant(&self, name: &str) -> Option<i64> {
        self.tables.constants.get(name).copied()
    }

    /// Whether there is such a field, and it is a pointer.
    pub fn is_pointer(&self, kind: &'static str, name: &'static str) -> bool {
        let field = self.tables.fields.get(&(kind.to_owned(), name.to_owned()));
        field.is_some_and(|field| field.kind.trim_end().ends_with('*'))
    }

    /// Whether this version has such a field.
    pub fn has(&self, kind: &'static str, name: &'static str) -> bool {
        self.place(kind, name).is_ok()
    }

    /// Where a static field is.
    ///
    /// # Errors
    /// Without such a field.
    pub fn of_static(&self, kind: &'static str, name: &'static str) -> Result<u64, Refusal> {
        match self.place(kind, name)? {
            Place::Static(at) => Ok(at),
            Place::Offset(_) => Err(Refusal::Odd(name)),
        }
    }

    /// The pointer in a static field.
    ///
    /// # Errors
    /// Without such a field, or when it points nowhere.
    pub fn static_pointer(&self, kind: &'static str, name: &'static str) -> Result<u64, Refusal> {
        pointer(self.of_static(kind, name)?, name)
    }

    /// Where the field of the object at `object` is.
    ///
    /// # Errors
    /// Without such a field.
    pub fn at(&self, object: u64, kind: &'static str, name: &'static str) -> Result<u64, Refusal> {
        match self.place(kind, name)? {
            Place::Offset(offset) if offset <= MAX_OFFSET && offset % 4 == 0 => {
                object.checked_add(offset).ok_or(Refusal::Odd(name))
            }
            _ => Err(Refusal::Odd(name)),
        }
    }

    /// The pointer in a field of the object at `object`.
    ///
    /// # Errors
    /// Without such a field, or when it points nowhere.
    pub fn pointer(
        &self,
        object: u64,
        kind: &'static str,
        name: &'static str,
    ) -> Result<u64, Refusal> {
        pointer(self.at(object, kind, name)?, name)
    }

    fn place(&self, kind: &'static str, name: &'static str) -> Result<Place, Refusal> {
        let field = self.tables.fields.get(&(kind.to_owned(), name.to_owned()));
        field
            .map(|field| field.place)
            .ok_or(Refusal::NoField(kind, name))
    }
}

fn pointer(at: u64, name: &'static str) -> Result<u64, Refusal> {
    let to = word(at).filter(|&to| to != 0 && to % 8 == 0);
    to.ok_or(Refusal::Odd(name))
}

/// The 64-bit word at an address that may be wrong.
pub fn word(at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    copy_own(at, &mut bytes).then(|| u64::from_ne_bytes(bytes))
}

/// The 32-bit word at an address that may be wrong.
pub fn half(at: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    copy_own(at, &mut bytes).then(|| u32::from_ne_bytes(bytes))
}

/// A handle of the machine's library.
struct Library(*mut c_void);

impl Library {
    fn of(address: *const c_void) -> Option<Library> {
        // SAFETY: plain old data, filled in by dladdr.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is valid for writing; any address may be asked for.
        if unsafe { libc::dladdr(address, &raw mut info) } == 0 || info.dli_fname.is_null() {
            return None;
        }
        let open = |name: *const std::ffi::c_char| {
            // SAFETY: the name ends with NUL and is the loader's, or is none; nothing new is loaded.
            unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) }
        };
        // A machine that is linked into the program itself has no library of its own.
        let named = open(info.dli_fname);
        let handle = if named.is_null() {
            open(std::ptr::null())
        } else {
            named
        };
        (!handle.is_null()).then(|| Library(handle))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened in `of`, closed once; the machine itself keeps its library open.
        unsafe { libc::dlclose(self.0) };
    }
}

/// The library, and copies of parts of our memory.
struct Own {
    library: Library,
    blocks: RefCell<HashMap<u64, Option<Box<[u8; BLOCK as usize]>>>>,
}

impl Own {
    fn byte(&self, at: u64) -> Option<u8> {
        let start = at / BLOCK * BLOCK;
        let mut blocks = self.blocks.borrow_mut();
        if blocks.len() >= MAX_BLOCKS && !blocks.contains_key(&start) {
            blocks.clear();
        }
        let block = blocks.entry(start).or_insert_with(|| {
            let mut block = Box::new([0; BLOCK as usize]);
            copy_own(start, &mut block[..]).then_some(block)
        });
        Some(block.as_ref()?[(at - start) as usize])
    }

    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = self.byte(at.checked_add(index as u64)?)?;
        }
        Some(bytes)
    }
}

impl Source for Own {
    fn exported(&self, name: &str) -> Option<u64> {
        let name = CString::new(name).ok()?;
        // SAFETY: an open handle, and a name that ends with NUL.
        let address = unsafe { libc::dlsym(self.library.0, name.as_ptr()) };
        (!address.is_null()).then_some(address as u64)
    }

    fn pointer_at(&self, at: u64) -> Option<u64> {
        self.pointer(at)
    }

    fn pointer(&self, at: u64) -> Option<u64> {
        self.number(at).filter(|&value| value != 0)
    }

    fn number(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_ne_bytes)
    }

    fn half(&self, at: u64) -> Option<u32> {
        self.bytes(at).map(u32::from_ne_bytes)
    }

    fn name_at(&self, at: u64, most: usize) -> Option<String> {
        let start = self.pointer(at)?;
        let mut text = Vec::new();
        while text.len() < most {
            match self.byte(start.checked_add(text.len() as u64)?)? {
                0 => return String::from_utf8(text).ok().filter(|text| !text.is_empty()),
                byte => text.push(byte),
            }
        }
        None
    }
}
