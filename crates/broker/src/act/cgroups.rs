//! Cgroups that the broker makes for its principals: `plimsoll/TAG-ID-NAME` under its own cgroup (without
//! the name where users are not told those of others), or beside a process in the cgroup of its group. A
//! process is only moved downwards, so every earlier limit still binds it. Processes that outlive a
//! principal move up to the cgroup of its group at most.
//!
//! Under version 2 a program's user makes its cgroup ([`Home::given`]): the broker bounds it, and never
//! removes it.

use crate::state::KeptHome;
use plimsoll_kernel::Result;
use plimsoll_kernel::cgroup::{Cgroup, Location, Version, locate};
use plimsoll_kernel::process::{Process, descendants_within};
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Id;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The directory under the broker's own cgroup that holds the principals' cgroups.
pub const PARENT: &str = "plimsoll";
/// Child of a group's cgroup for processes without a cgroup of their own. Under version 2 the
/// cgroup of the group itself can hold no process.
pub const LEAF: &str = "others";
/// Maximum number of leftover cgroups that the broker examines when it starts.
const MAX_LEFTOVERS: usize = 4096;
/// Anonymous memory. A process that holds less when it is moved counts as young: nearly
/// all of its later memory is charged to the new cgroup.
const YOUNG: Bytes = Bytes::mib(16);
/// A process with more threads than this is not young.
const FEW_THREADS: usize = 256;

/// Where the cgroup of a principal is, for the worker.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its path.
    pub directory: PathBuf,
    /// Whether the principal has it no more. Set before the bound is lifted for the last time: who bounds it
    /// and then looks here either comes before that, or lifts the bound again.
    left: Arc<AtomicBool>,
}

impl Target {
    /// One that is never left.
    #[must_use]
    pub fn at(directory: &Path) -> Target {
        Target {
            directory: directory.to_path_buf(),
            left: Arc::default(),
        }
    }

    /// Whether the principal has it no more.
    #[must_use]
    pub fn is_left(&self) -> bool {
        self.left.load(Ordering::SeqCst)
    }
}

/// The cgroup of one principal. Belongs to the deciding thread, then to the worker, which removes it.
#[derive(Debug)]
pub struct Home {
    /// Access to it; absent once it was left or removed.
    cgroup: Option<Cgroup>,
    /// Its path.
    directory: PathBuf,
    /// Destination of processes that remain when this cgroup is removed; the parent cgroup when
    /// `None`.
    refuge: Option<PathBuf>,
    /// Whether the broker made it, and so removes it.
    ours: bool,
    /// Tells the worker when it is left.
    left: Arc<AtomicBool>,
    /// Whether all memory of the principal is charged here; false when part of it is charged to the
    /// cgroup in which its process was before.
    pub complete: bool,
}

impl Home {
    /// The cgroup that user `uid` made for a process of a principal; `None` if the process is not in it, or
    /// if its limit is not that user's to write: that of a unit or a container belongs to whoever set it.
    /// Under version 2 only the user can make it: systemd starts nothing in the cgroups of another service,
    /// and ends the programs in those of the broker's service when that is restarted.
    ///
    /// # Errors
    /// Under version 1, where the broker makes the cgroups itself; when its limit cannot be written.
    pub fn given(cgroup: Cgroup, process: &Process, uid: u32) -> Result<Option<Home>> {
        // Version 1 has no such file, and this says so: there a limit that the user set would be lost.
        cgroup.high()?;
        let limit = std::fs::metadata(cgroup.dir().join("memory.high"));
        let complete = is_charged(&cgroup, process)?;
        let mut home = home(cgroup, complete);
        home.ours = false;
        if !home.holds(process) || !limit.is_ok_and(|limit| limit.uid() == uid) {
            return Ok(None);
        }
        Ok(Some(home))
    }

    /// Its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The same for the worker.
    #[must_use]
    pub fn target(&self) -> Target {
        Target {
            directory: self.directory.clone(),
            left: Arc::clone(&self.left),
        }
    }

    /// Whether it is removed, which may take long, when this is dropped.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// Whether a process is in it.
    #[must_use]
    pub fn holds(&self, process: &Process) -> bool {
        let location = locate(process.pid()).ok().flatten();
        location.is_some_and(|location| location.exact && location.dir == self.directory)
    }

    /// Whether a process is elsewhere; false if that cannot be seen.
    #[must_use]
    pub fn is_left_by(&self, process: &Process) -> bool {
        let elsewhere = |place: Location| !place.exact || place.dir != self.directory;
        let found = locate(process.pid());
        found.is_ok_and(|found| found.is_some_and(elsewhere))
    }

    /// Anonymous and shared memory charged here, and swap used.
    ///
    /// # Errors
    /// When the cgroup cannot be read.
    pub fn read(&self) -> Result<(Bytes, Bytes)> {
        let Some(cgroup) = &self.cgroup else {
            return Ok((Bytes::ZERO, Bytes::ZERO));
        };
        let stat = cgroup.stat()?;
        Ok((Bytes(stat.anon) + Bytes(stat.shmem), cgroup.swapped()?))
    }

