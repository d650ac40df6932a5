//! Finds our libraries for programs on libgc, and puts one of them into a program.

use crate::own_libraries::library;
use plimsoll_programs::Setting;
use plimsoll_programs::elf::Elf;
use plimsoll_programs::libgc::{BUILT, NEEDED};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The file name of the adapter for the system's libgc.
const ADAPTER: &str = "libplimsoll_libgc.so";

const PATHS: &str = "LD_LIBRARY_PATH";
const PRELOAD: &str = "LD_PRELOAD";

/// The libraries that were found for programs on libgc.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    /// The drop-in.
    pub drop_in: Option<PathBuf>,
    /// The adapter, which is preloaded to steer the system's libgc.
    pub adapter: Option<PathBuf>,
}

/// Which collector a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The drop-in; the system's libgc if the adapter is preloaded already or there is no drop-in.
    Any,
    /// The drop-in; the system's libgc if there is no drop-in.
    DropIn,
    /// The system's libgc, steered by the adapter.
    Stock,
}

/// The variables to set in a program's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The choice, for `-v`.
    pub(crate) note: String,
    /// Whether the program will be steered.
    pub(crate) steered: bool,
}

impl Libraries {
    /// The libraries beside `program`, which is ours (in a build tree), or in the place of
    /// installation.
    pub fn of(program: &Path) -> Libraries {
        Libraries {
            drop_in: library(program, BUILT, "gc/libgc.so.1"),
            adapter: library(program, ADAPTER, ADAPTER),
        }
    }

    /// The variables that put the wanted collector into a program.
    pub(crate) fn put(&self, wish: Wish, executable: Option<&Path>, setting: &Setting<'_>) -> Put {
        let variable = |name| (setting.variables)(name).unwrap_or_default();
        let (paths, preload) = (variable(PATHS), variable(PRELOAD));
        let adapter = self.adapter.as_deref();
        let steered = adapter.is_some_and(|adapter| names(&preload, PRELOAD, adapter));
        let stock = wish == Wish::Stock || wish == Wish::Any && steered;
        let drop_in = self.drop_in.as_deref().filter(|_| !stock);
        // A process must have only one of the two, so an inherited entry for the other is removed.
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

/// Whether the loader finds the drop-in through `LD_LIBRARY_PATH`.
fn is_found_by_name(drop_in: &Path, executable: Option<&Path>) -> bool {
    drop_in.file_name() == Some(OsStr::new(NEEDED)) && !executable.is_some_and(has_rpath)
}

fn has_rpath(executable: &Path) -> bool {
    Elf::at(executable).is_some_and(|file| file.has_rpath())
}

/// Whether this byte separates two entries of the loader's variable `name`.
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
