//! Builds by cargo, for a test that needs more than its own package.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder in which cargo put this test's profile: programs and libraries are in it.
///
/// # Panics
/// When this is no test that cargo built.
#[must_use]
pub fn profile() -> PathBuf {
    let test = std::env::current_exe().ok();
    let profile = test
        .as_deref()
        .and_then(Path::parent)
        .and_then(Path::parent);
    profile.expect("cargo built this test").to_owned()
}

/// Runs `cargo build` in the folder of a package, in this test's profile. `arguments` say what to build.
///
/// # Panics
/// When it fails.
pub fn build(package: &Path, arguments: &[&str]) {
    let profile = profile();
    let name = if profile.ends_with("release") {
        "release"
    } else {
        "test"
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(package).args(["build", "--quiet"]);
    cargo.args(arguments).args(["--profile", name]);
    cargo.arg("--target-dir").args(profile.parent());
    assert!(
        cargo.status().is_ok_and(|status| status.success()),
        "{cargo:?}"
    );
}
