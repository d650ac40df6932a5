//! What survives `kill -9`: the settings of each principal, and by what it is known again when its
//! program rejoins. Written as a whole to a new file that then takes the old one's name.

use crate::core::Kept;
use crate::server::listener::advice;
use plimsoll_kernel::clock::now_ns;
use plimsoll_kernel::process::Process;
use plimsoll_wire::messages::Id;
use plimsoll_wire::varlink::plain;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Of the file's layout.
const VERSION: u32 = 1;
/// A state longer than this (bytes) is not read.
const MAX_STATE: u64 = 64 << 20;
/// After a failed write the next is tried so much later, ns.
const RETRY_NS: u64 = 5_000_000_000;
/// An entry whose process cannot be seen to live or to be gone is kept so long, ns.
const WAIT_NS: u64 = 600_000_000_000;
/// Of those who have not rejoined, so many are looked at in one go.
const LOOKED_AT: usize = 64;

/// By what a principal is known again: the very process; for a group its name, and the very process
/// that keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Owner.
    pub uid: u32,
    /// Shown to people.
    pub name: String,
    /// Process number and start time; for a group those of who keeps it, where that can be seen.
    pub process: Option<(i32, u64)>,
    /// Two groups of one keeper differ in their names; a process needs no same name.
    #[serde(default)]
    pub group: bool,
}

impl Identity {
    fn key(&self) -> Identity {
        match self.group {
            false if self.process.is_some() => Identity {
                name: String::new(),
                ..self.clone()
            },
            _ => self.clone(),
        }
    }
}

/// One principal as kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// By what it is known again.
    pub identity: Identity,
    /// Its settings.
    pub kept: Kept,
    /// The cgroup that was made for it.
    #[serde(default)]
    pub home: Option<PathBuf>,
    /// Boot in which it ran: process numbers and start times begin anew with each.
    #[serde(default)]
    pub boot: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    version: u32,
    next_id: Id,
    principals: Vec<Entry>,
}

/// The state file, and those who have not rejoined yet.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    boot: String,
    /// Entries of one user at most.
    most: usize,
    waiting: HashMap<Identity, Entry>,
    /// Those of them that are still to be checked for life.
    unseen: Vec<Identity>,
    /// When they were read, ns.
    read_at: u64,
    /// Old numbers of those who rejoined.
    aliases: HashMap<Id, Id>,
    next_id: Id,
    dirty: bool,
    retry_at: u64,
    failing: bool,
}

impl State {
    /// Reads what a broker before us left: of those whose process lives, and no more than `most` of one
    /// user. A file that cannot be understood is set aside, with a word, and does not keep the broker
    /// from starting.
    #[must_use]
    pub fn load(path: &Path, most: usize) -> State {
        State::load_if(path, most, lives)
    }

    fn load_if(path: &Path, most: usize, lives: impl Fn(&Identity) -> bool) -> State {
        let mut state = State {
            path: path.into(),
            boot: std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .unwrap_or_default()
                .trim()
                .into(),
            most,
            waiting: HashMap::new(),
            unseen: Vec::new(),
            read_at: now_ns(),
            aliases: HashMap::new(),
            next_id: 1,
            dirty: false,
            retry_at: 0,
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
                // What is forgotten is to leave the file too.
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

    /// The number for the first principal: higher than any given out before.
    #[must_use]
    pub fn next_id(&self) -> Id {
        self.next_id
    }

    /// The settings of whoever is back, once.
    pub fn rejoin(&mut self, identity: &Identity) -> Option<Kept> {
        self.waiting.remove(&identity.key()).map(|entry| entry.kept)
    }

    /// The owner of the principal of that old number, which has not rejoined yet.
    #[must_use]
    pub fn awaits(&self, old: Id) -> Option<u32> {
        let entry = self.waiting.values().find(|entry| entry.kept.id == old);
        entry.map(|entry| entry.identity.uid)
    }

    /// The cgroups of those who have not rejoined yet.
    pub fn homes(&self) -> impl Iterator<Item = &Path> {
        self.waiting
            .values()
            .filter_map(|entry| entry.home.as_deref())
    }

    /// Looks at some of those who have not rejoined: the dead are forgotten, and who cannot be seen to
    /// live after a while. To be called once a second.
    pub fn forget_dead(&mut self, now: u64) {
        if self.unseen.is_empty() {
            self.unseen.extend(self.waiting.keys().cloned());
        }
        let overdue = now.saturating_sub(self.read_at) >= WAIT_NS;
        let from = self.unseen.len().saturating_sub(LOOKED_AT);
        for identity in self.unseen.drain(from..) {
            let given_up = overdue && identity.process.is_none();
            if (given_up || !lives(&identity)) && self.waiting.remove(&identity).is_some() {
                self.dirty = true;
            }
        }
    }

    /// Notes the new number of an old principal.
    pub fn alias(&mut self, old: Id, new: Id) {
        self.aliases.insert(old, new);
    }

    /// The number that a principal has now.
    #[must_use]
    pub fn resolve(&self, id: Id) -> Id {
        self.aliases.get(&id).copied().unwrap_or(id)
    }

    /// Forgets the old numbers of a principal that is gone.
    pub fn forget(&mut self, id: Id) {
        self.aliases.retain(|_, new| *new != id);
    }

    /// Something worth keeping changed.
    pub fn touch(&mut self) {
        self.dirty = true;
    }

    /// Whether [`State::write`] is due at `now` (ns).
    #[must_use]
    pub fn is_due(&self, now: u64) -> bool {
        self.dirty && now >= self.retry_at
    }

    /// Writes it; `next_id` is the number that the next principal will get. Those who have not rejoined
    /// yet stay in it. When the file system refuses, this is told once and tried again later; nobody
    /// else is touched by it.
    pub fn write(
        &mut self,
        principals: impl Iterator<Item = (Identity, Kept, Option<PathBuf>)>,
        next_id: Id,
        now: u64,
    ) {
        let boot = &self.boot;
        let entry = |(identity, kept, home)| Entry {
            identity,
            kept,
            home,
            boot: boot.clone(),
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
            }
            Err(error) => {
                self.retry_at = now.saturating_add(RETRY_NS);
                if !std::mem::replace(&mut self.failing, true) {
                    let errno =
                        rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
                    let message = advice(errno, "the state cannot be written");
                    tracing::warn!(path = %self.path.display(), %error, "{message}; weights set at run \
                         time would be lost in a crash; tried again in 5 s");
                }
            }
        }
    }

    /// Removes the file: nobody is left to come back.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Entries that users may have.
struct Room {
    most: usize,
    taken: HashMap<u32, usize>,
}

impl Room {
    fn new(most: usize) -> Room {
        Room {
            most,
            taken: HashMap::new(),
        }
    }

    /// One more of that user; whether there was room for it.
    fn take(&mut self, uid: u32) -> bool {
        let taken = self.taken.entry(uid).or_insert(0);
        *taken += 1;
        *taken <= self.most
    }
}

/// Whether the very process that it is known by runs. What cannot be looked at may.
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
