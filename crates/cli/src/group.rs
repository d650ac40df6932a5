//! Cgroups that a person names.

use crate::error::CliError;
use plimsoll_kernel::Error;
use plimsoll_kernel::cgroup::Cgroup;
use std::path::Path;

/// The memory cgroup of this name: a path below the memory controller's mount, with or without that of
/// the mount in front.
///
/// # Errors
/// As [`failed`].
pub(crate) fn named(path: &Path) -> Result<Cgroup, CliError> {
    Cgroup::named(path).map_err(|error| failed(path, &error))
}

/// Why something cannot be known of a group: [`CliError::NoSuchGroup`] when there is none (any more), else
/// what the kernel says.
pub(crate) fn failed(path: &Path, error: &Error) -> CliError {
    if error.is_absent() {
        CliError::NoSuchGroup(path.to_owned())
    } else {
        CliError::Kernel(error.to_string())
    }
}
