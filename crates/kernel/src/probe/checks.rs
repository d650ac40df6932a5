//! Interfaces of the kernel, each called once.

use super::{Capability, Grade};
use crate::advise::{Advice, advise_ranges};
use crate::cgroup::{Cgroup, Version};
use crate::pages::{PageMap, Tier};
use crate::pressure::{MACHINE, Psi, Threshold, Trigger};
use crate::process::{Process, page_size};
use crate::reader::Reader;
use crate::stalls::{Declined, Stalls, Tier as StallTier};
use crate::{Error, referenced, swap};
use plimsoll_unit::{Bytes, Nanos};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::path::Path;

const ABSENT: &str = "not there";

/// Our group, if there is one.
fn own_group() -> Option<Cgroup> {
    Cgroup::of_self().ok().flatten()
}

pub(super) fn cgroup() -> Capability {
    let found = |tier: String| Capability::best("cgroup", tier);
    match Cgroup::of_self() {
        Ok(Some(group)) => {
            let version = if group.version() == Version::V2 { 2 } else { 1 };
            found(format!("version {version}, {}", group.dir().display()))
        }
        Ok(None) => found(ABSENT.into()).lesser(
            Grade::Fallback,
            "a kernel with the memory controller, mounted at /sys/fs/cgroup",
            "the machine's memory is the only bound; nobody can be held to a limit",
        ),
        Err(e) => found(e.to_string()).lesser(
            Grade::Missing,
            "a readable /proc and /sys/fs/cgroup",
            "limits of containers are not seen",
        ),
    }
}

/// Whether groups can be made below ours.
pub(super) fn cgroup_write() -> Capability {
    let found = |tier: &str| Capability::best("cgroup-write", tier);
    let costs =
        "programs share our group; the last rungs (taking bytes, shrinking limits) are missing";
    let Some(group) = own_group() else {
        return found(ABSENT).lesser(Grade::Missing, "a memory controller", costs);
    };
    let may = |file: &str| {
        accessat(
            CWD,
            group.dir().join(file),
            Access::WRITE_OK,
            AtFlags::EACCESS,
        )
        .is_ok()
    };
    if !may("cgroup.procs")
        || accessat(CWD, group.dir(), Access::WRITE_OK, AtFlags::EACCESS).is_err()
    {
        let needs = "root, or a delegated group";
        return found("read only").lesser(Grade::Missing, needs, costs);
    }
    if !group.may_have_limited_children().unwrap_or(false) {
        let needs = "a group that holds no processes itself, or that holds nothing but us";
        return found("processes in our group").lesser(Grade::Missing, needs, costs);
    }
    found("groups may be made below ours")
}

pub(super) fn reclaim() -> Capability {
    let found = |tier: &str| Capability::best("reclaim", tier);
    let costs = "bytes come back only when the kernel itself runs short";
    let Some(group) = own_group() else {
        return found(ABSENT).lesser(Grade::Missing, "a memory controller", costs);
    };
    let may = |file: &str| {
        accessat(
            CWD,
            group.dir().join(file),
            Access::WRITE_OK,
            AtFlags::EACCESS,
        )
        .is_ok()
    };
    match group.version() {
        Version::V2 if may("memory.reclaim") => found("memory.reclaim"),
        Version::V2 if group.dir().join("memory.max").exists() => found("memory.max").lesser(
            Grade::Missing,
            "Linux 5.19 or newer, and a delegated group",
            costs,
        ),
        Version::V2 => found("memory.reclaim in groups below"),
        Version::V1 if may("memory.limit_in_bytes") => found("limit dip").lesser(
            Grade::Fallback,
            "cgroup version 2 with Linux 5.19",
            "the limit is low for a moment at each step of 16 MiB",
        ),
        Version::V1 => {
            found("read only").lesser(Grade::Missing, "root, or a group owned by this user", costs)
        }
    }
}

