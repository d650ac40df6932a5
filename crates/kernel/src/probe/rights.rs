//! Rights of this process.

use super::{Capability, Grade};
use crate::capabilities::{
    CAP_IPC_LOCK, CAP_NET_ADMIN, CAP_SYS_NICE, CAP_SYS_PTRACE, CAP_SYS_RESOURCE, effective, has,
};
use rustix::process::{Resource, getrlimit};

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
