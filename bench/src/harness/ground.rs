//! What a measurement stands on: a cgroup with a limit, a swap file, a folder. All gone at its end.

use crate::report::results::root;
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_testbed::{SwapFile, TestCgroup};
use std::path::{Path, PathBuf};

/// Swap file of a measurement, bytes.
pub const SWAP: u64 = 4 << 30;

/// A cgroup to run in, with swap behind it.
#[derive(Debug)]
pub struct Ground {
    cgroup: TestCgroup,
    folder: PathBuf,
    /// What the cgroup holds stays in memory.
    swapless: bool,
    _swap: Option<SwapFile>,
    _accounting: DelayAccounting,
}

impl Ground {
    /// Makes the cgroup (without a limit yet), the swap file and a folder for `name`.
    ///
    /// # Errors
    /// A sentence on which right is missing.
    pub fn new(name: &str) -> Result<Self, String> {
        Ground::with_swap(name, SWAP)
    }

    /// The same without swap: nothing of the cgroup can be paged out, whatever swap the machine has.
    ///
    /// # Errors
    /// As [`Ground::new`].
    pub fn without_swap(name: &str) -> Result<Self, String> {
        let mut ground = Ground::prepare(name, None)?;
        ground.swapless = true;
        Ok(ground)
    }

    /// The same with so many bytes of swap.
    ///
    /// # Errors
    /// As [`Ground::new`].
    pub fn with_swap(name: &str, bytes: u64) -> Result<Self, String> {
        Ground::prepare(name, Some(bytes))
    }

    fn prepare(name: &str, swap: Option<u64>) -> Result<Self, String> {
        let cgroup = TestCgroup::new(&format!("bench-{name}"), None).map_err(|e| {
            format!("no memory cgroup to run in: {e} (run the measurements as root)")
        })?;
        let cache = root().join(".cache");
        std::fs::create_dir_all(&cache)
            .map_err(|e| format!("cannot make {}: {e}", cache.display()))?;
        let swap = match swap.map(|bytes| SwapFile::new(&cache, bytes)).transpose() {
            Ok(swap) => swap,
            Err(e) => return Err(format!("no swap file: {e} (run the measurements as root)")),
        };
        let folder =
            std::env::temp_dir().join(format!("plimsoll-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        Ok(Ground {
            cgroup,
            folder,
            swapless: false,
            _swap: swap,
            _accounting: DelayAccounting::on(),
        })
    }

    /// The cgroup.
    pub fn cgroup(&self) -> &Cgroup {
        self.cgroup.cgroup()
    }

    /// A folder for files of the measurement.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Sets the limit of the cgroup, bytes, or takes it away.
    ///
    /// # Errors
    /// A sentence on why not.
    pub fn limit(&self, bytes: impl Into<Option<u64>>) -> Result<(), String> {
        let bytes = bytes.into();
        let cannot = |e: &dyn std::fmt::Display| format!("cannot limit the cgroup: {e}");
        if self.swapless && self.cgroup().version() == Version::V1 {
            // It may not be below the limit of memory, which may be above the new one.
            self.write("memory.memsw.limit_in_bytes", "-1")
                .map_err(|e| cannot(&e))?;
        }
        self.cgroup().set_limit(bytes).map_err(|e| cannot(&e))?;
        if !self.swapless {
            return Ok(());
        }
        let limit = bytes.map_or("-1".to_owned(), |bytes| bytes.to_string());
        let done = match self.cgroup().version() {
            Version::V1 => self
                .write("memory.memsw.limit_in_bytes", &limit)
                .and_then(|()| self.write("memory.swappiness", "0")),
            Version::V2 => self.write("memory.swap.max", "0"),
        };
        done.map_err(|e| cannot(&e))
    }

    fn write(&self, file: &str, text: &str) -> std::io::Result<()> {
        std::fs::write(self.cgroup().dir().join(file), text)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Without it the kernel counts no stalls; only of processes that start later.
const DELAY_ACCOUNTING: &str = "/proc/sys/kernel/task_delayacct";

/// Delay accounting, switched on for the time of a measurement.
#[derive(Debug)]
struct DelayAccounting {
    before: Option<String>,
}

impl DelayAccounting {
    fn on() -> Self {
        let before = std::fs::read_to_string(DELAY_ACCOUNTING).ok();
        // Where it cannot be switched on, stalls stay 0 in the tables, which say so.
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
