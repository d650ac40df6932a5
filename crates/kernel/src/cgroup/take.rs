//! Taking bytes from a group now: v2 `memory.reclaim`, v1 a dip of the limit.

use super::{Cgroup, Version};
use crate::{Error, Result};

/// Bytes asked for at a time: the limit of a v1 group is low for the time of one step only.
const STEP: u64 = 16 << 20;
/// Steps without progress before giving up.
const TRIES: u32 = 5;
/// Most steps of one call.
const MAX_STEPS: u32 = 4096;

impl Cgroup {
    /// Makes the kernel reclaim about `bytes` from this group; returns by how much its usage fell
    /// (a program that allocates meanwhile makes it less). Clean and paged-out pages go first.
    /// Blocks (0.24 ms/MiB from the swap cache, 2-4 ms/MiB when pages must be written): call it
    /// from a worker thread. In version 1 the limit is lowered by steps of 16 MiB and put back
    /// after each, on every way out; a caller that may be killed in between keeps the limit in its
    /// own state and sets it again when it starts.
    ///
    /// # Errors
    /// [`Error::Denied`] without rights, [`Error::Absent`] where neither way exists. Getting less
    /// than asked is no error.
    pub fn reclaim(&self, bytes: u64) -> Result<u64> {
        let before = self.usage()?;
        let goal = before.saturating_sub(bytes);
        let mut fruitless = 0;
        for _ in 0..MAX_STEPS {
            let now = self.usage()?;
            if now <= goal || fruitless >= TRIES {
                break;
            }
            let step = (now - goal).min(STEP);
            let progress = match self.version {
                Version::V1 => self.dip(now, step)?,
                Version::V2 => self.ask_reclaim(step)?,
            };
            fruitless = if progress { 0 } else { fruitless + 1 };
        }
        Ok(before.saturating_sub(self.usage()?))
    }

    /// Whether the kernel got all of it (`EAGAIN`: it did not).
    fn ask_reclaim(&self, step: u64) -> Result<bool> {
        match self.write("memory.reclaim", step.to_string().as_bytes()) {
            Ok(()) => Ok(true),
            Err(Error::Io { source, .. }) if is_partial(&source) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Whether the kernel could lower the limit that far. The limit is what it was before on return.
    fn dip(&self, usage: u64, step: u64) -> Result<bool> {
        let limit = self.limit()?;
        let low = usage.saturating_sub(step).max(1 << 20);
        if limit.is_some_and(|l| l <= low) {
            return Ok(false);
        }
        let restore = Restore {
            cgroup: self,
            limit,
        };
        let lowered = self.write("memory.limit_in_bytes", low.to_string().as_bytes());
        drop(restore);
        match lowered {
            Ok(()) => Ok(true),
            Err(Error::Busy { .. }) => Ok(false),
            Err(Error::Io { source, .. }) if is_partial(&source) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

fn is_partial(source: &std::io::Error) -> bool {
    matches!(
        source.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
    )
}

/// Puts the limit back, also when something panics.
struct Restore<'c> {
    cgroup: &'c Cgroup,
    limit: Option<u64>,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            if self.cgroup.set_limit(self.limit).is_ok() {
                return;
            }
        }
    }
}
