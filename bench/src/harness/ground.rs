//! The ground of a measurement: a cgroup with a limit, a swap file and a folder. All are removed at its end.

use super::folder::Folder;
use crate::report::results::root;
use crate::{Error, Result};
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_testbed::{SwapFile, TestCgroup, children};
use plimsoll_unit::Bytes;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Most bytes of a measurement's swap file.
pub const SWAP: u64 = 4 << 30;

/// The folder of swap files. In a guest a disk is mounted there.
pub fn swap_folder() -> PathBuf {
    root().join(".cache/swap")
}

/// Bytes for a swap file in a folder: half of what is free at most, since a guest's disk is small.
fn room(folder: &Path, wanted: u64) -> u64 {
    let free = rustix::fs::statvfs(folder).map_or(u64::MAX, |it| it.f_bavail * it.f_frsize);
    wanted.min(free / 2)
}

/// A cgroup to run in, with swap behind it.
#[derive(Debug)]
pub struct Ground {
    // Before the cgroup above them, so that they are dropped first.
    leaves: Mutex<Vec<TestCgroup>>,
    cgroup: TestCgroup,
    folder: Folder,
    /// Whether nothing of the cgroup may be paged out.
    swapless: bool,
    _swap: Option<SwapFile>,
    _accounting: DelayAccounting,
}

impl Ground {
    /// Makes the cgroup (without a limit yet), the swap file and a folder for `name`.
    ///
    /// # Errors
    /// When rights to make them are missing.
    pub fn new(name: &str) -> Result<Self> {
        Ground::with_swap(name, SWAP)
    }

    /// As [`Ground::new`], but without swap: nothing of the cgroup can be paged out, even if the machine has
    /// swap.
    ///
    /// # Errors
    /// As [`Ground::new`].
    pub fn without_swap(name: &str) -> Result<Self> {
        let mut ground = Ground::prepare(name, None)?;
        ground.swapless = true;
        Ok(ground)
    }

    /// As [`Ground::new`], with a swap file of `bytes` bytes if there is room for as much again.
    ///
    /// # Errors
    /// As [`Ground::new`].
    pub fn with_swap(name: &str, bytes: u64) -> Result<Self> {
        Ground::prepare(name, Some(bytes))
    }

    fn prepare(name: &str, swap: Option<u64>) -> Result<Self> {
        let missing = |what| move |source| Error::Ground { what, source };
        let cgroup = TestCgroup::new(&format!("bench-{name}"), None)
            .map_err(missing("memory cgroup to run in"))?;
        let folder = swap_folder();
        std::fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        let swap = swap
            .map(|bytes| SwapFile::new(&folder, Bytes(room(&folder, bytes))))
            .transpose();
        let swap = swap.map_err(missing("swap file"))?;
        Ok(Ground {
            leaves: Mutex::default(),
            cgroup,
            folder: Folder::new(name)?,
            swapless: false,
            _swap: swap,
            _accounting: DelayAccounting::on(),
        })
    }

    /// The cgroup.
    pub fn cgroup(&self) -> &Cgroup {
        self.cgroup.cgroup()
    }

    /// Makes `command` start in the cgroup. Under version 2 it has a cgroup of its own below that: a cgroup
    /// takes no processes once a program has made one for itself below it.
    ///
    /// # Errors
    /// When the cgroup takes no processes.
    pub fn enter(&self, command: &mut Command) -> Result<()> {
        let enter = |cgroup: &Cgroup, command: &mut Command| {
            children::enter(command, cgroup).map_err(Error::file("enter", cgroup.dir()))
        };
        if self.cgroup().version() == Version::V1 {
            return enter(self.cgroup(), command);
        }
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("program-{}", leaves.len());
        let leaf = TestCgroup::below(self.cgroup(), &name, None)?;
        enter(leaf.cgroup(), command)?;
        leaves.push(leaf);
        Ok(())
    }

    /// A folder for files of the measurement.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sets the limit of the cgroup in bytes, or removes it.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn limit(&self, bytes: impl Into<Option<u64>>) -> Result<()> {
        let bytes = bytes.into();
        if self.swapless && self.cgroup().version() == Version::V1 {
            // The kernel refuses a limit of memory above the limit of memory and swap. So the latter is
            // removed first, and set again below.
            self.write("memory.memsw.limit_in_bytes", "-1")?;
        }
        self.cgroup().set_limit(bytes.map(Bytes))?;
        if !self.swapless {
            return Ok(());
        }
        let limit = bytes.map_or("-1".to_owned(), |bytes| bytes.to_string());
        match self.cgroup().version() {
            Version::V1 => {
                self.write("memory.memsw.limit_in_bytes", &limit)?;
                self.write("memory.swappiness", "0")
            }
            Version::V2 => self.write("memory.swap.max", "0"),
        }
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.cgroup().dir().join(file);
        std::fs::write(&path, text).map_err(Error::file("write", &path))
    }
}

/// The kernel counts stalls only while this switch is on, and only of processes that start after that.
const DELAY_ACCOUNTING: &str = "/proc/sys/kernel/task_delayacct";

/// Delay accounting, switched on for the time of a measurement.
#[derive(Debug)]
struct DelayAccounting {
    before: Option<String>,
}

impl DelayAccounting {
    fn on() -> Self {
        let before = std::fs::read_to_string(DELAY_ACCOUNTING).ok();
        // If it cannot be switched on, stalls stay 0. The tables mention that.
        let _ = std::fs::write(DELAY_ACCOUNTING, "1");
        DelayAccounting { before }
    }
}

impl Drop for DelayAccounting {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = std::fs::write(DELAY_ACCOUNTING, before.trim());
        }
    }
}
