//! State that survives `kill -9`: the settings of each principal, and the identity by which it is
//! recognised when its program rejoins. The whole state is written to a new file that then replaces
//! the old one.

use crate::decide::Kept;
use crate::server::listener::advice;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::{Process, boot};
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::Id;
use plimsoll_wire::varlink::plain;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Version of the file's layout.
const VERSION: u32 = 1;
/// A longer state file (bytes) is not read.
const MAX_STATE: u64 = 64 << 20;
/// Time between a failed write and the next try.
const RETRY: Nanos = Nanos::seconds(5);
/// How long an entry is kept when its process can be seen neither alive nor gone.
const WAIT: Nanos = Nanos::seconds(600);
/// Most entries of missing principals checked in one go.
const LOOKED_AT: usize = 64;

/// The identity by which a principal is recognised: its process; for a group its name and the
/// process that keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Uid of the owner.
    pub uid: u32,
    /// Name for display.
    pub name: String,
    /// Process id and start time; for a group those of its keeper, if visible.
    pub process: Option<(i32, u64)>,
    /// Whether it is a group. Groups of one keeper are told apart by their names; a process is
    /// recognised without its name.
    #[serde(default)]
    pub group: bool,
}

impl Identity {
    fn key(&self) -> Identity {
        if !self.group && self.process.is_some() {
            Identity {
                name: String::new(),
                ..self.clone()
            }
        } else {
            self.clone()
        }
    }
}

/// The cgroup made for a principal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptHome {
    /// Its directory.
    pub directory: PathBuf,
    /// Its swappiness as it was found, if the broker may have changed it since.
    pub swappiness: Option<u32>,
}

/// One principal as kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its identity.
    pub identity: Identity,
    /// Its settings.
    pub kept: Kept,
    /// The cgroup made for it.
    #[serde(default)]
    pub home: Option<PathBuf>,
    /// As [`KeptHome::swappiness`].
    #[serde(default)]
    pub swappiness: Option<u32>,
    /// Boot in which it ran: process ids and start times begin anew with each boot.
    #[serde(default)]
    pub boot: String,
}

/// The contents of the state file.
#[derive(Debug, Serialize, Deserialize)]
struct File {
    /// Version of the format.
    version: u32,
    /// The id for the next principal.
    next_id: Id,
    /// The principals.
    principals: Vec<Entry>,
}

/// The state file, and the principals that have not rejoined yet. Belongs to the deciding thread.
#[derive(Debug)]
pub struct State {
    /// Path of the file.
    path: PathBuf,
    /// The kernel's id of this boot.
    boot: String,
    /// Most entries of one user.
    most: usize,
    /// The principals that have not rejoined yet.
    waiting: HashMap<Identity, Entry>,
    /// Entries still to be checked for live processes.
    unseen: Vec<Identity>,
    /// Time when they were read.
    read_at: Nanos,
    /// New ids of rejoined principals, by old id.
    aliases: HashMap<Id, Id>,
    /// The id for the next principal, as of the last write.
    next_id: Id,
    /// Whether the file must be written.
    dirty: bool,
    /// Time of the next try after a failed write.
    retry_at: Nanos,
    /// Whether the last write failed, which was logged then.
    failing: bool,
}

impl State {
    /// Reads the state of an earlier broker: only entries with a live process, and at most `most`
    /// per user. A file that cannot be parsed is renamed and logged, and does not keep the broker
    /// from starting.
    #[must_use]
    pub fn load(path: &Path, most: usize) -> State {
        State::load_if(path, most, lives)
    }

    fn load_if(path: &Path, most: usize, lives: impl Fn(&Identity) -> bool) -> State {
        let mut state = State {
            path: path.into(),
            boot: boot(),
            most,
            waiting: HashMap::new(),
            unseen: Vec::new(),
            read_at: clock::now(),
            aliases: HashMap::new(),
            next_id: 1,
            dirty: false,
            retry_at: Nanos::ZERO,
            failing: false,
        };
        match read(path) {
            Ok(None) => {}
            Ok(Some(file)) => {
                state.next_id = file.next_id;
                let all = file.principals.len();
                let mut room = Room::new(most);
                let alive = file
                    .principals
                    .into_iter()
                    .filter(|entry| entry.boot == state.boot && lives(&entry.identity))
                    .filter(|entry| room.take(entry.identity.uid));
                state.waiting = alive.map(|entry| (entry.identity.key(), entry)).collect();
                // Dropped entries must also leave the file.
                state.dirty = state.waiting.len() < all;
            }
            Err(message) => {
                tracing::warn!(path = %path.display(), message, "the state of the last broker cannot be \
                     read; it is set aside as state.json.bad");
                let _ = std::fs::rename(path, path.with_extension("json.bad"));
            }
        }
        state
    }

    /// The id for the first principal: higher than any earlier one.
    #[must_use]
    pub fn next_id(&self) -> Id {
        self.next_id
    }

    /// Whether such a principal was here before a crash and has not rejoined yet.
    #[must_use]
    pub fn knows(&self, identity: &Identity) -> bool {
        self.waiting.contains_key(&identity.key())
    }

    /// The settings of a rejoined principal; returned once.
    pub fn rejoin(&mut self, identity: &Identity) -> Option<Kept> {
        self.waiting.remove(&identity.key()).map(|entry| entry.kept)
    }

