//! Puts the commit that the measurements are built from into `PLIMSOLL_COMMIT`: abbreviated, with `-dirty`
//! where tracked files differ from the commit, `unknown` outside of git. Cargo runs this script again
//! whenever `HEAD` moves or a tracked file changes.

use std::path::Path;
use std::process::Command;

/// Files that measurements write: recorded figures, and their tables in the README and the book. Changes to
/// them do not make the commit `-dirty`.
const WRITTEN: [&str; 3] = [":!bench/results", ":!README.md", ":!docs/src/figures.md"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=PLIMSOLL_COMMIT={commit}");
}

fn commit() -> Option<String> {
    // If the sources were unpacked inside another repository, that repository's commit says nothing about
    // them.
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    let head = git(&["rev-parse", "--short", "HEAD"])?;
    for path in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", path])?;
        println!("cargo:rerun-if-changed={}", root().join(path).display());
    }
    let files = git(&with(&["ls-files", "--"]))?;
    for file in files.lines() {
        println!("cargo:rerun-if-changed={}", root().join(file).display());
    }
    let changes = git(&with(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
    ]))?;
    Some(if changes.is_empty() {
        head
    } else {
        head + "-dirty"
    })
}

fn with<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &["."], &WRITTEN].concat()
}

fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Git's answer in the checkout; `None` if there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let out = Command::new("git")
        .arg("--no-optional-locks")
        .arg("-C")
        .arg(root())
        .args(arguments)
        .output()
        .ok()?;
    let answer = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| answer.trim_end().to_owned())
}
