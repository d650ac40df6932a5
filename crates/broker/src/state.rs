//! What survives `kill -9`: the settings of each principal, and by what it is known again when its
//! program rejoins. Written as a whole to a new file that then takes the old one's name.

use crate::core::Kept;
use crate::server::listener::advice;
use plimsoll_kernel::clock::now_ns;
use plimsoll_kernel::process::Process;
use plimsoll_wire::messages::Id;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
/// A state longer than this (bytes) is not read.
const MAX_STATE: u64 = 64 << 20;
/// After a failed write the next is tried so much later, ns.
const RETRY_NS: u64 = 5_000_000_000;
/// Who has no process by which to tell that it is gone is waited for so long, ns.
const WAIT_NS: u64 = 600_000_000_000;
/// Of those who have not rejoined, so many are looked at in one go.
const LOOKED_AT: usize = 64;

/// By what a principal is known again: the very process; for a group its name, and the very process that keeps it.
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
    /// Of those, whom it is yet to be looked at, whether they live.
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
                tracing::warn!(path = %path.display(), message, "the state of the last broker cannot be read; it is set aside as state.json.bad");
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
                    tracing::warn!(path = %self.path.display(), %error, "{message}; weights set at run time would be lost in a crash; tried again in 5 s");
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
    let file: File = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
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
mod tests {
    use super::*;
    use plimsoll_wire::messages::Kind;

    fn kept(id: Id, weight: u32) -> Kept {
        Kept {
            id,
            parent: None,
            kind: Kind::Process,
            weight,
            priority: 0,
            own_weight: 100,
            own_priority: 0,
            max: None,
        }
    }

    /// Whoever is in it lives.
    fn load(path: &Path) -> State {
        State::load_if(path, usize::MAX, |_| true)
    }

    fn identity(name: &str, process: Option<(i32, u64)>) -> Identity {
        Identity {
            uid: 7,
            name: name.into(),
            process,
            group: false,
        }
    }

    fn group(name: &str, keeper: Option<(i32, u64)>) -> Identity {
        Identity {
            group: true,
            ..identity(name, keeper)
        }
    }

    #[test]
    fn a_group_is_that_of_its_keeper() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        let mut state = load(&path);
        let of = |start| group("shop", Some((9, start)));
        let all = [
            (of(1), kept(1, 10), None),
            (of(2), kept(2, 20), None),
            (group("rest", Some((9, 2))), kept(3, 30), None),
        ];
        state.write(all.into_iter(), 5, 1);
        let mut state = load(&path);
        assert_eq!(state.rejoin(&of(3)), None, "another run of the same file");
        assert_eq!(state.rejoin(&of(2)).unwrap().weight, 20);
        assert_eq!(state.rejoin(&of(1)).unwrap().weight, 10);
        assert_eq!(
            state.rejoin(&group("rest", Some((9, 2)))).unwrap().weight,
            30
        );
    }

    #[test]
    fn who_comes_back_is_known_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        let mut state = load(&path);
        let (process, shop) = (identity("a", Some((12, 99))), group("g", None));
        let home = PathBuf::from("/sys/fs/cgroup/memory/plimsoll/0000beef-3-a");
        let all = [
            (process, kept(3, 40), Some(home.clone())),
            (shop.clone(), kept(4, 50), None),
        ];
        state.write(all.into_iter(), 5, 1);
        let mut state = load(&path);
        assert!(state.homes().eq([home.as_path()]));
        assert_eq!(state.next_id(), 5);
        assert_eq!(state.awaits(3), Some(7));
        assert_eq!(state.rejoin(&identity("a", Some((12, 100)))), None);
        assert_eq!(
            state
                .rejoin(&identity("renamed", Some((12, 99))))
                .unwrap()
                .weight,
            40
        );
        assert_eq!(state.rejoin(&identity("a", Some((12, 99)))), None);
        assert_eq!(state.rejoin(&group("other", None)), None);
        assert_eq!(state.rejoin(&shop).unwrap().weight, 50);
    }

    #[test]
    fn a_broken_state_is_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        for text in [
            "",
            "{",
            "[]",
            "{\"version\":9,\"next_id\":1,\"principals\":[]}",
            "\u{0}\u{1}",
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(load(&path).next_id(), 1);
            assert!(!path.exists() && path.with_extension("json.bad").exists());
        }
    }

    #[test]
    fn a_refusing_file_system_is_tried_again_later() {
        let mut state = load(Path::new("/proc/no/state.json"));
        state.touch();
        state.write(std::iter::empty(), 1, 10);
        assert!(!state.is_due(11));
        assert!(state.is_due(11 + RETRY_NS));
    }

    /// That of a process, or of none that ever was.
    fn of(process: Option<&Process>) -> Identity {
        let instance = process.map_or((i32::MAX, 1), |process| {
            (process.pid(), process.start_time())
        });
        identity("p", Some(instance))
    }

    #[test]
    fn the_dead_are_forgotten_and_a_number_of_anothers_is_none_of_theirs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        let own = Process::own().unwrap();
        let (living, dead) = (of(Some(&own)), of(None));
        let other = identity("p", Some((own.pid(), own.start_time() + 1)));
        let nobody = group("g", None);
        let all =
            [&living, &dead, &other, &nobody].map(|identity| (identity.clone(), kept(3, 40), None));
        load(&path).write(all.clone().into_iter(), 9, 1);
        let mut state = State::load(&path, 100);
        assert_eq!(state.next_id(), 9);
        assert!(state.is_due(1), "the file still has them");
        state.dirty = false;
        assert!(state.rejoin(&dead).is_none() && state.rejoin(&other).is_none());
        assert_eq!(state.waiting.len(), 2);
        // Those who died later go as well, some at a time; who cannot be seen is waited for.
        state
            .waiting
            .insert(dead.key(), load(&path).waiting[&dead.key()].clone());
        state.forget_dead(state.read_at);
        assert!(state.is_due(1) && state.waiting.len() == 2);
        state.forget_dead(state.read_at + WAIT_NS);
        assert!(state.rejoin(&nobody).is_none() && state.rejoin(&living).is_some());
    }

    #[test]
    fn one_users_entries_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        let mut state = load(&path);
        let name = |n: u32| format!("g{n}");
        let many = (0..50).map(|n| (group(&name(n), None), kept(n.into(), 10), None));
        let mut other = group("other", None);
        other.uid = 8;
        let all: Vec<_> = many.chain([(other.clone(), kept(99, 20), None)]).collect();
        state.write(all.into_iter(), 100, 1);
        let mut state = State::load(&path, 10);
        assert_eq!(state.waiting.len(), 11);
        // Nor do they add up from one broker to the next.
        let again = (0..10).map(|n| (group(&name(200 + n), None), kept(n.into(), 10), None));
        state.write(again, 100, 1);
        let mut state = State::load(&path, 10);
        assert_eq!(state.waiting.len(), 11);
        assert_eq!(state.rejoin(&other).unwrap().weight, 20);
    }
}
