//! Cgroups that we make for the programs that we start: one that binds all programs of a file, and under
//! version 2 one for each program, which the broker may bound. (Under version 1 the broker makes those.)
//!
//! Nothing outside of a tree that is ours is written. Where such a tree comes from, in this order:
//!
//! 1. our own cgroup, if it may have children with limits (version 1, or the top of the hierarchy);
//! 2. our own cgroup, if it was made for us alone and is ours to divide (a container, a unit with
//!    `Delegate=yes`): we move aside into a child first;
//! 3. a scope that systemd makes and delegates to us, if our own cgroup belongs to no service and has no
//!    limit that the programs would escape;
//! 4. where no systemd divides the tree: beside our own cgroup, bound by the limit of ours.
//!
//! A `plimsoll run` within another one makes a cgroup as if there were no other, and never below that of the
//! outer one's program. The broker shares the outer one's limit out between the two, so each is bounded by
//! its own part, and the bound of the outer one, which moves, is no limit of ours.
//!
//! Sources: cgroup-v2.rst ("No Internal Process Constraint", "Delegation Containment"), systemd's
//! CGROUP_DELEGATION document.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `entry` | the way of a new program into a cgroup |
//! | `scope` | asks systemd for a scope |
//! | `holder` | the first process of a scope |
//! | `sweep` | names, and what killed processes of ours left |

mod entry;
mod holder;
mod scope;
mod sweep;

pub use entry::{Entry, Usher};

use plimsoll_kernel::Error;
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_kernel::process::{Process, own};
use plimsoll_unit::Bytes;
use scope::Scope;
use std::path::Path;
use std::sync::Arc;

/// The cgroup below our own that we move into, if our own was made for us alone.
const ASIDE: &str = "plimsoll-self";
/// If a cgroup has more processes than this, some are not ours.
const MOST_OURS: usize = 4;

/// Why there is no cgroup.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoCgroup(String);

impl From<Error> for NoCgroup {
    fn from(error: Error) -> NoCgroup {
        NoCgroup(error.to_string())
    }
}

/// A cgroup that we made. It is removed when this is dropped, and the scope ends with its last process.
#[derive(Debug)]
pub struct OwnCgroup {
    /// Absent once it was removed or left.
    cgroup: Option<Cgroup>,
    /// The way in.
    entry: Entry,
    /// Where it is, for people.
    place: &'static str,
    /// The limit of our own cgroup, if that does not bind this one.
    escaped: Option<Bytes>,
    /// We moved aside for it. Undone once it is removed.
    _aside: Option<Aside>,
}

/// We are in a child of the cgroup that was ours, so that this may have others. We go back when this is
/// dropped, unless there are others.
#[derive(Debug)]
struct Aside(Cgroup);

impl Aside {
    fn step(own: Cgroup) -> Result<Aside, Error> {
        own.move_members_to_leaf(ASIDE)?;
        Ok(Aside(own))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = self.0.take_members_back(ASIDE);
    }
}

impl OwnCgroup {
    /// Makes a cgroup.
    ///
    /// # Errors
    /// Why there is none: no memory controller, no rights, or none that may be divided.
    pub fn make() -> Result<OwnCgroup, NoCgroup> {
        let own = Cgroup::of_self()?
            .ok_or_else(|| NoCgroup("there is no memory controller here".into()))?;
        sweep::sweep(own.dir());
        let not_below = match sweep::make_in(&own) {
            Ok(cgroup) => return Ok(OwnCgroup::inside(cgroup, None)),
            Err(error) if own.version() == Version::V1 => return Err(error.into()),
            Err(error) => error,
        };
        let managed = scope::systemd_runs();
        if (!managed || scope::is_delegated(own.dir()))
            && is_ours_alone(&own)
            && let Ok(aside) = Aside::step(Cgroup::at(own.dir())?)
        {
            let cgroup = sweep::make_in(&own)?;
            return Ok(OwnCgroup::inside(cgroup, Some(aside)));
        }
        if managed {
            return OwnCgroup::in_a_scope(&own);
        }
        OwnCgroup::beside(&own).ok_or_else(|| not_below.into())
    }

