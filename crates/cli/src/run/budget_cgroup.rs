//! A cgroup for the programs of one file. Its limit enforces the budget for all processes in it,
//! outsiders too. If no cgroup can be made, the budget is advisory: only the broker follows it.

use crate::own_cgroup::{Entry, NoCgroup, OwnCgroup};
use plimsoll_kernel::cgroup::Version;
use plimsoll_kernel::meminfo::MeminfoReader;
use plimsoll_unit::Bytes;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Characters of a program's name in that of its cgroup.
const MOST_SHOWN: usize = 48;

/// A cgroup that is removed when this is dropped.
#[derive(Debug)]
pub struct Budget {
    own: OwnCgroup,
    /// How many programs have got a cgroup in it.
    programs: AtomicU32,
}

impl Budget {
    /// Makes a cgroup limited to `bytes`. Where our own limit does not bind it, it gets that if it is
    /// tighter.
    ///
    /// # Errors
    /// As [`OwnCgroup::make`], or when it cannot be limited.
    pub fn make(bytes: Bytes) -> Result<Budget, NoCgroup> {
        let own = OwnCgroup::make()?;
        if let Some(cgroup) = own.cgroup() {
            let swap = MeminfoReader::open()
                .and_then(|reader| reader.read())
                .map_or(Bytes::ZERO, |memory| memory.swap_free);
            let above = own.escaped_limit().unwrap_or(Bytes::MAX);
            let limit = above.min(bound(bytes, swap));
            cgroup.set_limit(Some(limit))?;
            if let Some(wall) = wall(bytes, limit) {
                // Version 1 has no soft limit, so only the limit holds there.
                let _ = cgroup.set_high(Some(wall));
            }
        }
        Ok(Budget::of(own))
    }

    /// Makes a cgroup without a limit for the cgroups of programs; `None` under version 1, where the broker
    /// makes those.
    ///
    /// # Errors
    /// As [`OwnCgroup::make`].
    pub fn unlimited() -> Result<Option<Budget>, NoCgroup> {
        Ok(OwnCgroup::for_program()?.map(Budget::of))
    }

    fn of(own: OwnCgroup) -> Budget {
        Budget {
            own,
            programs: AtomicU32::new(1),
        }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        self.own.dir()
    }

    /// The way of a program into the budget: in version 2 into a cgroup of its own, because a group with
    /// limited children holds no processes itself; in version 1 into the one that the broker has `prepared`.
    pub fn entry(&self, program: &str, prepared: Option<&Path>) -> Entry {
        if self.is_divided() {
            // Numbered, because names may be those of the kernel's files, or differ in what a cgroup's name
            // may not have.
            let number = self.programs.fetch_add(1, Ordering::Relaxed);
            let program: String = program.chars().take(MOST_SHOWN).collect();
            let below = self.own.below(&format!("{number}-{program}"));
            return below.unwrap_or_else(|_| self.own.entry().clone());
        }
        let prepared = prepared.map(|dir| self.own.entry().to(dir));
        let prepared = prepared.filter(Entry::may_enter);
        prepared.unwrap_or_else(|| self.own.entry().clone())
    }

    /// Whether we make the cgroups of programs, and not the broker.
    pub fn is_divided(&self) -> bool {
        self.own
            .cgroup()
            .is_some_and(|own| own.version() == Version::V2)
    }
}

/// The limit of the cgroup. Without swap the kernel could only kill, and it kills the
/// largest process, not the one at fault. So without swap a quarter more is allowed for programs
/// that outrun the broker for a moment.
fn bound(budget: Bytes, swap_free: Bytes) -> Bytes {
    if swap_free < budget / 4 {
        budget + budget / 4
    } else {
        budget
    }
}

/// The soft limit at which the kernel begins to slow programs that it cannot page out. It
/// lies between the budget, to which programs are steered, and the limit, at which the kernel
/// kills. It gives collections time, without a process that watches. `None` if the limit leaves no
/// room above the budget, so that programs within the budget are never slowed.
fn wall(budget: Bytes, limit: Bytes) -> Option<Bytes> {
    let above = limit.above(budget)?;
    Some(budget + above / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_kernel::cgroup::Cgroup;

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
        assert_eq!(bound(Bytes(800), Bytes(1000)), Bytes(800));
        assert_eq!(bound(Bytes(800), Bytes(199)), Bytes(1000));
        assert_eq!(bound(Bytes::MAX, Bytes::ZERO), Bytes::MAX);
    }

    #[test]
    fn the_wall_stands_between_the_budget_and_the_limit() {
        assert_eq!(wall(Bytes(800), Bytes(1000)), Some(Bytes(900)));
        assert_eq!(wall(Bytes(800), Bytes(800)), None);
        assert_eq!(wall(Bytes(800), Bytes(700)), None);
    }
}