    /// Lifts the limit and leaves the processes where they are: this broker ends, and the next one
    /// takes the cgroup over.
    pub fn leave(mut self) {
        match self.cgroup.take() {
            Some(cgroup) if self.ours => {
                lift(&cgroup);
                let _ = std::fs::remove_dir(cgroup.dir());
            }
            Some(cgroup) => lift_given(&cgroup),
            None => {}
        }
    }
}

impl Drop for Home {
    /// Lifts the limit, because its principal is gone, and removes the cgroup if the broker made it.
    /// Remaining processes stay in the group.
    fn drop(&mut self) {
        let Some(cgroup) = self.cgroup.take() else {
            return;
        };
        self.left.store(true, Ordering::SeqCst);
        if !self.ours {
            return lift_given(&cgroup);
        }
        lift(&cgroup);
        if let Err(error) = cgroup.remove(self.refuge.as_deref()) {
            tracing::warn!(%error, "the cgroup of a principal stays behind; `rmdir` it");
        }
    }
}

/// Makes cgroups where that is allowed. Belongs to the deciding thread.
#[derive(Debug)]
pub struct Cgroups {
    /// The broker's own cgroup, if it is in one.
    own: Option<Cgroup>,
    /// The broker's tag in hexadecimal, with which the names of its cgroups begin.
    tag: String,
    /// Cgroups of an earlier broker. Their principals may come back.
    left: Vec<PathBuf>,
    /// Whether the kernel denied us a cgroup. Then no other is tried.
    refused: bool,
}

impl Cgroups {
    /// Finds the broker's own cgroup and cleans up after an earlier broker with the same directory
    /// (`tag`). It looks below its own cgroup and at the cgroups noted in `kept`: it lifts their
    /// limits, puts back their swappiness, and removes the empty ones. A cgroup with live processes
    /// stays; they keep it when they join again.
    #[must_use]
    pub fn new(tag: u32, kept: impl Iterator<Item = KeptHome>) -> Cgroups {
        let mut cgroups = Cgroups {
            own: Cgroup::of_self().ok().flatten(),
            tag: format!("{tag:08x}"),
            left: Vec::new(),
            refused: false,
        };
        let (kept, of_users): (Vec<KeptHome>, Vec<KeptHome>) =
            kept.partition(|home| cgroups.is_ours(&home.directory));
        for home in of_users {
            if let Ok(cgroup) = Cgroup::at(&home.directory) {
                lift_given(&cgroup);
            }
        }
        let kept = kept.into_iter().map(|home| {
            put_back(&home);
            home.directory
        });
        let mut left: Vec<PathBuf> = kept.chain(cgroups.beside_us()).collect();
        left.sort();
        left.dedup();
        left.retain(|directory| {
            if let Ok(cgroup) = Cgroup::at(directory) {
                lift(&cgroup);
            }
            std::fs::remove_dir(directory).is_err()
        });
        cgroups.left = left;
        cgroups
    }

    /// Whether a broker with the same directory made the cgroup.
    fn is_ours(&self, directory: &Path) -> bool {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(&self.tag)
            .is_some_and(|rest| rest.starts_with('-'))
    }

    /// The broker's own cgroup.
    #[must_use]
    pub fn own(&self) -> Option<&Path> {
        self.own.as_ref().map(Cgroup::dir)
    }

    fn beside_us(&self) -> impl Iterator<Item = PathBuf> {
        let parent = self.own.iter().map(|own| own.dir().join(PARENT));
        let entries = parent
            .filter_map(|parent| std::fs::read_dir(parent).ok())
            .flatten();
        let paths = entries.flatten().map(|entry| entry.path());
        paths.filter(|path| self.is_ours(path)).take(MAX_LEFTOVERS)
    }

    /// Makes a cgroup for a principal whose process has not started yet, inside the cgroup of its
    /// group. The process starts in it, so all of its memory is charged there. Under version 2 a
    /// cgroup has either processes or children with limits, so only such a cgroup can keep the
    /// process.
    pub fn prepare(&mut self, id: Id, name: Option<&str>, group: &Path) -> Option<Home> {
        if self.refused {
            return None;
        }
        let made = Cgroup::at(group)
            .and_then(|group| {
                child_that(&group, &self.name(id, name), |child| {
                    child.set_limit(None).map(|_| ())
                })
            })
            .map(|child| {
                let leaf = group.join(LEAF);
                let mut home = home(child, true);
                home.refuge = leaf.is_dir().then_some(leaf);
                home
            });
        made.inspect_err(|error| tracing::debug!(principal = id, %error, "no cgroup of its own"))
            .ok()
    }

