//! Flags and scheduling parameters of programs whose adapter was killed: the next of our commands that steers
//! puts them back.

use plimsoll_broker::options::directory_of;
use plimsoll_client::{Socket, Surroundings};
use plimsoll_kernel::undo_notes::{About, Notes};
use plimsoll_runtimes::ALL;
use plimsoll_runtimes::process::Process;
use std::fs::DirBuilder;
use std::io::empty;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::info;

/// The folder of notes, below that of the user's own broker.
const FOLDER: &str = "undo";
/// How long all of it may take: the program of the command waits for it. The rest stays for the next command.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where is noted what to put back: beside the socket that the environment names, else in the user's own
/// folder. `None` where that cannot be had.
pub(super) fn notes() -> Option<Arc<Notes>> {
    let make = |folder: &Path| {
        // It may be there.
        let _ = DirBuilder::new().mode(0o700).create(folder);
    };
    let made = |folder: PathBuf| {
        make(&folder);
        is_own(&folder).then(|| make(&folder.join(FOLDER)))?;
        opened(&folder)
    };
    folders().find_map(made).map(Arc::new)
}

/// The folders of brokers that this user may have, the best first.
fn folders() -> impl Iterator<Item = PathBuf> {
    let candidates = Socket::candidates(&Surroundings::of_self());
    candidates.into_iter().map(|it| directory_of(it.path()))
}

/// Whether only this user can change what is in a folder. A link to one is none.
fn is_own(folder: &Path) -> bool {
    let own = rustix::process::getuid().as_raw();
    let found = folder.symlink_metadata();
    found.is_ok_and(|it| it.is_dir() && it.uid() == own && it.mode() & 0o022 == 0)
}

/// The notes in a folder, if it is the user's own.
fn opened(folder: &Path) -> Option<Notes> {
    let notes = is_own(folder).then(|| Notes::open(&folder.join(FOLDER)));
    notes?.ok()
}

/// Puts back what killed processes of ours left.
pub(crate) fn put_back() {
    let opened = folders().filter_map(|folder| opened(&folder));
    let left = opened.flat_map(|notes| notes.left().unwrap_or_default());
    let until = Instant::now() + PATIENCE;
    for (about, text, note) in left {
        if Instant::now() >= until {
            note.leave();
            continue;
        }
        match undone(&about, &text) {
            Some(true) => info!(
                "process {}: what an adapter that was killed had set is put back",
                about.pid
            ),
            // The process is gone, or the note makes no sense.
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
        plimsoll_phases::NOTE => {
            let numbers = [about.pid.to_string(), about.started.to_string()];
            let words: Vec<String> = numbers
                .into_iter()
                .chain(text.split_ascii_whitespace().map(str::to_owned))
                .collect();
            plimsoll_phases::undo(&mut empty(), &words).then_some(true)
        }
        kind => ALL.put_back(kind, process, text),
    }
}
