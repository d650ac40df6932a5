//! The numbers of tracepoints. Source: kernel document `trace/events.rst`.

use super::super::Declined;
use crate::parse::number;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::os::fd::{AsFd, OwnedFd};

/// Where it is mounted, newer kernels first.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The numbers of these tracepoints of reclaim. If nobody mounted tracefs, it is mounted for this
/// call only, where no other program sees it.
pub(super) fn numbers<const N: usize>(names: [&str; N]) -> Result<[u64; N], Declined> {
    let mut numbers = [0; N];
    for place in PLACES {
        if fill(CWD, place, &names, &mut numbers).is_some() {
            return Ok(numbers);
        }
    }
    let own = mount().ok();
    own.and_then(|own| fill(own.as_fd(), ".", &names, &mut numbers))
        .map(|()| numbers)
        .ok_or(Declined::NoTracefs)
}

fn fill(base: impl AsFd, place: &str, names: &[&str], numbers: &mut [u64]) -> Option<()> {
    for (name, slot) in names.iter().zip(numbers) {
        let path = format!("{place}/events/vmscan/{name}/id");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&base, path, flags, Mode::empty()).ok()?;
        let mut text = [0; 32];
        let length = rustix::io::read(file, &mut text).ok()?;
        *slot = number(text[..length].trim_ascii())?;
    }
    Some(())
}

/// A mount that is at no path.
fn mount() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOEXEC,
    )
}
