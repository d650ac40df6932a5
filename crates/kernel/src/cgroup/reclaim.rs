//! Takes bytes from a group now: by `memory.reclaim` in v2, by a dip of the limit in v1.

use super::{Cgroup, Version};
use crate::interrupt::Interrupt;
use crate::reader::write_once;
use crate::{Error, Result};
use plimsoll_unit::Bytes;
use std::time::{Duration, Instant};

/// Asked for at a time. Small, because a v1 limit stays lowered during a step.
const STEP: Bytes = Bytes::mib(16);
/// The lowest that a v1 limit is set for a step.
const LOWEST: Bytes = Bytes::mib(1);
/// Steps without progress before giving up.
const TRIES: u32 = 5;
/// Most steps of one call.
const MAX_STEPS: u32 = 4096;

impl Cgroup {
    /// Makes the kernel reclaim about so much from this group. Returns by how much its usage
    /// fell, which is less if a program allocates meanwhile. Clean and paged-out pages go first.
    /// Blocks (0.24 ms/MiB from the swap cache, 2-4 ms/MiB if pages must be written), so call it
    /// from a worker thread. In version 1, and before Linux 5.19, a limit is lowered in steps of 16 MiB and
    /// restored after each, also on errors and panics. A caller that may be killed in between must save the
    /// limit and set it again when it restarts.
    ///
    /// # Errors
    /// [`Error::Denied`] without rights, [`Error::Absent`] where neither way exists. Getting less
    /// than asked is no error.
    pub fn reclaim(&self, bytes: Bytes) -> Result<Bytes> {
        self.reclaim_until(bytes, None, None)
    }

    /// As [`Cgroup::reclaim`], with another swappiness (0 to 200) where the kernel has that (version 2 from
    /// Linux 6.9 on, see [`Cgroup::takes_by_swappiness`]; version 1 always goes by the group's own), and for
    /// `time` at most. Without an end, a program in the group could make it last for ever, by taking again
    /// what was taken.
    ///
    /// # Errors
    /// As [`Cgroup::reclaim`].
    pub fn reclaim_within(
        &self,
        bytes: Bytes,
        swappiness: Option<u32>,
        time: Duration,
    ) -> Result<Bytes> {
        let _interrupt = Interrupt::after(time);
        self.reclaim_until(bytes, swappiness, Some(Instant::now() + time))
    }

    fn reclaim_until(
        &self,
        bytes: Bytes,
        swappiness: Option<u32>,
        end: Option<Instant>,
    ) -> Result<Bytes> {
        let before = self.usage()?;
        let goal = before - bytes;
        let (mut fruitless, mut taken) = (0, Bytes::ZERO);
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        for _ in 0..MAX_STEPS {
            let now = self.usage()?;
            // Somebody may take as much as we take away.
            if now <= goal || fruitless >= TRIES || taken >= bytes * 2 || is_over() {
                break;
            }
            let step = (now - goal).min(STEP);
            let progress = match self.version {
                Version::V1 => self.dip(self.limit()?, "memory.limit_in_bytes", now, step)?,
                Version::V2 => match self.ask_reclaim(step, swappiness) {
                    // Before Linux 5.19.
                    Err(error) if error.is_absent() => {
                        self.dip(self.high()?, "memory.high", now, step)?
                    }
                    asked => asked?,
                },
            };
            if progress {
                (fruitless, taken) = (0, taken + step);
            } else {
                fruitless += 1;
            }
        }
        Ok(before - self.usage()?)
    }

    /// Whether `memory.reclaim` takes a swappiness. Takes nothing.
    #[must_use]
    pub fn takes_by_swappiness(&self) -> bool {
        self.version == Version::V2 && self.write("memory.reclaim", b"0 swappiness=60").is_ok()
    }

    /// Whether the kernel got all of it (`EAGAIN`: it did not).
    fn ask_reclaim(&self, step: Bytes, swappiness: Option<u32>) -> Result<bool> {
        let text = match swappiness {
            Some(swappiness) => format!("{} swappiness={}", step.0, swappiness.min(200)),
            None => step.0.to_string(),
        };
        match write_once(&self.dir.join("memory.reclaim"), text.as_bytes()) {
            Ok(()) => Ok(true),
            Err(Error::Io { source, .. }) if is_partial(&source) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Lowers the limit in `file` for a moment. Returns whether the kernel could; the old limit is restored
    /// in either case.
    fn dip(
        &self,
        limit: Option<Bytes>,
        file: &'static str,
        usage: Bytes,
        step: Bytes,
    ) -> Result<bool> {
        let low = (usage - step).max(LOWEST);
        if limit.is_some_and(|l| l <= low) {
            return Ok(false);
        }
        let restore = Restore {
            cgroup: self,
            limit,
        };
        let lowered = write_once(&self.dir.join(file), low.0.to_string().as_bytes());
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

/// Restores the limit when dropped, also on a panic.
struct Restore<'c> {
    cgroup: &'c Cgroup,
    limit: Option<Bytes>,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            let restored = match self.cgroup.version() {
                Version::V1 => self.cgroup.set_limit(self.limit).map(|_| ()),
                Version::V2 => self.cgroup.set_high(self.limit),
            };
            if restored.is_ok() {
                return;
            }
        }
    }
}