    /// Makes one for a program under version 2; `None` under version 1, where the broker does.
    ///
    /// # Errors
    /// As [`OwnCgroup::make`].
    pub fn for_program() -> Result<Option<OwnCgroup>, NoCgroup> {
        let own = Cgroup::of_self()?;
        if own.is_none_or(|own| own.version() == Version::V1) {
            return Ok(None);
        }
        OwnCgroup::make().map(Some)
    }

    fn inside(cgroup: Cgroup, aside: Option<Aside>) -> OwnCgroup {
        OwnCgroup {
            entry: Entry::directly(cgroup.dir()),
            place: "groups below ours",
            cgroup: Some(cgroup),
            escaped: None,
            _aside: aside,
        }
    }

    fn in_a_scope(own: &Cgroup) -> Result<OwnCgroup, NoCgroup> {
        let scope = Scope::ask(own).map_err(NoCgroup)?;
        sweep::sweep_scopes(scope.dir());
        let top = Cgroup::at(scope.dir())?;
        top.move_members_to_leaf(ASIDE)?;
        let cgroup = sweep::make_in(&top)?;
        Ok(OwnCgroup {
            entry: Entry::through(cgroup.dir(), Arc::new(scope)),
            place: "a scope of systemd's for each program",
            cgroup: Some(cgroup),
            escaped: None,
            _aside: None,
        })
    }

    /// In version 2 a group with processes has no limited children, so this one is made beside ours, under a
    /// name of ours. Nothing else is changed there.
    fn beside(own: &Cgroup) -> Option<OwnCgroup> {
        let parent = own.parent().ok().flatten()?;
        sweep::sweep(parent.dir());
        let escaped = own.limit().ok()?;
        let cgroup = sweep::make_in(&parent).ok()?;
        if let Some(limit) = escaped
            && cgroup.set_limit(Some(limit)).is_err()
        {
            let _ = std::fs::remove_dir(cgroup.dir());
            return None;
        }
        Some(OwnCgroup {
            entry: Entry::directly(cgroup.dir()),
            place: "groups beside ours",
            cgroup: Some(cgroup),
            escaped,
            _aside: None,
        })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.entry.dir
    }

    /// Where it is, for people.
    pub fn place(&self) -> &'static str {
        self.place
    }

    /// The cgroup, until it is left.
    pub fn cgroup(&self) -> Option<&Cgroup> {
        self.cgroup.as_ref()
    }

    /// The limit of our own cgroup, if that does not bind this one.
    pub fn escaped_limit(&self) -> Option<Bytes> {
        self.escaped
    }

    /// The way of a program into it.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Makes a cgroup below this one, which then takes no processes itself under version 2. Returns the way
    /// into it.
    ///
    /// # Errors
    /// As [`Cgroup::create_child`].
    pub fn below(&self, name: &str) -> Result<Entry, Error> {
        let Some(cgroup) = &self.cgroup else {
            return Err(Error::Absent {
                path: self.dir().into(),
            });
        };
        let child = cgroup.create_child(name)?;
        Ok(self.entry.to(child.dir()))
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        if let Some(cgroup) = self.cgroup.take() {
            // Processes that the programs left running move to our cgroup. Those that cannot be
            // moved stay, and the next run sweeps the group.
            let ours = Cgroup::of_self().ok().flatten();
            let _ = cgroup.remove(ours.as_ref().map(Cgroup::dir));
        }
    }
}

/// Whether the group holds only us and the broker that we started, and no program is to stay in it: a
/// `plimsoll run` around us may have made it for us.
fn is_ours_alone(group: &Cgroup) -> bool {
    // Otherwise our number is another process's in this `/proc`.
    if !own::is_shown() || sweep::is_one(group.dir()) {
        return false;
    }
    let program = |process: Process| process.exe().ok().flatten();
    let ours = Process::own().ok().and_then(program);
    let is_ours = |&pid: &i32| Process::open(pid).ok().and_then(program) == ours;
    let mut members = Vec::new();
    let all = group.processes(MOST_OURS, &mut members);
    ours.is_some()
        && all.is_ok_and(|all| all)
        && members.iter().all(is_ours)
        && group.holds_unseen().is_ok_and(|unseen| !unseen)
}
