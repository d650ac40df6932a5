//! Setting a group's limits.

use super::{Cgroup, NO_LIMIT, Version};
use crate::interrupt::Interrupt;
use crate::reader::{Reader, write_text};
use crate::{Error, Result};
use plimsoll_unit::Bytes;
use std::path::PathBuf;
use std::time::Duration;

impl Cgroup {
    /// Sets the limit; `None` lifts it. Returns the limit in force, as the kernel reports
    /// it. Blocks while the kernel reclaims (361 ms for 128 MiB measured), so call it from a worker
    /// thread. Never kills: version 2 would kill if it could not get below the new limit, so memory
    /// is reclaimed first and the limit is not set below what remains.
    ///
    /// # Errors
    /// [`Error::Busy`] (v1) when locked memory is in the way: the limit is unchanged then.
    /// [`Error::Denied`] without rights.
    pub fn set_limit(&self, limit: Option<Bytes>) -> Result<Option<Bytes>> {
        match (self.version, limit) {
            (Version::V1, None) => self.write("memory.limit_in_bytes", b"-1")?,
            (Version::V1, Some(limit)) => self.write_bytes("memory.limit_in_bytes", limit)?,
            (Version::V2, None) => self.write("memory.max", b"max")?,
            (Version::V2, Some(limit)) => self.shrink_max(limit)?,
        }
        self.limit()
    }

    fn shrink_max(&self, limit: Bytes) -> Result<()> {
        let mut safe = limit;
        if let Some(surplus) = self.usage()?.above(limit) {
            self.reclaim(surplus)?;
            let left = self.usage()?;
            if left > limit {
                safe = left + left / 16;
            }
        }
        self.write_bytes("memory.max", safe)
    }

    /// Sets the soft limit of v2 (`memory.high`: reclaims and slows down, never kills).
    /// `None` lifts it.
    ///
    /// # Errors
    /// [`Error::Absent`] in version 1, whose soft limit does nothing below global pressure.
    pub fn set_high(&self, limit: Option<Bytes>) -> Result<()> {
        match (self.version, limit) {
            (Version::V1, _) => Err(self.lacks("memory.high")),
            (Version::V2, None) => self.write("memory.high", b"max"),
            (Version::V2, Some(limit)) => self.write_bytes("memory.high", limit),
        }
    }

    /// As [`Cgroup::set_high`]. The limit is in force at once; the kernel then reclaims for `time` at most,
    /// and the rest when the group allocates. Without an end, a program in the group could make it last for
    /// ever: it takes again what was taken, while somebody lifts the limit.
    ///
    /// # Errors
    /// As [`Cgroup::set_high`].
    pub fn set_high_within(&self, limit: Option<Bytes>, time: Duration) -> Result<()> {
        let _interrupt = Interrupt::after(time);
        self.set_high(limit)
    }

    /// The soft limit of v2; `None` if there is none.
    ///
    /// # Errors
    /// As [`Cgroup::limit`].
    pub fn high(&self) -> Result<Option<Bytes>> {
        Ok(self.number_of("memory.high")?.map(Bytes))
    }

    /// How readily anonymous memory goes to swap (0 to 200), v1 only.
    ///
    /// # Errors
    /// [`Error::Absent`] in version 2.
    pub fn swappiness(&self) -> Result<u64> {
        let reader = Reader::open(self.dir.join("memory.swappiness"))?;
        Ok(reader.number()?.unwrap_or(0))
    }

    /// Whether the kernel swaps no anonymous memory when the group is at its limit, because
    /// swappiness is 0: the group's in version 1, the machine's in version 2.
    ///
    /// # Errors
    /// As [`Cgroup::limit`].
    pub fn takes_no_anon(&self) -> Result<bool> {
        let path = match self.version {
            Version::V1 => self.dir.join("memory.swappiness"),
            Version::V2 => PathBuf::from("/proc/sys/vm/swappiness"),
        };
        match Reader::open(path) {
            Ok(reader) => Ok(reader.number()? == Some(0)),
            Err(e) if e.is_absent() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Sets [`Cgroup::swappiness`].
    ///
    /// # Errors
    /// [`Error::Absent`] in version 2; [`Error::Denied`] without rights.
    pub fn set_swappiness(&self, value: u64) -> Result<()> {
        self.write("memory.swappiness", value.min(200).to_string().as_bytes())
    }

    /// How much of its memory the group's swap limit still lets go to swap. Version 1 limits
    /// memory and swap together (`memory.memsw`), so `room`, what is left below the memory limit,
    /// is taken off; version 2 limits swap alone. `None` if there is no such limit or swap is not
    /// accounted.
    ///
    /// # Errors
    /// As [`Cgroup::limit`].
    pub fn pageable(&self, room: Bytes) -> Result<Option<Bytes>> {
        let (most, now) = match self.version {
            Version::V1 => ("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
            Version::V2 => ("memory.swap.max", "memory.swap.current"),
        };
        let (Some(most), Some(now)) = (self.number_of(most)?, self.number_of(now)?) else {
            return Ok(None);
        };
        if most >= NO_LIMIT {
            return Ok(None);
        }
        let left = Bytes(most) - Bytes(now);
        Ok(Some(match self.version {
            Version::V1 => left + self.stat()?.droppable() - room,
            Version::V2 => left,
        }))
    }

    /// The number in a file; `None` if the file is missing or says `max`.
    fn number_of(&self, file: &str) -> Result<Option<u64>> {
        match Reader::open(self.dir.join(file)) {
            Ok(reader) => reader.number(),
            Err(e) if e.is_absent() => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub(super) fn write_bytes(&self, file: &str, bytes: Bytes) -> Result<()> {
        self.write(file, bytes.0.to_string().as_bytes())
    }

    pub(super) fn write(&self, file: &str, text: &[u8]) -> Result<()> {
        match write_text(&self.dir.join(file), text) {
            Err(Error::Busy { path, .. }) => Err(Error::Busy {
                path,
                why: "memory that cannot be reclaimed (locked, or without swap to go to) is above the \
                      new limit, which is unchanged",
            }),
            other => other,
        }
    }
}
