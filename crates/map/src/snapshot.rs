//! The data of a process that one look reads.

use plimsoll_kernel::mounts::Mounts;
use plimsoll_kernel::process::{Process, proc_path, stack_limit, stack_pointers};
use plimsoll_kernel::smaps::{Area, areas, each_mapping};
use plimsoll_kernel::timeout::{Begun, Missed, Turns};
use plimsoll_kernel::{Error, Result};
use plimsoll_programs::Candidate;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Most mappings that are read. The kernel's usual limit is 65,530 (`vm.max_map_count`).
pub const MAX_MAPPINGS: usize = 1 << 18;
/// Most threads that are asked for their stack pointer.
const MAX_THREADS: usize = 16_384;

/// One look at a process. Data only, so that attribution can be tested without one.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Its number.
    pub pid: i32,
    /// The path that `/proc/PID/exe` names; empty where that is hidden.
    pub executable: PathBuf,
    /// The mounts that it sees. None where they could not be read: then our own mounts tell which files
    /// may be asked about, and none of its paths is looked up.
    pub mounts: Arc<Mounts>,
    /// Its mappings as `smaps` lists them, by address. While that is being read: as `maps` lists them,
    /// without any memory.
    pub mappings: Vec<Area>,
    /// Stack pointers of its threads, as far as the kernel shows them (`/proc/PID/task/*/syscall`).
    pub stack_pointers: Vec<u64>,
    /// The size of new stacks (the soft `RLIMIT_STACK`), bytes; 0 where it is hidden or unlimited.
    pub stack_limit: u64,
    /// Why not everything is here, a sentence each, for the person who reads the map.
    pub notes: Vec<String>,
}

impl Snapshot {
    /// Reads what a process shows. Each read takes at most `limit`.
    ///
    /// # Errors
    /// [`Error::Gone`]; [`Error::Denied`] where its mappings are hidden from us; [`Error::Busy`] when
    /// they could not be read in time; [`Error::Missed`] when that was not even begun.
    pub fn of(process: &Arc<Process>, limit: Duration) -> Result<Snapshot> {
        let turns = &mut Turns::default();
        let (mut snapshot, sizes) = Snapshot::begin(process, limit, turns)?;
        snapshot.mappings = sizes.wait(limit, turns)?;
        Ok(snapshot)
    }

    /// As [`Snapshot::unsized_of`]; how much memory the mappings have is still being read.
    ///
    /// # Errors
    /// As [`Snapshot::of`].
    pub(crate) fn begin(
        process: &Arc<Process>,
        limit: Duration,
        turns: &mut Turns,
    ) -> Result<(Snapshot, Sizes)> {
        let mut snapshot = Snapshot::listed(process, limit, turns)?;
        let sizes = Sizes::begin(process, limit, turns);
        snapshot.read_rest(process, limit, turns);
        Ok((snapshot, sizes))
    }

    /// As [`Snapshot::of`], but does not read how much memory the mappings have, which takes the kernel
    /// long: it walks through all pages (`Sizes`).
    ///
    /// # Errors
    /// As [`Snapshot::of`].
    pub fn unsized_of(process: &Arc<Process>, limit: Duration) -> Result<Snapshot> {
        let turns = &mut Turns::default();
        let mut snapshot = Snapshot::listed(process, limit, turns)?;
        snapshot.read_rest(process, limit, turns);
        Ok(snapshot)
    }

    /// Its mappings, as `maps` lists them. Nothing else is read of a process before: where that is late,
    /// one thread is left behind.
    fn listed(process: &Arc<Process>, limit: Duration, turns: &mut Turns) -> Result<Snapshot> {
        let pid = process.pid();
        let reader = Arc::clone(process);
        let mappings = turns.within(limit, move || {
            let mut found = Vec::new();
            each_mapping(&reader, &mut |area| {
                found.push(area.clone());
                found.len() < MAX_MAPPINGS
            })?;
            Ok(found)
        });
        let mut snapshot = Snapshot {
            pid,
            mappings: mappings.unwrap_or_else(|why| Err(missed(pid, why)))?,
            ..Snapshot::default()
        };
        snapshot.mappings.sort_by_key(|area| area.addresses.start);
        if snapshot.mappings.len() >= MAX_MAPPINGS {
            snapshot.notes.push(format!(
                "it has more than {MAX_MAPPINGS} mappings: those at the highest addresses are missing"
            ));
        }
        Ok(snapshot)
    }

