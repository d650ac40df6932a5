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
    }
}

impl LibGc {
    /// The collector in a process.
    pub fn image(self, process: &Candidate<'_>) -> Option<Image> {
        let is_named = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(is_library)
        };
        Image::of(process, is_named).filter(has_collector)
    }
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
    let name = name.trim_end_matches(" (deleted)");
    let is_versioned = ["libgc.so.", "libgc-"]
        .iter()
        .any(|start| name.starts_with(start));
    is_versioned || name == "libgc.so" || name == BUILT
}
