//! Variants that run on another machine: a guest with cgroup version 2. It runs this program too, which makes
//! one run of one variant there and prints the outcome.

use super::Runner;
use crate::harness::ground::swap_folder;
use crate::progress::Progress;
use crate::{Error, Result};
use plimsoll_testbed::guest::{Guest, Kind, NoAnswer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The end of the name of a variant that runs under cgroup version 2, beside the same variant here.
pub const V2: &str = ", v2";
/// The beginning of the line that holds the guest's answer.
const ANSWER: &str = "measured inside: ";
/// How long to wait for the guest. An emulated processor takes ten times as long as this machine's.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The number of guests so far: each has a folder of its own, since lanes boot several at once.
static GUESTS: AtomicUsize = AtomicUsize::new(0);

/// A guest that boots for each run of a variant.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    kind: Kind,
    files: Vec<PathBuf>,
}

impl Elsewhere {
    /// User-mode Linux on the files of this machine. It has one processor.
    pub fn user_mode() -> Elsewhere {
        Elsewhere {
            kind: Kind::UserMode,
            files: Vec::new(),
        }
    }

    /// An emulated machine, to which these files are copied.
    pub fn emulated(files: Vec<PathBuf>) -> Elsewhere {
        Elsewhere {
            kind: Kind::Emulated,
            files,
        }
    }

    /// Has a variant run there once, and returns the outcome.
    ///
    /// # Errors
    /// [`Error::Guest`] if the guest gives none.
    pub(super) fn ask<O: DeserializeOwned>(
        &self,
        runner: &Runner,
        variant: &str,
        progress: &Progress,
    ) -> Result<O> {
        let own = Path::new("/proc/self/exe");
        let program = std::env::current_exe().map_err(Error::file("read", own))?;
        let arguments = format!("{} --repeat 1 --inside {}", runner.name(), word(variant));
        let name = format!("guest-bench-{}", GUESTS.fetch_add(1, Relaxed));
        let scratch = swap_folder();
        let files: Vec<&Path> = self.files.iter().map(PathBuf::as_path).collect();
        let guest = Guest {
            kind: self.kind,
            name: &name,
            scratch: &scratch,
            program: &program,
            arguments: &arguments,
            files: &files,
            patience: PATIENCE,
        };
        let progress = progress.part("in the guest");
        let said = guest.run(&mut |last| progress.tell(format_args!("{last}")));
        let _ = std::fs::remove_dir_all(scratch.join(&name));
        let said = said.map_err(|e| match e {
            NoAnswer::Missing(what) | NoAnswer::Failed(what) => Error::Guest(what),
        })?;
        let answer = said.split_once(ANSWER).map(|(_, rest)| rest);
        let answer = answer.and_then(|rest| rest.lines().next());
        let answer = answer.ok_or_else(|| Error::Guest(format!("it gave no figures: {said}")))?;
        serde_json::from_str(answer).map_err(|e| Error::Guest(format!("its figures: {e}")))
    }
}

/// Prints the outcome of a run for the machine that asked.
pub(super) fn answer<O: Serialize>(outcome: &O) {
    let outcome = serde_json::to_string(outcome).expect("text and numbers");
    println!("\n{ANSWER}{outcome}");
}

/// The name of a variant as one word: the guest's command line is cut at blanks.
pub(super) fn word(variant: &str) -> String {
    variant.replace(' ', "_")
}
