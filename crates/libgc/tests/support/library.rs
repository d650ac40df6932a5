//! Our library, as cargo built it, by the name that programs look for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Where it is.
pub(crate) fn built() -> PathBuf {
    let test = std::env::current_exe().expect("tests know where they are");
    let built = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|place| place.join("libplimsoll_gc.so"))
        .find(|library| library.exists())
        .expect("cargo builds the library with its tests");
    fs::canonicalize(built).expect("it exists")
}

/// Links it into a directory as `libgc.so.1`.
pub(crate) fn link(directory: &Path) {
    let _ = fs::create_dir(directory);
    let name = directory.join("libgc.so.1");
    let _ = fs::remove_file(&name);
    symlink(built(), name).expect("a link");
}
