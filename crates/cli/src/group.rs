//! Cgroups that a person names.

use crate::error::CliError;
use plimsoll_kernel::cgroup::Cgroup;
use std::path::Path;

/// The memory cgroup of this name: a path below the memory controller's mount, with or without that of
/// the mount in front.
///
/// # Errors
/// When there is none, with what to give instead.
pub(crate) fn named(path: &Path) -> Result<Cgroup, CliError> {
    Cgroup::named(path).map_err(|error| {
        CliError::Kernel(match error.is_absent() {
            true => format!(
                "there is no memory cgroup {}: give its path as below /sys/fs/cgroup, or as in \
                 /proc/PID/cgroup",
                path.display()
            ),
            false => error.to_string(),
        })
    })
}
