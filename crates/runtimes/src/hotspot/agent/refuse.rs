//! Machines that the agent is not loaded into.

use crate::hotspot::flags::Given;
use crate::hotspot::machine::Machine;

/// The versions that the agent is loaded into. It was tried in 11, 17, 21 and 25. Those between offer the
/// same interface to agents, and of their heaps only what it recognises is given back.
const VERSIONS: std::ops::RangeInclusive<u32> = 11..=25;

/// Why a machine of this version is not given the agent; `None` is a version that is not known.
pub fn refused_version(version: Option<u32>) -> Option<&'static str> {
    let is_known = version.is_some_and(|version| VERSIONS.contains(&version));
    (!is_known).then_some(
        "this version of Java is unknown, or not among 11 to 25 (of which 11, 17, 21 and 25 were tried)",
    )
}

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
    path.ends_with(super::install::LIBRARY)
}

/// Why the agent is not loaded into a running machine.
pub(super) fn refused_by(machine: &Machine) -> Option<&'static str> {
    if !machine.flags.on_or("EnableDynamicAgentLoading", true) {
        return Some(
            "it was started with -XX:-EnableDynamicAgentLoading; start it by `plimsoll run` instead",
        );
    }
    // 0: the machine did not tell.
    refused_version(Some(machine.version).filter(|&version| version > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hotspot::collector::Collector;
    use crate::hotspot::machine::Flags;

    #[test]
    fn only_versions_of_the_range_are_loaded_into() {
        let refused = |version| {
            let machine = Machine {
                version,
                collector: Collector::G1,
                flags: Flags::default(),
                heap: None,
            };
            refused_by(&machine)
        };
        for version in [11, 17, 21, 25] {
            assert_eq!(refused(version), None, "{version}");
        }
        for version in [0, 8, 10, 26, 99] {
            let why = refused(version).unwrap();
            assert!(why.contains("11 to 25"), "{version}: {why}");
        }
        assert!(refused_version(None).is_some());
    }
}