    /// Makes a cgroup for a principal and moves its process there; later children start in it.
    /// `group` is the cgroup of the principal's group. `awaited` says whether an earlier broker's
    /// cgroup belongs to a principal that has not come back yet. Returns `None` when the process is
    /// in a cgroup that is not ours to divide, or when rights are missing.
    pub fn make(
        &mut self,
        id: Id,
        name: Option<&str>,
        process: &Process,
        group: Option<&Path>,
        awaited: impl Fn(&Path) -> bool,
    ) -> Option<Home> {
        if self.refused {
            return None;
        }
        match self.try_make(id, name, process, group, awaited) {
            Ok(home) => home,
            Err(error) => {
                tracing::debug!(principal = id, %error, "no cgroup of its own");
                self.refused = error.is_denied();
                None
            }
        }
    }

    fn try_make(
        &mut self,
        id: Id,
        name: Option<&str>,
        process: &Process,
        group: Option<&Path>,
        awaited: impl Fn(&Path) -> bool,
    ) -> Result<Option<Home>> {
        let Some(location) = locate(process.pid())?.filter(|location| location.exact) else {
            return Ok(None);
        };
        let left = self.left.iter().position(|left| *left == location.dir);
        if let Some(left) = left.filter(|_| !awaited(&location.dir)) {
            self.left.swap_remove(left);
            return Ok(Some(home(Cgroup::open(location)?, true)));
        }
        let parent = match (group, &self.own) {
            (Some(group), _) if location.dir == group => Cgroup::at(group)?,
            (_, Some(own)) if location.dir == own.dir() => {
                Cgroup::at(own.dir())?.create_child(PARENT)?
            }
            _ => return Ok(None),
        };
        let complete = is_young(process)?;
        let child = child_that(&parent, &self.name(id, name), |child| {
            settle(child, process)
        })?;
        Ok(Some(home(child, complete)))
    }

    fn name(&self, id: Id, name: Option<&str>) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        };
        let named =
            |name: &str| format!("-{}", name.chars().map(plain).take(64).collect::<String>());
        format!("{}-{id}{}", self.tag, name.map(named).unwrap_or_default())
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            let _ = std::fs::remove_dir(own.dir().join(PARENT));
        }
    }
}

/// Whether a cgroup that the process enters now is charged for nearly all of its memory: the
/// process holds almost nothing yet and has no child that stays elsewhere.
fn is_young(process: &Process) -> Result<bool> {
    if process.memory()?.anon >= YOUNG {
        return Ok(false);
    }
    let (mut children, mut threads) = (Vec::new(), FEW_THREADS);
    let all = descendants_within(process.pid(), 1, &mut threads, &mut children)?;
    Ok(all && children.is_empty())
}

fn home(cgroup: Cgroup, complete: bool) -> Home {
    Home {
        directory: cgroup.dir().to_path_buf(),
        cgroup: Some(cgroup),
        refuge: None,
        ours: true,
        left: Arc::default(),
        complete,
    }
}

/// Makes a cgroup and applies `fitted`; removes the cgroup when that fails.
fn child_that(
    parent: &Cgroup,
    name: &str,
    fitted: impl FnOnce(&Cgroup) -> Result<()>,
) -> Result<Cgroup> {
    let child = parent.create_child(name)?;
    fitted(&child).inspect_err(|_| {
        let _ = std::fs::remove_dir(child.dir());
    })?;
    Ok(child)
}

/// Moves the process, provided that the limit can be written: a read-only cgroup would be useless.
fn settle(cgroup: &Cgroup, process: &Process) -> Result<()> {
    cgroup.set_limit(None)?;
    cgroup.add_process(process)
}

/// Puts back the swappiness that an earlier broker found.
fn put_back(home: &KeptHome) {
    let put_back = |swappiness: u32| {
        let cgroup = Cgroup::at(&home.directory)?;
        if cgroup.swappiness()? == u64::from(swappiness) {
            Ok(())
        } else {
            cgroup.set_swappiness(swappiness.into())
        }
    };
    if let Some(Err(error)) = home.swappiness.map(put_back) {
        tracing::debug!(%error, "a swappiness could not be put back");
    }
}

/// Whether nearly all memory of a process is charged to the cgroup that it is in: of one that comes back to a
/// restarted broker, too.
fn is_charged(cgroup: &Cgroup, process: &Process) -> Result<bool> {
    let stat = cgroup.stat()?;
    let charged = Bytes(stat.anon) + Bytes(stat.shmem) + cgroup.swapped()?;
    Ok(process.memory()?.anon < charged + YOUNG)
}

/// Lifts what the broker sets in the cgroup of a user, and no other limit.
fn lift_given(cgroup: &Cgroup) {
    if let Err(error) = cgroup.set_high(None) {
        tracing::debug!(%error, "a limit could not be lifted");
    }
}

fn lift(cgroup: &Cgroup) {
    let lifted = match cgroup.version() {
        Version::V1 => cgroup.set_limit(None).map(|_| ()),
        Version::V2 => cgroup
            .set_high(None)
            .and_then(|()| cgroup.set_limit(None).map(|_| ())),
    };
    if let Err(error) = lifted {
        tracing::debug!(%error, "a limit could not be lifted");
    }
}