pub(super) fn warning() -> Capability {
    let found = |tier: &str| Capability::best("warning", tier);
    let Some(group) = own_group() else {
        return found("polling /proc/meminfo");
    };
    if group.version() == Version::V2 {
        return found("polling memory.current");
    }
    // The threshold is beyond any usage, so it never fires. It goes with its descriptor.
    match Threshold::set(&group, Bytes(1 << 61)) {
        Ok(_threshold) => found("usage threshold (cgroup.event_control)"),
        Err(_) => found("polling memory.usage_in_bytes").lesser(
            Grade::Fallback,
            "root, or a group owned by this user",
            "up to 0.06 % of one processor while memory is short",
        ),
    }
}

pub(super) fn page_states() -> Capability {
    let found = |tier: &str| Capability::best("pagemap-scan", tier);
    match Process::own().and_then(|own| PageMap::open(&own)) {
        Ok(map) if map.tier() == Tier::Scan => found("PAGEMAP_SCAN"),
        Ok(_) => found("pagemap words").lesser(
            Grade::Fallback,
            "Linux 6.7",
            "looking takes 10 ms per GiB instead of 1",
        ),
        Err(e) => found(&e.to_string()).lesser(
            Grade::Missing,
            "a readable /proc/PID/pagemap",
            "cold pages cannot be chosen",
        ),
    }
}

/// Advises on a page of our own. That needs no right, so the right is probed separately
/// (`cap-sys-nice`).
pub(super) fn page_out() -> Capability {
    let found = |tier: &str| Capability::best("page-out", tier);
    let costs = "the kernel chooses, hot pages may go first";
    let address = {
        static PAGE: [u8; 1] = [0];
        PAGE.as_ptr() as u64 / page_size() * page_size()
    };
    let one = address..address + page_size();
    match Process::open(own_pid()).and_then(|own| advise_ranges(&own, Advice::Cold, &[one])) {
        Ok(_) => found("process_madvise"),
        Err(e @ Error::Unsupported { .. }) => {
            found(ABSENT).lesser(Grade::Missing, e.to_string(), costs)
        }
        Err(e) => found(&e.to_string()).lesser(
            Grade::Missing,
            "Linux 5.10; a container profile that allows process_madvise",
            costs,
        ),
    }
}

pub(super) fn working_set() -> Capability {
    let found = |tier: &str| Capability::best("working-set", tier);
    let costs = "shares follow what programs hold, not what they use; shared memory cannot be divided fairly";
    match referenced::is_noted() {
        Ok(true) => found("clear_refs and smaps_rollup"),
        Ok(false) => found("the kernel does not note which pages are used").lesser(
            Grade::Missing,
            "a kernel that notes it: user-mode Linux 6.1 does not",
            costs,
        ),
        Err(e) => found(&e.to_string()).lesser(
            Grade::Missing,
            "Linux 4.14 with CONFIG_PROC_PAGE_MONITOR",
            costs,
        ),
    }
}

/// The number of this process. It is opened as other processes are, and not by [`Process::own`]: the broker
/// opens programs by their numbers, also where calls are filtered.
fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Our own process stands for the programs that will be started.
pub(super) fn stalls() -> Capability {
    match Stalls::open(own_pid()) {
        Ok(stalls) => stalls_by(stalls.tier(), stalls.declined()),
        Err(e) => Capability::best("stalls", e.to_string()).lesser(
            Grade::Missing,
            "a readable /proc",
            "nothing tells which program waits for memory",
        ),
    }
}

fn stalls_by(tier: StallTier, declined: &[(StallTier, Declined)]) -> Capability {
    let found = Capability::best("stalls", tier.name());
    let costs = match tier {
        StallTier::DelayAccounting => return found,
        StallTier::Reclaim => {
            "stalls of the past are not known, and each reclaim on the machine takes a little longer"
        }
        StallTier::ReclaimCount => "how long stalls took is not known, nor stalls of the past",
        StallTier::Pressure => {
            "stalls of one program are not told from its neighbours' in the group, nor from reads of swap"
        }
        StallTier::MajorFaults => "stalls are taken from the reads of swap that follow them",
    };
    let needs = declined
        .first()
        .map_or_else(String::new, |(_, why)| why.to_string());
    found.lesser(Grade::Fallback, needs, costs)
}

