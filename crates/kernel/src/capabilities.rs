//! The capabilities of this process: `/proc/self/status`. Source: `capabilities(7)`.

use crate::parse::{hexadecimal, lines};
use crate::reader::read_text;
use std::path::Path;

/// Numbers of `linux/capability.h`.
pub const CAP_NET_ADMIN: u32 = 12;
/// Memory may be locked without a limit.
pub const CAP_IPC_LOCK: u32 = 14;
/// Processes of other users may be looked into.
pub const CAP_SYS_PTRACE: u32 = 19;
/// Most of what an administrator may do.
pub const CAP_SYS_ADMIN: u32 = 21;
/// Memory of other processes may be advised on.
pub const CAP_SYS_NICE: u32 = 23;
/// Limits of resources do not count.
pub const CAP_SYS_RESOURCE: u32 = 24;
/// Programs may be measured.
pub const CAP_PERFMON: u32 = 38;
/// Programs for the kernel may be loaded.
pub const CAP_BPF: u32 = 39;

/// The effective capabilities, a bit each; `None` where they cannot be read.
pub fn effective() -> Option<u64> {
    let mut text = Vec::new();
    read_text(Path::new("/proc/self/status"), 16 << 10, &mut text).ok()?;
    parse_effective(&text)
}

/// Whether this process has a capability. False if it cannot be read.
pub fn holds(capability: u32) -> bool {
    has(effective(), capability)
}

/// Whether a set that was read has a capability.
pub fn has(held: Option<u64>, capability: u32) -> bool {
    held.is_some_and(|set| set >> capability & 1 == 1)
}

fn parse_effective(text: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| hexadecimal(line.strip_prefix(b"CapEff:")?.trim_ascii()))
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
        assert!(has(Some(1 << CAP_IPC_LOCK), CAP_IPC_LOCK));
        assert!(!has(Some(1 << CAP_IPC_LOCK), CAP_SYS_NICE) && !has(None, CAP_IPC_LOCK));
        assert!(effective().is_some());
    }
}
