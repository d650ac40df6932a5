//! Simulations that are kept in `bench/out` from one run of the measurement to the next: by the sources that
//! made them, so that none is used that these would not make again.

use crate::harness::programs::sibling;
use crate::report::results::{commit, root};
use crate::runner::out;
use crate::{Error, Result};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources that simulations depend on.
const SIMULATORS: [&str; 5] = [
    "Cargo.lock",
    "crates/lab/src",
    "crates/policy/src",
    "crates/sim/src",
    "crates/trace/src",
];

/// Git's names of these files and folders in the commit that this program was built from. `None` where they
/// have changes since, or there is no git: then nobody knows what they are.
pub(super) fn sources(paths: &[&str]) -> Option<String> {
    let commit = commit();
    let commit = commit.strip_suffix("-dirty").unwrap_or(&commit);
    git(&[&["diff", "--quiet", commit, "--"][..], paths].concat())?;
    let trees: Vec<String> = paths.iter().map(|it| format!("{commit}:{it}")).collect();
    let trees: Vec<&str> = trees.iter().map(String::as_str).collect();
    let names = git(&[&["rev-parse"][..], &trees].concat())?;
    Some(names.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Git's answer in the checkout; `None` where it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("--no-optional-locks").arg("-C").arg(root());
    let out = command.args(arguments).output().ok()?;
    out.status
        .success()
        .then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Simulations of a trace, in files from which `plimsoll sim` goes on where it was interrupted.
#[derive(Debug)]
pub(super) struct Kept {
    folder: Option<PathBuf>,
    trace: u64,
}

impl Kept {
    /// The kept simulations of this trace. Those of other sources are removed.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub(super) fn of(trace: &Path) -> Result<Kept> {
        let all = out("simulations");
        // With the program itself: it may be older than the sources, or be of others.
        let program = content(&sibling("plimsoll")).ok();
        let made_of = sources(&SIMULATORS).zip(program);
        let folder = made_of.map(|made_of| all.join(format!("{:016x}", hash(made_of))));
        if let Some(folder) = &folder {
            for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
                if *folder != entry.path() {
                    // A folder that cannot be removed takes room, and does no other harm.
                    let _ = fs::remove_dir_all(entry.path());
                }
            }
            fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        }
        let trace = content(trace).map_err(Error::file("read", trace))?;
        Ok(Kept { folder, trace })
    }

    /// The file of a sweep with these arguments, if it can be kept.
    pub(super) fn file(&self, program: &str, arguments: &[String]) -> Option<PathBuf> {
        let number = hash((self.trace, arguments));
        let name = format!("{program}-{number:016x}.parquet");
        Some(self.folder.as_ref()?.join(name))
    }
}

/// A number of all that is in a file.
fn content(path: &Path) -> std::io::Result<u64> {
    let mut file = BufReader::with_capacity(1 << 20, fs::File::open(path)?);
    let (mut hasher, mut bytes) = (DefaultHasher::new(), vec![0; 1 << 20]);
    loop {
        let length = file.read(&mut bytes)?;
        if length == 0 {
            return Ok(hasher.finish());
        }
        hasher.write(&bytes[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::folder::Folder;

    #[test]
    fn files_are_told_apart_by_trace_and_arguments() {
        let folder = Folder::new("kept").unwrap();
        let path = folder.path().join("t");
        let kept = |text: &str| {
            fs::write(&path, text).unwrap();
            Kept {
                folder: Some(PathBuf::from("x")),
                trace: content(&path).unwrap(),
            }
        };
        let (one, other) = (kept("abc"), kept("abd"));
        let arguments = ["-q".to_owned(), "10us".to_owned()];
        let file = one.file("bank", &arguments);
        assert_eq!(file, kept("abc").file("bank", &arguments));
        assert_ne!(file, other.file("bank", &arguments));
        assert_ne!(file, one.file("bank", &arguments[..1]));
        let unknown = Kept {
            folder: None,
            ..one
        };
        assert_eq!(unknown.file("bank", &arguments), None);
    }

    #[test]
    fn sources_are_known_by_their_content_or_not_at_all() {
        assert_eq!(sources(&["no/such/file"]), None);
        for path in SIMULATORS {
            assert!(root().join(path).exists(), "{path}");
        }
        if let Some(made_of) = sources(&SIMULATORS) {
            assert_eq!(made_of.split(' ').count(), SIMULATORS.len());
        }
    }
}