pub(super) fn pressure() -> Capability {
    let found = |tier: &str| Capability::best("pressure", tier);
    let costs = "stalls are seen through faults only";
    match Psi::open(Path::new(MACHINE)) {
        Err(_) => found(ABSENT).lesser(
            Grade::Missing,
            "`psi=1` on the kernel's command line",
            costs,
        ),
        Ok(_) => match Trigger::some(Path::new(MACHINE), Nanos::millis(150), Nanos::millis(1000)) {
            Ok(_) => found("/proc/pressure/memory with triggers"),
            Err(_) => {
                match Trigger::some(Path::new(MACHINE), Nanos::millis(150), Nanos::millis(2000)) {
                    Ok(_) => found("triggers of 2 s").lesser(
                        Grade::Fallback,
                        "CAP_SYS_RESOURCE",
                        "the signal is up to 2 s late",
                    ),
                    Err(_) => found("totals only").lesser(
                        Grade::Fallback,
                        "CAP_SYS_RESOURCE, or Linux 6.4",
                        "totals are polled",
                    ),
                }
            }
        },
    }
}

pub(super) fn swap() -> Capability {
    let found = |tier: String| Capability::best("swap", tier);
    let spaces = swap::spaces().unwrap_or_default();
    if spaces.is_empty() {
        return found("none".into()).lesser(
            Grade::Missing,
            "a swap file or zram",
            "programs without an adapter cannot be made smaller; in a full group one is killed",
        );
    }
    let size: Bytes = spaces.iter().map(|s| s.size).sum();
    found(format!("{} MiB in {} spaces", size.0 >> 20, spaces.len()))
}

pub(super) fn aging() -> Capability {
    let found = |tier: &str| Capability::best("lru", tier);
    let enabled = Reader::open("/sys/kernel/mm/lru_gen/enabled").and_then(|reader| {
        let mut buffer = [0; 32];
        Ok(is_switched_on(reader.read(&mut buffer)?))
    });
    // Neither setting is better for us. It affects the time between the limit and the first
    // eviction.
    match enabled {
        Ok(true) => found("multi-generational"),
        Ok(false) => found("active and inactive lists (multi-generational is off)"),
        Err(_) => found("active and inactive lists"),
    }
}

/// Whether this text says that the multi-generational LRU is on: the lowest bit of its number. The others are
/// what else this processor can do for it: 0x0007 on x86-64, 0x0003 or 0x0001 elsewhere.
fn is_switched_on(text: &[u8]) -> bool {
    let digit = text.trim_ascii().last();
    digit.is_some_and(|digit| b"1357".contains(digit))
}

pub(super) fn children() -> Capability {
    let found = |tier: &str| Capability::best("children", tier);
    let own = rustix::process::getpid().as_raw_nonzero().get();
    if Path::new(&format!("/proc/{own}/task/{own}/children")).exists() {
        return found("/proc/PID/task/TID/children");
    }
    found("parents of all processes").lesser(
        Grade::Fallback,
        "CONFIG_PROC_CHILDREN",
        "looking takes 20 us for each process of the machine",
    )
}

pub(super) fn page() -> Capability {
    Capability::best("page-size", format!("{} bytes", page_size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_bit_switches_the_multi_generational_lru() {
        for on in ["0x0007\n", "0x0003\n", "0x0001\n"] {
            assert!(is_switched_on(on.as_bytes()), "{on}");
        }
        for off in ["0x0000\n", "0x0006\n", ""] {
            assert!(!is_switched_on(off.as_bytes()), "{off}");
        }
    }

    #[test]
    fn the_tier_of_the_stall_signal_is_told() {
        assert!(stalls_by(StallTier::DelayAccounting, &[]).best);
        let off = [(StallTier::DelayAccounting, Declined::SwitchedOff)];
        for tier in StallTier::ALL.into_iter().skip(1) {
            let found = stalls_by(tier, &off);
            assert!(
                found.works && !found.best && found.needs.contains("sysctl"),
                "{found:?}"
            );
        }
        assert!(stalls().works);
    }
}
