//! Usage thresholds of v1 groups: an eventfd that fires when usage crosses a value. Source: kernel
//! document `cgroup-v1/memory.rst` 9. Version 2 has none: poll its usage.

use crate::cgroup::{Cgroup, Version};
use crate::reader::{Reader, write_text};
use crate::{Error, Result};
use plimsoll_unit::Bytes;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Fires (becomes readable) when the usage of a v1 group crosses an amount, in either
/// direction, and when the group is removed.
#[derive(Debug)]
pub struct Threshold {
    event: OwnedFd,
    _usage: Reader,
}

impl Threshold {
    /// Sets a threshold.
    ///
    /// # Errors
    /// [`Error::Absent`] in version 2 and in v1 kernels without it; [`Error::Denied`] without
    /// rights on `cgroup.event_control`.
    pub fn set(cgroup: &Cgroup, usage: Bytes) -> Result<Threshold> {
        let control = cgroup.dir().join("cgroup.event_control");
        if cgroup.version() != Version::V1 {
            return Err(Error::Absent { path: control });
        }
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| {
            Error::Call {
                call: "eventfd",
                pid: 0,
                source: e.into(),
            }
        })?;
        let reader = Reader::open(cgroup.dir().join("memory.usage_in_bytes"))?;
        let (event_fd, usage_fd) = (event.as_raw_fd(), reader.as_fd().as_raw_fd());
        let line = format!("{event_fd} {usage_fd} {}", usage.0);
        write_text(&control, line.as_bytes())?;
        Ok(Threshold {
            event,
            _usage: reader,
        })
    }

    /// How often it fired since the last call; 0 when it did not.
    pub fn take(&self) -> u64 {
        let mut count = [0; 8];
        match rustix::io::read(&self.event, &mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }
}

impl AsFd for Threshold {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