    /// The program that it runs, the mounts that it sees, and its stacks.
    fn read_rest(&mut self, process: &Arc<Process>, limit: Duration, turns: &mut Turns) {
        if let Ok(Some(executable)) = process.exe() {
            self.executable = executable;
        }
        let reader = Arc::clone(process);
        match turns.within(limit, move || Mounts::of(&reader)) {
            Ok(Ok(mounts)) => self.mounts = Arc::new(mounts),
            Ok(Err(error)) => self
                .notes
                .push(format!("on what its files lie is not known: {error}")),
            Err(why) => self
                .notes
                .push(format!("on what its files lie is not known: {why}")),
        }
        let reader = Arc::clone(process);
        match turns.within(limit, move || stack_pointers(&reader, MAX_THREADS)) {
            Ok(Ok(found)) => self.stack_pointers = found.known,
            Ok(Err(error)) if error.is_denied() => self.notes.push(
                "where the stacks of its threads are is shown to debuggers only (CAP_SYS_PTRACE, or \
                 kernel.yama.ptrace_scope 0): they were told by their size"
                    .into(),
            ),
            _ => {}
        }
        self.stack_limit = stack_limit(process).ok().flatten().map_or(0, |it| it.0);
    }

    /// It as evidence of its runtime.
    pub fn candidate(&self) -> Candidate<'_> {
        let pid = self.pid.try_into().unwrap_or(0);
        Candidate::seen(pid, &self.executable, &self.mounts, &self.mappings)
    }

    /// The mappings of a file whose path satisfies `is`.
    pub fn mappings_of(&self, is: impl Fn(&Path) -> bool) -> impl Iterator<Item = &Area> {
        self.mappings
            .iter()
            .filter(move |area| is(Path::new(&area.name)))
    }
}

/// Reads of one process that are still under way, from look to look. A file may be behind a server that
/// does not answer, which says nothing of the process: so a read waits only for reads of its own kind.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Reads of the process itself, some under its lock.
    pub(crate) process: Turns,
    /// Reads that may open its files, too.
    pub(crate) files: Turns,
}

/// A read of `smaps` that was begun.
pub(crate) struct Sizes {
    pid: i32,
    mappings: Begun<Result<Vec<Area>>>,
}

impl Sizes {
    fn begin(process: &Arc<Process>, limit: Duration, turns: &mut Turns) -> Sizes {
        let reader = Arc::clone(process);
        Sizes {
            pid: process.pid(),
            mappings: turns.begin(limit, move || areas(&reader, MAX_MAPPINGS)),
        }
    }

    /// The mappings, by address, with how much memory they have.
    ///
    /// # Errors
    /// As [`Snapshot::of`].
    pub(crate) fn wait(self, limit: Duration, turns: &mut Turns) -> Result<Vec<Area>> {
        let read = turns.wait(self.mappings, limit);
        let mut mappings = read.unwrap_or_else(|why| Err(missed(self.pid, why)))?;
        mappings.sort_by_key(|area| area.addresses.start);
        Ok(mappings)
    }
}

/// Whether two lists of mappings are of the same places, whatever memory is there.
pub(crate) fn are_same_places(a: &[Area], b: &[Area]) -> bool {
    let place = |area: &Area| {
        let rights = [
            area.readable,
            area.writable,
            area.executable,
            area.shared_mapping,
        ];
        (area.addresses.clone(), rights, area.offset, area.file)
    };
    let same = |(a, b): (&Area, &Area)| place(a) == place(b) && a.name == b.name;
    a.len() == b.len() && a.iter().zip(b).all(same)
}

fn missed(pid: i32, why: Missed) -> Error {
    let path = proc_path(pid, "smaps");
    match why {
        Missed::Late => Error::Busy {
            path,
            why: "it was not read in time: its address space is very large, or something holds its lock",
        },
        why => Error::Missed { path, why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_begun_is_not_blamed_on_the_process() {
        let text = |why| missed(7, why).to_string();
        assert!(text(Missed::Late).contains("something holds its lock"));
        let crowded = text(Missed::Crowded);
        assert!(
            crowded.starts_with("/proc/7/smaps was not read: 32 earlier reads"),
            "{crowded}"
        );
        assert!(
            !crowded.contains("lock") && !crowded.contains("busy"),
            "{crowded}"
        );
    }
}
