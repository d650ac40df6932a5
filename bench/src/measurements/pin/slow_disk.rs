//! A disk that is made slow for some processes: a group of the blkio controller (cgroup v1) whose reads are
//! throttled. Pages that a server lacks then cost it as much as on a disk that turns.

use crate::report::results::root;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Where the controller is mounted.
const BLKIO: &str = "/sys/fs/cgroup/blkio";
/// Reads a second, of all processes of the group together.
pub(super) const READS: u64 = 200;
/// Its file for that.
const THROTTLE: &str = "blkio.throttle.read_iops_device";
/// Groups of measurements begin so.
const PREFIX: &str = "plimsoll-bench-pin-";

/// A group whose reads from the disk of the checkout can be throttled. Gone when this is dropped; its
/// processes stay.
#[derive(Debug)]
pub(super) struct SlowDisk {
    dir: PathBuf,
    /// `major:minor` of the disk.
    disk: String,
}

impl SlowDisk {
    /// Makes the group; `None` where the kernel throttles no reads.
    pub(super) fn new() -> Option<SlowDisk> {
        sweep();
        let disk = disk_of(&root())?;
        let dir = Path::new(BLKIO).join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir(&dir).ok()?;
        let slow = SlowDisk { dir, disk };
        slow.throttle(Some(READS)).ok()?;
        slow.throttle(None).ok()?;
        Some(slow)
    }

    /// Takes in a process with its threads.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub(super) fn take(&self, pid: u32) -> Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Throttles to this many reads a second; with `None` not any more.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub(super) fn throttle(&self, reads: Option<u64>) -> Result<()> {
        // 0 is without a bound.
        let line = format!("{} {}", self.disk, reads.unwrap_or(0));
        self.write(THROTTLE, &line)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.dir.join(file);
        std::fs::write(&path, text).map_err(Error::file("write", &path))
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        remove(&self.dir);
    }
}

/// Gives the processes of a group back to the one above, and removes it.
fn remove(dir: &Path) {
    let members = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines() {
        // One that has ended cannot be moved.
        let _ = std::fs::write(Path::new(BLKIO).join("cgroup.procs"), pid);
    }
    let _ = std::fs::remove_dir(dir);
}

/// Removes what a measurement left that was killed.
fn sweep() {
    let all = std::fs::read_dir(BLKIO).into_iter().flatten().flatten();
    for entry in all {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&entry.path());
        }
    }
}

/// The disk that a path is on, `major:minor`. Only whole disks are throttled.
fn disk_of(path: &Path) -> Option<String> {
    let device = rustix::fs::stat(path).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let there = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    let there = there.canonicalize().ok()?;
    let whole = if there.join("partition").exists() {
        there.parent()?.to_owned()
    } else {
        there
    };
    let number = std::fs::read_to_string(whole.join("dev")).ok()?;
    Some(number.trim().to_owned())
}
