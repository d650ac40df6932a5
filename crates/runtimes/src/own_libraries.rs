//! Where our own libraries for programs are.

use std::path::{Path, PathBuf};

/// The library `built` beside `program`, which is ours (in a build tree), or `installed` below
/// `lib/plimsoll` of the place of installation.
pub(crate) fn library(program: &Path, built: &str, installed: &str) -> Option<PathBuf> {
    let beside = program.parent()?;
    let place = beside.parent().map(|prefix| prefix.join("lib/plimsoll"));
    let places = [
        Some(beside.join(built)),
        place.map(|place| place.join(installed)),
    ];
    places.into_iter().flatten().find(|path| path.is_file())
}