    /// The owner of the principal with that old id, if it has not rejoined yet.
    #[must_use]
    pub fn awaits(&self, old: Id) -> Option<u32> {
        let entry = self.waiting.values().find(|entry| entry.kept.id == old);
        entry.map(|entry| entry.identity.uid)
    }

    /// The cgroups of principals that have not rejoined yet.
    pub fn homes(&self) -> impl Iterator<Item = &Path> {
        self.waiting
            .values()
            .filter_map(|entry| entry.home.as_deref())
    }

    /// The same, each with the swappiness to put back.
    pub fn kept_homes(&self) -> impl Iterator<Item = KeptHome> {
        let home = |entry: &Entry| {
            Some(KeptHome {
                directory: entry.home.clone()?,
                swappiness: entry.swappiness,
            })
        };
        self.waiting.values().filter_map(home)
    }

    /// Checks some principals that have not rejoined. Drops dead ones at once, and after a while
    /// those that cannot be seen alive. Call it once a second.
    pub fn forget_dead(&mut self, now: Nanos) {
        if self.unseen.is_empty() {
            self.unseen.extend(self.waiting.keys().cloned());
        }
        let overdue = now - self.read_at >= WAIT;
        let from = self.unseen.len().saturating_sub(LOOKED_AT);
        for identity in self.unseen.drain(from..) {
            let given_up = overdue && identity.process.is_none();
            if (given_up || !lives(&identity)) && self.waiting.remove(&identity).is_some() {
                self.dirty = true;
            }
        }
    }

    /// Notes the new id of an old principal.
    pub fn alias(&mut self, old: Id, new: Id) {
        self.aliases.insert(old, new);
    }

    /// The current id of a principal.
    #[must_use]
    pub fn resolve(&self, id: Id) -> Id {
        self.aliases.get(&id).copied().unwrap_or(id)
    }

    /// Drops the old ids of a principal that is gone.
    pub fn forget(&mut self, id: Id) {
        self.aliases.retain(|_, new| *new != id);
    }

    /// Notes that the state changed.
    pub fn touch(&mut self) {
        self.dirty = true;
    }

    /// Whether [`State::write`] is due at `now`.
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        self.dirty && now >= self.retry_at
    }

    /// Writes the state; `next_id` is the id of the next principal. Principals that have not
    /// rejoined yet stay in it. If the file system refuses, this is logged once and tried again
    /// later. Returns whether it was written.
    pub fn write(
        &mut self,
        principals: impl Iterator<Item = (Identity, Kept, Option<KeptHome>)>,
        next_id: Id,
        now: Nanos,
    ) -> bool {
        let boot = &self.boot;
        let entry = |(identity, kept, home): (Identity, Kept, Option<KeptHome>)| {
            let (home, swappiness) =
                home.map_or((None, None), |home| (Some(home.directory), home.swappiness));
            Entry {
                identity,
                kept,
                home,
                swappiness,
                boot: boot.clone(),
            }
        };
        let mut all: Vec<Entry> = principals.map(entry).collect();
        self.next_id = self.next_id.max(next_id);
        let mut room = Room::new(self.most);
        all.iter().for_each(|entry| {
            room.take(entry.identity.uid);
        });
        let waiting = self.waiting.values();
        all.extend(
            waiting
                .filter(|entry| room.take(entry.identity.uid))
                .cloned(),
        );
        let file = File {
            version: VERSION,
            next_id: self.next_id,
            principals: all,
        };
        match write(&self.path, &file) {
            Ok(()) => {
                self.dirty = false;
                self.failing = false;
                true
            }
            Err(error) => {
                self.retry_at = now + RETRY;
                if !std::mem::replace(&mut self.failing, true) {
                    let errno =
                        rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
                    let message = advice(errno, "the state cannot be written");
                    tracing::warn!(path = %self.path.display(), %error, "{message}; weights set at run \
                         time would be lost in a crash; tried again in 5 s");
                }
                false
            }
        }
    }

    /// Removes the file, because no principal is left that could come back.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Counts the entries that users may have.
struct Room {
    /// Most entries of one user.
    most: usize,
    /// Entries so far, by uid.
    taken: HashMap<u32, usize>,
}

impl Room {
    fn new(most: usize) -> Room {
        Room {
            most,
            taken: HashMap::new(),
        }
    }

    /// Counts one more of that user; returns whether there was room.
    fn take(&mut self, uid: u32) -> bool {
        let taken = self.taken.entry(uid).or_insert(0);
        *taken += 1;
        *taken <= self.most
    }
}

/// Whether the process of an identity runs; true when that cannot be determined.
fn lives(identity: &Identity) -> bool {
    let Some((pid, start_time)) = identity.process else {
        return true;
    };
    match Process::open_known(pid, start_time) {
        Ok(process) => process.alive(),
        Err(error) => !error.is_gone(),
    }
}

fn read(path: &Path) -> Result<Option<File>, String> {
    let length = match std::fs::metadata(path) {
        Ok(status) => status.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if length > MAX_STATE {
        return Err(format!("it has {length} bytes"));
    }
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let file: File = serde_json::from_slice(&text).map_err(|error| plain(&error.to_string()))?;
    match file.version {
        VERSION => Ok(Some(file)),
        other => Err(format!(
            "its version is {other}, this broker reads {VERSION}"
        )),
    }
}

fn write(path: &Path, file: &File) -> std::io::Result<()> {
    let new = path.with_extension("json.new");
    let _ = std::fs::remove_file(&new);
    let mut out = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let text = serde_json::to_vec(file)?;
    let written = out
        .write_all(&text)
        .and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
