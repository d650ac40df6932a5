//! The report. Its fields are a contract of `plimsoll pin --json`.

use crate::allowance::Bound;
use crate::limits::Reached;
use serde::Serialize;

/// Means by which a process may lock more.
pub const MORE_LOCKS: &str = "`ulimit -l`, LimitMEMLOCK= in a unit, or CAP_IPC_LOCK";

/// Where the pinner stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The first window is not over, or nothing is worth holding.
    #[default]
    Watching,
    /// Pages are held.
    Holding,
    /// Nothing may be held now: memory is short, the process may lock nothing, or it cannot be read how
    /// much memory the programs have left.
    Short,
    /// Nothing is held, because nothing can be swapped.
    Refused,
}

/// Figures of now; sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Where it stands.
    pub state: State,
    /// The part of the programs' major faults that are of no lost page of a file, but of memory in swap or
    /// of files that are read for the first time; 0 to 1. `None` where there were no faults, and where frames
    /// are hidden, so that not all lost pages are seen.
    pub other_faults: Option<f64>,
    /// Memory of the domain that we are in.
    pub capacity: u64,
    /// The most that is ever held.
    pub budget: u64,
    /// The most that may be held now.
    pub allowance: u64,
    /// Why not more.
    pub bound: Option<Bound>,
    /// Locked now, with `--dry-run` what would be.
    pub held: u64,
    /// Processes that are watched.
    pub processes: usize,
    /// Files that they have mapped and that may be held.
    pub files: usize,
    /// Their file pages that are present in page tables.
    pub present: u64,
    /// Rounds so far.
    pub rounds: u64,
    /// Refaults that were seen, pages a second.
    pub refaults_per_second: f64,
    /// The programs' major faults a second; those that read from swap count too.
    pub major_faults_per_second: f64,
    /// The same when pages were first held; null before that.
    pub major_faults_before: Option<f64>,
    /// Processor time that we took, part of one processor.
    pub processor: f64,
    /// Groups of the programs that may have less held in them than the budget.
    pub groups: Vec<Group>,
    /// Whether there were more files, pages, processes or groups than are followed.
    pub truncated: bool,
    /// The limits that are reached; those of files, mappings and pages within the last window.
    pub limits: Vec<Reached>,
}

/// A cgroup of programs in which less than the budget may be held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Its directory.
    pub path: String,
    /// The most that may be held now of files that its programs have mapped.
    pub allowance: u64,
    /// Why not more.
    pub bound: Bound,
    /// With [`Bound::Unreadable`]: what could not be read.
    pub reason: Option<String>,
    /// Held bytes of these files.
    pub held: u64,
}

impl Report {
    /// The first group in which this bounds what may be held.
    #[must_use]
    pub fn bounded(&self, bound: Bound) -> Option<&Group> {
        self.groups.iter().find(|group| group.bound == bound)
    }

    /// With [`State::Short`]: what bars that anything is held, and the group of programs in which it does;
    /// no group where it is the domain that we are in.
    #[must_use]
    pub fn barrier(&self) -> (Bound, Option<&Group>) {
        let own = self.bound.unwrap_or(Bound::Short);
        if self.allowance == 0 {
            return (own, None);
        }
        let first = [
            Bound::Unreadable,
            Bound::Short,
            Bound::Unwatched,
            Bound::NoSwap,
        ];
        let group = first.into_iter().find_map(|bound| self.bounded(bound));
        group.map_or((own, None), |group| (group.bound, Some(group)))
    }

    /// With [`State::Short`]: why nothing may be held now.
    #[must_use]
    pub fn barred(&self) -> String {
        match self.barrier() {
            (Bound::Unreadable, Some(group)) => group.not_read(),
            (Bound::Short, Some(group)) => format!("memory is too short in {}", group.path),
            (Bound::NoSwap, Some(group)) => group.not_swapped(),
            (Bound::Unwatched, _) => "the programs are in more cgroups than are watched".into(),
            (Bound::LockLimit, _) => format!("this process may lock no memory ({MORE_LOCKS})"),
            _ => "memory is too short".into(),
        }
    }
}

impl Group {
    /// Why nothing may be held there, with [`Bound::Unreadable`].
    #[must_use]
    pub fn not_read(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or("it is gone");
        format!(
            "how much memory {} has left cannot be read: {reason}",
            self.path
        )
    }

    /// Why nothing may be held there, with [`Bound::NoSwap`].
    #[must_use]
    pub fn not_swapped(&self) -> String {
        format!("no memory in {} can go to swap", self.path)
    }
}

/// A range of a file that is held, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Held {
    /// The file as a program sees it.
    pub path: String,
    /// Whether the file has no name any more.
    pub deleted: bool,
    /// The device, `major:minor`.
    pub device: String,
    /// The inode.
    pub inode: u64,
    /// Where the range begins in the file.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// Pages of it that came back a second, as seen when it was chosen.
    pub refaults_per_second: f64,
    /// Reads a second that this stood for: what holding it saves.
    pub reads_per_second: f64,
    /// Bytes a second that were read again.
    pub bytes_per_second: f64,
    /// The cost of a read of it, as measured on its disk when it was chosen, ns.
    pub read_ns: u64,
    /// How many processes have the file mapped.
    pub processes: usize,
    /// Their numbers, at most 64 of them.
    pub pids: Vec<i32>,
}

/// A file or process that is passed over, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Passed {
    /// A process, or null.
    pub pid: Option<i32>,
    /// Why, a sentence that names the file or the process.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_barrier_has_its_reason() {
        let group = |path: &str, bound| Group {
            path: path.into(),
            allowance: 0,
            bound,
            reason: (bound == Bound::Unreadable).then(|| "memory.stat is not ours".into()),
            held: 0,
        };
        let mut report = Report {
            state: State::Short,
            bound: Some(Bound::Budget),
            allowance: 1,
            ..Report::default()
        };
        for (path, bound, why) in [
            ("/a", Bound::NoSwap, "no memory in /a can go to swap"),
            ("/b", Bound::Unwatched, "the programs are in more cgroups"),
            ("/c", Bound::Short, "memory is too short in /c"),
            (
                "/d",
                Bound::Unreadable,
                "how much memory /d has left cannot be read: memory.stat is not ours",
            ),
        ] {
            report.groups.push(group(path, bound));
            assert_eq!(report.barrier().0, bound);
            assert!(report.barred().starts_with(why), "{}", report.barred());
        }
        // Where we may hold nothing ourselves, the groups do not matter.
        report.allowance = 0;
        report.bound = Some(Bound::Short);
        assert_eq!(report.barred(), "memory is too short");
        report.bound = Some(Bound::LockLimit);
        assert!(report.barred().contains("ulimit -l"), "{}", report.barred());
    }
}
