//! Programs on the Boehm collector: what is put in the place of their libgc, or loaded beside it.
//!
//! The *drop-in* is our own `libgc.so.1`; the *adapter* steers the system's from inside. Both go
//! through the loader's variables, because a program that is to stay as it is can be reached in no
//! other way.
//!
//! The drop-in is found by `LD_LIBRARY_PATH`, in a directory that holds nothing else: whoever needs
//! `libgc.so.1` gets it, the program's children too, and nobody else ever sees it. Preloaded it
//! would be in every child, and its names would come before those of a collector that a library
//! carries itself. Two things make the loader pass over that variable: an executable with a
//! `DT_RPATH` (not `DT_RUNPATH`) is searched for there first, and in a build tree the file has
//! another name. There it is preloaded: its soname is `libgc.so.1`, so for the loader the need is
//! met already.

use crate::elf;
use crate::setting::Setting;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What programs need, by the name that they were linked with.
pub const NEEDED: &str = "libgc.so.1";
/// The drop-in, as it is built.
pub const BUILT: &str = "libplimsoll_gc.so";
/// The adapter for the system's libgc.
const ADAPTER: &str = "libplimsoll_libgc.so";

const PATHS: &str = "LD_LIBRARY_PATH";
const PRELOAD: &str = "LD_PRELOAD";

/// What is there for programs on libgc.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    /// The drop-in.
    pub drop_in: Option<PathBuf>,
    /// The adapter that is preloaded beside the system's libgc.
    pub adapter: Option<PathBuf>,
}

/// Which collector a program gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// The drop-in; the system's where the adapter is preloaded already, or where there is no drop-in.
    #[default]
    Any,
    /// The drop-in; the system's where there is none.
    DropIn,
    /// The system's, steered by the adapter.
    Stock,
}

/// What to set in a program's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// What was chosen, for `-v`.
    pub(crate) note: String,
    /// Somebody will steer the program.
    pub(crate) steered: bool,
}

impl Libraries {
    /// Those that lie beside a program of ours (a build tree), or where they are installed.
    pub fn of(program: &Path) -> Libraries {
        let Some(beside) = program.parent() else {
            return Libraries::default();
        };
        let installed = beside.parent().map(|prefix| prefix.join("lib/plimsoll"));
        let first = |name: &str, below: &str| {
            let installed = installed.as_ref().map(|place| place.join(below));
            let places = [Some(beside.join(name)), installed];
            places.into_iter().flatten().find(|path| path.is_file())
        };
        Libraries {
            drop_in: first(BUILT, "gc/libgc.so.1"),
            adapter: first(ADAPTER, ADAPTER),
        }
    }

    /// What puts the wished collector into a program.
    pub(crate) fn put(&self, wish: Wish, executable: Option<&Path>, setting: &Setting<'_>) -> Put {
        let variable = |name| (setting.variables)(name).unwrap_or_default();
        let (paths, preload) = (variable(PATHS), variable(PRELOAD));
        let adapter = self.adapter.as_deref();
        let steered = adapter.is_some_and(|adapter| names(&preload, PRELOAD, adapter));
        let stock = wish == Wish::Stock || wish == Wish::Any && steered;
        let drop_in = self.drop_in.as_deref().filter(|_| !stock);
        // One of the two is in a process, never both: what a program of ours inherited of the other goes.
        let home = self.drop_in.as_deref().and_then(Path::parent);
        let ours = [self.drop_in.as_deref(), adapter].into_iter().flatten();
        let preload_left = ours.fold(preload.clone(), |left, one| without(&left, PRELOAD, one));
        let paths_left = home.map_or(paths.clone(), |home| without(&paths, PATHS, home));
        let mut new = [(PATHS, paths_left), (PRELOAD, preload_left)];
        let entry = match (drop_in, adapter) {
            (Some(drop_in), _) if is_found_by_name(drop_in, executable) => {
                home.map(|home| (DROP_IN, 0, home))
            }
            (Some(drop_in), _) => Some((DROP_IN, 1, drop_in)),
            (None, Some(adapter)) => Some((STOCK, 1, adapter)),
            (None, None) => None,
        };
        let note = match entry {
            Some((what, at, entry)) => {
                let (name, list) = &mut new[at];
                *list = before(entry.as_os_str(), list);
                format!("{what}, {name}={}", list.display())
            }
            None => PASSIVE.to_owned(),
        };
        let changed = new.into_iter().zip([paths, preload]);
        let changed = changed.filter(|((_, new), old)| new != old);
        Put {
            environment: changed
                .map(|((name, new), _)| (OsString::from(name), new))
                .collect(),
            note,
            steered: entry.is_some(),
        }
    }
}

const DROP_IN: &str = "libgc: the drop-in (`--adapter libgc-stock` takes the system's)";
const STOCK: &str = "libgc: the system's, with the adapter";
const PASSIVE: &str =
    "libgc: the system's; what would steer it is not installed: the program is passive";

/// Whether the loader comes to it by `LD_LIBRARY_PATH`.
fn is_found_by_name(drop_in: &Path, executable: Option<&Path>) -> bool {
    drop_in.file_name() == Some(OsStr::new(NEEDED)) && !executable.is_some_and(elf::has_rpath)
}

/// What stands between two entries of a variable of the loader's.
fn separates(name: &str, byte: u8) -> bool {
    byte == b':' || byte == if name == PRELOAD { b' ' } else { b';' }
}

fn names(list: &OsStr, name: &str, entry: &Path) -> bool {
    let mut entries = list.as_bytes().split(|&byte| separates(name, byte));
    entries.any(|one| one == entry.as_os_str().as_bytes())
}

fn without(list: &OsStr, name: &str, entry: &Path) -> OsString {
    if !names(list, name, entry) {
        return list.to_owned();
    }
    let entries = list.as_bytes().split(|&byte| separates(name, byte));
    let left: Vec<&[u8]> = entries
        .filter(|&one| one != entry.as_os_str().as_bytes())
        .collect();
    OsString::from_vec(left.join(&b':'))
}

fn before(entry: &OsStr, list: &OsStr) -> OsString {
    let mut new = entry.to_owned();
    if !list.is_empty() {
        new.push(":");
        new.push(list);
    }
    new
}

/// The system's libgc, where the loader usually looks.
pub fn system() -> Option<PathBuf> {
    let place = elf::PLACES.map(|place| Path::new(place).join(NEEDED));
    place.into_iter().find(|path| path.is_file())
}

/// The version that a libgc says it is; an error says why it cannot be loaded. It stays loaded.
///
/// # Errors
/// The loader's message.
pub fn version(library: &Path) -> Result<String, String> {
    let path = CString::new(library.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the path ends with NUL. Loading a libgc runs nothing of it but what any library does.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(last_error());
    }
    // SAFETY: the handle is open, the name ends with NUL.
    let address = unsafe { libc::dlsym(handle, c"GC_get_version".as_ptr()) };
    if address.is_null() {
        return Err(last_error());
    }
    // SAFETY: `unsigned GC_get_version(void)` since libgc 7.1; it returns a constant.
    let version = unsafe {
        let ask: extern "C" fn() -> libc::c_uint = std::mem::transmute(address);
        ask()
    };
    let (major, minor, micro) = (version >> 16, version >> 8 & 0xff, version & 0xff);
    Ok(format!("{major}.{minor}.{micro}"))
}

fn last_error() -> String {
    // SAFETY: the loader's own string, or null; copied before the next call.
    let error = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
    error.map_or_else(String::new, |text| text.to_string_lossy().into_owned())
}

#[cfg(test)]
#[path = "libgc_tests.rs"]
mod tests;
