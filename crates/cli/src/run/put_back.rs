//! Flags and scheduling parameters of programs whose adapter was killed: the next of our commands that steers
//! puts them back.

use plimsoll_client::{Socket, Surroundings};
use plimsoll_kernel::notes::{About, Notes};
use plimsoll_runtimes::hotspot::release;
use plimsoll_runtimes::process::Process;
use std::fs::DirBuilder;
use std::io::empty;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::info;

/// The folder of notes, below that of the user's own broker.
const FOLDER: &str = "undo";

/// Where is noted what to put back: beside the socket that the environment names, else in the user's own
/// folder. `None` where that cannot be had.
pub(super) fn notes() -> Option<Arc<Notes>> {
    let opened = |folder: &Path| {
        // It may be there, with a broker.
        let _ = DirBuilder::new().mode(0o700).create(folder);
        let _ = DirBuilder::new().mode(0o700).create(folder.join(FOLDER));
        Notes::open(&folder.join(FOLDER)).ok()
    };
    folders().iter().find_map(|it| opened(it)).map(Arc::new)
}

/// The folders that are the user's, the best first.
fn folders() -> Vec<PathBuf> {
    let around = Surroundings::of_self();
    let named = around.socket.is_some();
    let is_own = |folder: &Path| {
        let found = folder.metadata();
        found.is_ok_and(|it| it.uid() == around.uid && it.mode() & 0o022 == 0)
    };
    let candidates = Socket::candidates(&around);
    let parents = candidates.iter().filter_map(|it| it.path().parent());
    let usable = parents.filter(|folder| !named || is_own(folder));
    usable.map(Path::to_owned).collect()
}

/// Puts back what killed processes of ours left.
pub(crate) fn put_back() {
    let folders = folders().into_iter();
    let opened = folders.filter_map(|folder| Notes::open(&folder.join(FOLDER)).ok());
    let left = opened.flat_map(|notes| notes.left().unwrap_or_default());
    for (about, text, note) in left {
        match undone(&about, &text) {
            Some(true) => info!(
                "process {}: what an adapter that was killed had set is put back",
                about.pid
            ),
            // The process is gone.
            None => {}
            Some(false) => note.leave(),
        }
    }
}

/// Whether it could be done; `None` if there is nothing to do.
fn undone(about: &About, text: &str) -> Option<bool> {
    let process = Process::new(about.pid).ok()?;
    if process.started != about.started {
        return None;
    }
    match about.kind.as_str() {
        release::NOTE => Some(release::put_back(process, text)),
        plimsoll_phases::NOTE => {
            let numbers = [about.pid.to_string(), about.started.to_string()];
            let words: Vec<String> = numbers
                .into_iter()
                .chain(text.split_ascii_whitespace().map(str::to_owned))
                .collect();
            Some(plimsoll_phases::undo(&mut empty(), &words))
        }
        _ => None,
    }
}
