//! Programs on the Boehm-Demers-Weiser collector (bdwgc), or on our drop-in for it.

use crate::candidate::Candidate;
use crate::command::Command;
use crate::elf::{self, Image};
use crate::recognise::Recognise;
use std::path::Path;

/// The library name that programs were linked with.
pub const NEEDED: &str = "libgc.so.1";
/// The drop-in's file name in a build tree.
pub const BUILT: &str = "libplimsoll_gc.so";

/// Programs that use the collector as a library.
#[derive(Clone, Copy, Debug)]
pub struct LibGc;

impl Recognise for LibGc {
    fn name(&self) -> &'static str {
        "libgc"
    }

    fn starts(&self, command: &Command<'_>) -> bool {
        let file = command.executable();
        file.is_some_and(|file| elf::needs(file, NEEDED))
    }

    fn runs(&self, process: &Candidate<'_>) -> bool {
        process.names().any(is_library)
            || process.names().any(is_bundled) && self.image(process).is_some()
    }
}

impl LibGc {
    /// The collector in a process.
    pub fn image(self, process: &Candidate<'_>) -> Option<Image> {
        image_named(process, is_library).or_else(|| image_named(process, is_bundled))
    }
}

fn image_named(process: &Candidate<'_>, is: fn(&str) -> bool) -> Option<Image> {
    let is_named = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(is)
    };
    Image::of(process, is_named).filter(has_collector)
}

/// Programs that the collector was linked into, so that it cannot be replaced.
#[derive(Clone, Copy, Debug)]
pub struct LinkedLibGc;

impl Recognise for LinkedLibGc {
    fn name(&self) -> &'static str {
        "libgc-linked"
    }

    fn runs(&self, process: &Candidate<'_>) -> bool {
        self.image(process).is_some()
    }
}

impl LinkedLibGc {
    /// The collector in a process.
    pub fn image(self, process: &Candidate<'_>) -> Option<Image> {
        Image::of_executable(process).filter(has_collector)
    }
}

fn has_collector(image: &Image) -> bool {
    image.exported("GC_malloc").is_some()
}

/// Whether a file of this name is a libgc: the system's of any version, or the drop-in, as
/// installed or as built.
fn is_library(name: &str) -> bool {
    let name = without_mark(name);
    name.starts_with("libgc.so.") || name == "libgc.so" || name == BUILT
}

/// Whether a file of this name may be a libgc that a package brings along under a name of its own
/// (`libgc-1a2b3c4d.so.1.5.1`). Other libraries begin in the same way, so the name alone proves nothing.
fn is_bundled(name: &str) -> bool {
    name.starts_with("libgc-")
}

/// A name without the kernel's mark of a file that was deleted.
fn without_mark(name: &str) -> &str {
    name.trim_end_matches(" (deleted)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::{mapping, mappings};
    use plimsoll_kernel::mounts::Mounts;
    use plimsoll_kernel::process::Process;
    use plimsoll_kernel::smaps::Area;
    use plimsoll_testbed::skip;
    use std::sync::Arc;

    /// This process, as if it had these mappings.
    fn recognised(mappings: &[Area]) -> bool {
        let mounts = Arc::new(Mounts::of(&Process::own().unwrap()).unwrap());
        let own = Candidate::seen(std::process::id(), Path::new(""), &mounts, mappings);
        assert_eq!(LibGc.image(&own).is_some(), LibGc.runs(&own));
        LibGc.runs(&own)
    }

    #[test]
    fn the_library_s_own_name_is_enough() {
        let has = |name: &str| {
            let mappings = mappings(&[name]);
            LibGc.runs(&Candidate::seen(
                0,
                Path::new(""),
                &Arc::default(),
                &mappings,
            ))
        };
        for name in [
            "/a/libgc.so.1",
            "/a/libgc.so.1.5.1 (deleted)",
            "/a/libgc.so",
        ] {
            assert!(has(name), "{name}");
        }
        for name in ["/a/libgccpp.so.1", "/a/libgc-0a1b2c3d.so.1.5.1"] {
            assert!(!has(name), "{name}");
        }
    }

    #[test]
    fn a_name_that_others_have_too_counts_with_the_collector_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let copied = |from: &Path, name: &str| {
            let to = dir.path().join(name);
            std::fs::copy(from, &to).unwrap();
            mapping(&to)
        };
        let other = copied(&std::env::current_exe().unwrap(), "libgc-tools.so");
        assert!(!recognised(std::slice::from_ref(&other)));
        let places = elf::PLACES.map(|place| Path::new(place).join(NEEDED));
        let Some(library) = places.iter().find(|path| path.is_file()) else {
            return skip(format_args!("{NEEDED} is not installed"));
        };
        assert!(recognised(&[copied(library, "libgc-0a1b2c3d.so.1.5.1")]));
        assert!(recognised(&[other, copied(library, "libgc.so.1")]));
    }
}
