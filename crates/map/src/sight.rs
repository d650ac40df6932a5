//! What was read of a process in one look.

use plimsoll_kernel::smaps::Area;
use std::path::{Path, PathBuf};

/// One look at a process. Data only, so that attribution can be tested without one.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Its number.
    pub pid: i32,
    /// What `/proc/PID/exe` names; empty where that is hidden.
    pub executable: PathBuf,
    /// Under which its files are seen from here (`/proc/PID/root`); empty in tests.
    pub root: PathBuf,
    /// Its mappings as `smaps` lists them, by address.
    pub mappings: Vec<Area>,
    /// Stack pointers of its threads, as far as the kernel shows them (`/proc/PID/task/*/syscall`).
    pub stack_pointers: Vec<u64>,
}

impl Sight {
    /// The mappings of a file whose path satisfies `is`.
    pub fn mappings_of(&self, is: impl Fn(&Path) -> bool) -> impl Iterator<Item = &Area> {
        self.mappings
            .iter()
            .filter(move |area| is(Path::new(&area.name)))
    }
}
