//! Machines that the agent is not loaded into.

use crate::hotspot::flags::Given;
use crate::hotspot::machine::Flags;

/// Options of a machine that writes an archive or a checkpoint of itself and of nothing else.
const WRITES_ITSELF: [&str; 7] = [
    "-Xshare:dump",
    "-XX:ArchiveClassesAtExit",
    "-XX:AOTMode=record",
    "-XX:AOTMode=create",
    "-XX:AOTConfiguration",
    "-XX:AOTCacheOutput",
    "-XX:CRaCCheckpointTo",
];

/// Why a machine that is started with these options is not given the agent.
pub fn refused_at_start(given: &Given) -> Option<&'static str> {
    if given.has(&WRITES_ITSELF) {
        return Some("it writes an archive or a checkpoint of itself");
    }
    if given.last("-agentpath:").is_some_and(is_ours) {
        return Some("the command line loads it");
    }
    None
}

fn is_ours(option: &str) -> bool {
    let path = option.split('=').next().unwrap_or(option);
    path.ends_with(super::LIBRARY)
}

/// Why the agent is not loaded into a running machine with these flags.
pub(super) fn refused_by(flags: &Flags) -> Option<&'static str> {
    if !flags.on_or("EnableDynamicAgentLoading", true) {
        return Some(
            "it was started with -XX:-EnableDynamicAgentLoading; start it by `plimsoll run` instead",
        );
    }
    None
}
