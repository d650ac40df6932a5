//! Rights of this process.

use super::{Capability, Grade};
use crate::parse::{hexadecimal, lines};
use crate::reader::read_text;
use rustix::process::{Resource, getrlimit};
use std::path::Path;

/// Numbers of `linux/capability.h`.
const CAP_NET_ADMIN: u32 = 12;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_NICE: u32 = 23;
const CAP_SYS_RESOURCE: u32 = 24;

pub(super) fn probe() -> Vec<Capability> {
    let held = effective();
    let mut found = vec![
        capability(
            held,
            CAP_SYS_NICE,
            "cap-sys-nice",
            "cold pages are paged out by the kernel's choice only",
        ),
        capability(
            held,
            CAP_SYS_PTRACE,
            "cap-sys-ptrace",
            "only processes of the same user are seen in detail",
        ),
        capability(
            held,
            CAP_NET_ADMIN,
            "cap-net-admin",
            "stalls are told apart by group only",
        ),
        capability(
            held,
            CAP_SYS_RESOURCE,
            "cap-sys-resource",
            "pressure triggers have windows of 2 s",
        ),
    ];
    found.push(locked_memory(held));
    found
}

fn capability(held: Option<u64>, bit: u32, name: &'static str, costs: &'static str) -> Capability {
    if has(held, bit) {
        return Capability::best(name, "held");
    }
    let needs = format!(
        "root, or {} (`AmbientCapabilities=` in the unit)",
        name.replace('-', "_").to_uppercase()
    );
    Capability::best(name, "not held").lesser(Grade::Missing, needs, costs)
}

fn has(held: Option<u64>, bit: u32) -> bool {
    held.is_some_and(|set| set >> bit & 1 == 1)
}

/// The effective capabilities.
fn effective() -> Option<u64> {
    let mut text = Vec::new();
    read_text(Path::new("/proc/self/status"), 16 << 10, &mut text).ok()?;
    parse_effective(&text)
}

fn parse_effective(text: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| hexadecimal(line.strip_prefix(b"CapEff:")?.trim_ascii()))
}

/// With a bounded allowance later allocations would fail, so the broker then locks nothing.
fn locked_memory(held: Option<u64>) -> Capability {
    let limit = getrlimit(Resource::Memlock).current;
    let shown = match limit {
        None => "unlimited".to_owned(),
        Some(bytes) => format!("{} KiB", bytes / 1024),
    };
    let found = Capability::best("locked-memory", shown);
    if limit.is_none() || has(held, CAP_IPC_LOCK) {
        return found;
    }
    found.lesser(
        Grade::Fallback,
        "`LimitMEMLOCK=infinity` in the unit, or CAP_IPC_LOCK",
        "the broker may be paged out when memory is short",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read() {
        assert_eq!(
            parse_effective(b"Name:\tx\nCapEff:\t000001fffeffffff\n"),
            Some(0x1ff_feff_ffff)
        );
        assert_eq!(parse_effective(b"CapEff:\tzz\n"), None);
    }
}
