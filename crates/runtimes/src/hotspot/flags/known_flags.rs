//! Which flags a build of the machine knows. Their names are in its library, for every version and
//! vendor.

use super::given::name;
use plimsoll_programs::elf::Elf;
use std::collections::BTreeSet;
use std::path::Path;

/// All flags that we may add, without `-XX:`.
const ADDED: [&str; 15] = [
    "SoftMaxHeapSize",
    "ShenandoahSoftMaxHeapSize",
    "ShrinkHeapInSteps",
    "MarkSweepDeadRatio",
    "NewRatio",
    "UseAdaptiveSizePolicyWithSystemGC",
    "ExplicitGCInvokesConcurrent",
    "GCTimeRatio",
    "UnlockExperimentalVMOptions",
    "G1ExpandByPercentOfAvailable",
    "G1MaxNewSizePercent",
    "ZUncommitDelay",
    "ZProactive",
    "ShenandoahUncommitDelay",
    "ShenandoahLearningSteps",
];
/// The section that holds constant text.
const TEXT: &str = ".rodata";

/// Those of the flags we may add that one build knows. Empty if nothing is known about the build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known(BTreeSet<&'static str>);

impl Known {
    /// The flags that this `libjvm.so` knows. Reads about a megabyte.
    pub fn of(library: &Path) -> Known {
        let text = Elf::at(library)
            .and_then(|file| file.contents(TEXT))
            .unwrap_or_default();
        // Only whole strings count. A linker may merge a string into the end of a longer one, but
        // such an ending does not prove that the flag exists.
        let whole = |word: &[u8]| ADDED.into_iter().find(|flag| word == flag.as_bytes());
        Known(text.split(|&byte| byte == 0).filter_map(whole).collect())
    }

    /// Whether the build takes this option. Every build takes the options without `-XX:` that we
    /// add.
    pub fn has(&self, option: &str) -> bool {
        name(option).is_none_or(|flag| self.0.contains(flag))
    }

    /// Every flag that may be added.
    #[cfg(test)]
    pub fn all() -> Known {
        Known(ADDED.into())
    }

    /// All flags but these.
    #[cfg(test)]
    pub fn without(mut self, flags: &[&str]) -> Known {
        self.0.retain(|flag| !flags.contains(flag));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_they_stand_in_a_library() {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("libjvm.so");
        let text = b"\0NewRatio\0\0G1MaxNewSizePercent is\0MyZProactive\0ZUncommitDelay\0";
        std::fs::write(
            &library,
            plimsoll_testbed::elf::with_sections(&[(".rodata", text)]),
        )
        .unwrap();
        let known = Known::of(&library);
        for flag in ["-XX:NewRatio=1", "-XX:ZUncommitDelay=1", "-Xmx1g"] {
            assert!(known.has(flag), "{flag}");
        }
        for flag in [
            "-XX:G1MaxNewSizePercent=80",
            "-XX:SoftMaxHeapSize=1",
            "-XX:Ratio=1",
            "-XX:-ZProactive",
        ] {
            assert!(!known.has(flag), "{flag}");
        }
        assert_eq!(Known::of(dir.path()), Known::default());
    }
}
