//! This library, as cargo built it, under the name that programs look for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Its path.
pub(crate) fn built() -> PathBuf {
    find("libplimsoll_gc.so")
}

/// The path of a library that cargo built with the tests.
pub(crate) fn find(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("tests know where they are");
    let built = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|place| place.join(name))
        .find(|library| library.exists())
        .expect("cargo builds the library with its tests");
    fs::canonicalize(built).expect("it exists")
}

/// Links it into a directory as `libgc.so.1`. Concurrent tests may do so for the same directory, also in
/// another process.
pub(crate) fn link(directory: &Path) {
    link_to(directory, &built());
}

/// The same for one of the libraries that cargo built.
pub(crate) fn link_to(directory: &Path, library: &Path) {
    static ONCE: Mutex<()> = Mutex::new(());
    let _alone = ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = fs::create_dir(directory);
    let name = directory.join("libgc.so.1");
    if fs::read_link(&name).is_ok_and(|there| there == library) {
        return;
    }
    let draft = directory.join(format!("libgc-{}", std::process::id()));
    let _ = fs::remove_file(&draft);
    symlink(library, &draft).expect("a link");
    fs::rename(draft, name).expect("a link");
}
