//! A cgroup for the programs of one file. Its limit enforces the budget for all processes in it,
//! outsiders too. If no cgroup can be made, the budget is advisory: only the broker follows it.

use crate::error::CliError;
use plimsoll_broker::act::LEAF;
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_kernel::meminfo::MeminfoReader;
use plimsoll_kernel::process::{Process, exists, own};
use plimsoll_unit::Bytes;
use std::path::{Path, PathBuf};

/// The prefix of the names of our cgroups.
const PREFIX: &str = "plimsoll-run-";
/// The cgroup below our own that we move into, if our own was made for us alone.
const ASIDE: &str = "plimsoll-self";
/// If a cgroup has more processes than this, some are not ours.
const MOST_OURS: usize = 4;
/// The most cgroups in a directory that is swept.
const MOST_SWEPT: usize = 10_000;

/// A cgroup that is removed when this is dropped.
#[derive(Debug)]
pub struct Budget {
    cgroup: Option<Cgroup>,
    dir: PathBuf,
}

impl Budget {
    /// Makes a cgroup limited to `bytes` below our own, or beside it if version 2 demands that. A
    /// cgroup beside ours gets our own limit if that is tighter.
    ///
    /// # Errors
    /// Why there is none: no memory controller, or no rights.
    pub fn make(bytes: Bytes) -> Result<Budget, CliError> {
        let refuse = |error: plimsoll_kernel::Error| CliError::Refused(error.to_string());
        let own = Cgroup::of_self()
            .map_err(refuse)?
            .ok_or_else(|| CliError::Refused("there is no memory controller here".into()))?;
        let name = format!("{PREFIX}{}", std::process::id());
        sweep(own.dir());
        let (ours, above) = (own.dir().to_owned(), own.limit().map_err(refuse)?);
        let cgroup = create(own, &name).map_err(refuse)?;
        // In a cgroup beside ours, our own limit would no longer bind the programs.
        let above = above.filter(|_| !cgroup.dir().starts_with(&ours));
        let budget = Budget {
            dir: cgroup.dir().to_owned(),
            cgroup: Some(cgroup),
        };
        if let Some(cgroup) = &budget.cgroup {
            let swap = MeminfoReader::open()
                .and_then(|reader| reader.read())
                .map_or(0, |memory| memory.swap_free.0);
            let limit = above.unwrap_or(Bytes::MAX).min(Bytes(bound(bytes.0, swap)));
            cgroup.set_limit(Some(limit)).map_err(refuse)?;
            if let Some(wall) = wall(bytes.0, limit.0) {
                // Version 1 has no soft limit, so only the limit holds there.
                let _ = cgroup.set_high(Some(Bytes(wall)));
            }
        }
        Ok(budget)
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The cgroup for processes without one of their own. In version 2 a group with limited
    /// children holds no processes itself.
    pub fn leaf(&self) -> PathBuf {
        let v2 = |cgroup: &&Cgroup| cgroup.version() == Version::V2;
        let leaf = self.cgroup.as_ref().filter(v2);
        let leaf = leaf.and_then(|cgroup| cgroup.create_child(LEAF).ok());
        leaf.map_or_else(|| self.dir.clone(), |leaf| leaf.dir().to_owned())
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        if let Some(cgroup) = self.cgroup.take() {
            // Processes that the programs left running move to our cgroup. Those that cannot be
            // moved stay, and the next run sweeps the group.
            let ours = Cgroup::of_self().ok().flatten();
            let _ = cgroup.remove(ours.as_ref().map(Cgroup::dir));
        }
    }
}

/// The limit of the cgroup, bytes. Without swap the kernel could only kill, and it kills the
/// largest process, not the one at fault. So without swap a quarter more is allowed for programs
/// that outrun the broker for a moment.
fn bound(budget: u64, swap_free: u64) -> u64 {
    if swap_free < budget / 4 {
        budget.saturating_add(budget / 4)
    } else {
        budget
    }
}

/// The soft limit, bytes, at which the kernel begins to slow programs that it cannot page out. It
/// lies between the budget, to which programs are steered, and the limit, at which the kernel
/// kills. It gives collections time, without a process that watches. `None` if the limit leaves no
/// room above the budget, so that programs within the budget are never slowed.
fn wall(budget: u64, limit: u64) -> Option<u64> {
    let above = limit.checked_sub(budget).filter(|&above| above > 0)?;
    Some(budget + above / 2)
}

/// Creates the cgroup below our own. In version 2 a group with processes has no limited children.
/// Then, if our group was made for us (a unit, a container), we first move aside into a child; else
/// the cgroup is made beside ours.
fn create(own: Cgroup, name: &str) -> Result<Cgroup, plimsoll_kernel::Error> {
    let refused = match own.create_child(name) {
        Ok(cgroup) => return Ok(cgroup),
        Err(error) if own.version() == Version::V1 => return Err(error),
        Err(error) => error,
    };
    if are_ours(&own) && own.move_members_to_leaf(ASIDE).is_ok() {
        return own.create_child(name);
    }
    let Ok(Some(parent)) = own.parent() else {
        return Err(refused);
    };
    sweep(parent.dir());
    parent.create_child(name).map_err(|_| refused)
}

/// Whether the group holds only us and the broker that we started.
fn are_ours(group: &Cgroup) -> bool {
    // Otherwise our number is another process's in this `/proc`.
    if !own::is_shown() {
        return false;
    }
    let program = |process: Process| process.exe().ok().flatten();
    let ours = Process::own().ok().and_then(program);
    let is_ours = |&pid: &i32| Process::open(pid).ok().and_then(program) == ours;
    let mut members = Vec::new();
    let all = group.processes(MOST_OURS, &mut members);
    ours.is_some() && all.is_ok_and(|all| all) && members.iter().all(is_ours)
}

/// Removes cgroups that killed runs left behind: empty groups whose process is gone.
fn sweep(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.take(MOST_SWEPT).flatten() {
        let name = entry.file_name();
        let left = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let pid = left.and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !exists(pid)) {
            // The kernel refuses to remove groups with processes. Groups below are those of
            // programs, left by a killed broker.
            let below = std::fs::read_dir(entry.path()).into_iter().flatten();
            for program in below.take(MOST_SWEPT).flatten() {
                let _ = std::fs::remove_dir(program.path());
            }
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_a_limited_cgroup_and_takes_it_away() {
        let budget = match Budget::make(Bytes::mib(64)) {
            Ok(budget) => budget,
            Err(error) => {
                plimsoll_testbed::skip(format_args!("no cgroup can be made here: {error}"));
                return;
            }
        };
        let dir = budget.dir().to_owned();
        let limit = Cgroup::at(&dir).unwrap().limit().unwrap();
        assert!(
            limit == Some(Bytes(64 << 20)) || limit == Some(Bytes(80 << 20)),
            "{limit:?}"
        );
        drop(budget);
        assert!(!dir.exists());
    }

    #[test]
    fn without_swap_the_kernel_is_kept_from_killing() {
        assert_eq!(bound(800, 1000), 800);
        assert_eq!(bound(800, 199), 1000);
        assert_eq!(bound(u64::MAX, 0), u64::MAX);
    }

    #[test]
    fn the_wall_stands_between_the_budget_and_the_limit() {
        assert_eq!(wall(800, 1000), Some(900));
        assert_eq!(wall(800, 800), None);
        assert_eq!(wall(800, 700), None);
    }

    #[test]
    fn sweeping_spares_what_is_not_ours_or_alive() {
        let dir = tempfile::tempdir().unwrap();
        let alive = format!("{PREFIX}{}", std::process::id());
        let full = format!("{PREFIX}4194999");
        for name in [
            "other-4194999",
            &alive,
            &full,
            "plimsoll-run-4194998/0000beef-1-program",
        ] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join(&full).join("x"), "").unwrap();
        sweep(dir.path());
        let mut left: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = vec!["other-4194999".to_owned(), alive, full];
        expected.sort();
        assert_eq!(left, expected);
    }
}
