//! Means against pages that are read again after they were reclaimed: reclaim others first, or hold them.

use super::{Capability, Grade};
use crate::capacity::Domain;
use crate::cgroup::{Cgroup, Version};
use crate::pin::lockable;
use crate::stalls::{self, Taskstats};
use crate::swap;
use plimsoll_unit::Bytes;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat};

/// Whether reclaim can be shifted between file pages and anonymous ones, and by which costs.
pub(super) fn balance() -> Capability {
    let found = |tier: &str| Capability::best("balance", tier);
    let Some(group) = Cgroup::of_self().ok().flatten() else {
        return found("not there").lesser(
            Grade::Missing,
            "a memory controller",
            "refaults are known of the whole machine only",
        );
    };
    if swap::spaces().is_ok_and(|spaces| spaces.is_empty()) {
        return found("measured; without swap only file pages can be reclaimed").lesser(
            Grade::Missing,
            "a swap file or zram",
            "file pages of programs go, however cold their other memory is",
        );
    }
    let file = group.dir().join("memory.swappiness");
    match group.version() {
        Version::V1 if accessat(CWD, file, Access::WRITE_OK, AtFlags::EACCESS).is_ok() => {
            by_costs(counts_waits())
        }
        Version::V2 if group.takes_by_swappiness() => found("memory.reclaim with a swappiness")
            .lesser(
                Grade::Fallback,
                "cgroup version 1, whose groups have a swappiness of their own",
                "what the broker takes is balanced, what the kernel reclaims at a limit is not",
            ),
        version => found("measured only").lesser(
            Grade::Missing,
            match version {
                Version::V1 => "root, or a group owned by this user",
                Version::V2 => "Linux 6.9, and a delegated group",
            },
            "the kernel alone chooses between file pages and other memory",
        ),
    }
}

fn by_costs(waits: bool) -> Capability {
    if waits {
        return Capability::best("balance", "memory.swappiness, by the waits of programs");
    }
    Capability::best("balance", "memory.swappiness, by the read times of devices").lesser(
        Grade::Fallback,
        "CAP_NET_ADMIN and `sysctl kernel.task_delayacct=1`; programs started after it are counted",
        "with swap and files on one disk, both kinds of pages seem to cost the same",
    )
}

/// Whether the kernel shows how long programs waited.
fn counts_waits() -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    stalls::is_switched_on() && Taskstats::open().and_then(|mut t| t.process(own)).is_ok()
}

/// Whether file pages of other programs may be held in memory.
pub(super) fn pin() -> Capability {
    let found = |tier: String| Capability::best("pin", tier);
    let pageable = Domain::of_self().and_then(|mut domain| {
        let reading = domain.read()?;
        domain.pageable(&reading)
    });
    if pageable.is_ok_and(|bytes| bytes == Bytes::ZERO) {
        return found("refused: nothing can be swapped".into()).lesser(
            Grade::Missing,
            "a swap file or zram, and a group that may use it",
            "with files held and nowhere to swap, a shortage of memory would end in the kernel killing a \
             program; so none are held",
        );
    }
    match (lockable(), opens_mapped()) {
        (None, true) => found("mlock of mapped files".into()),
        (Some(bytes), _) => found(format!("mlock of at most {} KiB", bytes.0 / 1024)).lesser(
            if bytes == Bytes::ZERO {
                Grade::Missing
            } else {
                Grade::Fallback
            },
            "`LimitMEMLOCK=infinity` in the unit, or CAP_IPC_LOCK",
            "no more than that can be held",
        ),
        (None, false) => found("mlock of files by their paths".into()).lesser(
            Grade::Fallback,
            "CAP_CHECKPOINT_RESTORE",
            "files that were replaced or deleted, or that their program's user may not read, are not held",
        ),
    }
}

/// Whether the very file of a mapping can be named.
fn opens_mapped() -> bool {
    let mapped = std::fs::read_dir("/proc/self/map_files")
        .into_iter()
        .flatten();
    let Some(first) = mapped.flatten().next() else {
        return false;
    };
    rustix::fs::open(first.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told() {
        assert!(by_costs(true).best);
        let devices = by_costs(false);
        assert!(devices.works && !devices.best && devices.needs.contains("task_delayacct"));
    }

    #[test]
    fn this_machine_is_asked() {
        let swaps = swap::spaces().is_ok_and(|spaces| !spaces.is_empty());
        let (balance, pin) = (balance(), pin());
        assert!(swaps || !balance.works, "{balance:?}");
        assert!(swaps || !pin.works, "{pin:?}");
    }
}
