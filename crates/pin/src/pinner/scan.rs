//! Rounds of looks at the programs.

use super::pace::Pace;
use super::skipped::{Over, Refused, Why, reason_of};
use crate::descriptors::{self, MAX_PROCESSES};
use crate::limits::{Limit, Reached};
use crate::mapped_pages::{Seen, Watched, group_of};
use crate::options::{Options, Programs};
use crate::refaults::Evidence;
use crate::report::Passed;
use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::{Process, descendants, exists, numbers};
use plimsoll_kernel::smaps::FileKey;
use plimsoll_kernel::timeout::within;
use plimsoll_kernel::{Error, Result};
use plimsoll_unit::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long one look may take before the process is passed over.
const PATIENCE: Duration = Duration::from_secs(2);

/// The result of a finished round.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// Major faults of the programs since the round before.
    pub(super) majors: u64,
    /// Files that cannot be held.
    pub(super) passed: Vec<(FileKey, crate::error::PinError)>,
    /// There were more of those than are reported.
    pub(super) more_passed: bool,
    /// A process that was read only in part.
    cut: Option<i32>,
}

/// The programs, and where the present round stands.
#[derive(Debug)]
pub(super) struct Gather {
    programs: Programs,
    window: Nanos,
    pace: Pace,
    subjects: BTreeMap<i32, Watched>,
    refused: BTreeMap<i32, Refused>,
    /// Given processes that were watched and have exited: their numbers may be others' by now.
    exited: BTreeSet<i32>,
    /// Still to be looked at in this round.
    queue: Vec<i32>,
    amid: bool,
    finished: Finished,
    /// That there are more processes than are watched.
    full: Option<String>,
    /// Why no list of the processes could be had.
    note: Option<String>,
    /// A process that was read only in part in the last round.
    cut: Option<i32>,
}

impl Gather {
    pub(super) fn new(programs: Programs, options: Options, now: Nanos) -> Gather {
        Gather {
            programs,
            window: options.window,
            pace: Pace::new(options, now),
            subjects: BTreeMap::new(),
            refused: BTreeMap::new(),
            exited: BTreeSet::new(),
            queue: Vec::new(),
            amid: false,
            finished: Finished::default(),
            full: None,
            note: None,
            cut: None,
        }
    }

    pub(super) fn watch(&mut self, programs: Programs) {
        self.programs = programs;
        self.exited.clear();
    }

    pub(super) fn is_amid(&self) -> bool {
        self.amid
    }

    /// The processor time, and when the next round is due.
    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    pub(super) fn pace_mut(&mut self) -> &mut Pace {
        &mut self.pace
    }

    pub(super) fn processes(&self) -> usize {
        self.subjects.len()
    }

    /// The limits that are reached.
    pub(super) fn limits(&self) -> impl Iterator<Item = Reached> + '_ {
        let processes = self.full.clone().map(|reason| Reached {
            limit: Limit::Processes,
            reason,
        });
        let cut = self.cut.map(|pid| Reached {
            limit: Limit::Look,
            reason: format!(
                "process {pid} has more mappings of files, or pages present in them, than are looked at: \
                 only a part of it is watched"
            ),
        });
        processes.into_iter().chain(cut)
    }

    /// Whether none of the given programs runs any more.
    pub(super) fn is_alone(&self) -> bool {
        if self.subjects.values().any(Watched::alive) {
            return false;
        }
        let runs = |pid: &i32| {
            let ours = self.exited.contains(pid) || self.subjects.contains_key(pid);
            !ours && Process::open(*pid).is_ok_and(|process| process.alive())
        };
        match &self.programs {
            Programs::Processes(given) => !given.iter().any(runs),
            Programs::Group(dir) => !dir.exists(),
            Programs::All => false,
        }
    }

    pub(super) fn passed(&self) -> impl Iterator<Item = Passed> + '_ {
        let named = self
            .refused
            .iter()
            .filter_map(|(pid, refused)| match &refused.why {
                Why::Named(reason) | Why::Stuck { reason, .. } => Some(Passed {
                    pid: Some(*pid),
                    reason: reason.clone(),
                }),
                Why::Others | Why::Nothing => None,
            });
        let of_others = |refused: &&Refused| matches!(refused.why, Why::Others);
        let count = self.refused.values().filter(of_others).count();
        let words = "processes of other users or with other rights: root can look at them";
        let others = (count > 0).then(|| format!("{count} {words}"));
        let notes = self.note.iter().chain(&self.full).cloned().chain(others);
        notes
            .map(|reason| Passed { pid: None, reason })
            .chain(named)
    }

    /// The number of things that [`Gather::passed`] lists.
    pub(super) fn count_passed(&self) -> usize {
        let (mut told, mut others) = (0, 0);
        for refused in self.refused.values() {
            match refused.why {
                Why::Named(_) | Why::Stuck { .. } => told += 1,
                Why::Others => others = 1,
                Why::Nothing => {}
            }
        }
        told + others + usize::from(self.note.is_some()) + usize::from(self.full.is_some())
    }

    /// The memory cgroup of a process that is watched, or that is stuck.
    pub(super) fn group_of(&self, pid: i32) -> Option<&Path> {
        match self.subjects.get(&pid) {
            Some(subject) => subject.group(),
            None => self.refused.get(&pid)?.group(),
        }
    }

    /// The user of a process that is watched.
    #[rustfmt::skip]
    pub(super) fn user_of(&self, pid: i32) -> Option<u32> { self.subjects.get(&pid).map(Watched::user) }

    /// The memory cgroups of all that are watched, or that are stuck.
    pub(super) fn groups(&self) -> BTreeSet<&Path> {
        let watched = self.subjects.values().filter_map(Watched::group);
        let stuck = self.refused.values().filter_map(Refused::group);
        watched.chain(stuck).collect()
    }

    /// Whether one of them is in no memory cgroup, or in none that is known.
    pub(super) fn has_ungrouped(&self) -> bool {
        let no_group = |refused: &Refused| matches!(refused.why, Why::Stuck { group: None, .. });
        let mut watched = self.subjects.values();
        watched.any(|subject| subject.group().is_none()) || self.refused.values().any(no_group)
    }

    /// Goes on with a round, or begins one. Returns what it found when it is finished.
    pub(super) fn step(
        &mut self,
        now: Nanos,
        slice: Nanos,
        evidence: &mut Evidence,
    ) -> Option<Finished> {
        if !self.amid {
            if now < self.pace.next() {
                return None;
            }
            self.begin(now);
            evidence.begin_round();
            for (pid, refused) in &self.refused {
                if matches!(refused.why, Why::Stuck { .. }) && exists(*pid) {
                    evidence.missed(*pid);
                }
            }
        }
        let until = clock::now() + slice;
        while let Some(pid) = self.queue.pop() {
            self.look(pid, now, evidence);
            if clock::now() >= until && !self.queue.is_empty() {
                return None;
            }
        }
        self.amid = false;
        self.pace.end_looks();
        self.cut = self.finished.cut;
        Some(std::mem::take(&mut self.finished))
    }

    fn begin(&mut self, now: Nanos) {
        self.amid = true;
        self.pace.begin_round(now);
        self.refused.retain(|_, refused| refused.holds(now));
        self.forget_exited();
        let mut found = Vec::new();
        self.note = None;
        let listed = self.list(&mut found);
        // A process that left its group is watched no more. Children that lost their parent are in no list,
        // and where there is no list, nobody is known to have left.
        let keeps = match &listed {
            Ok(_) => matches!(self.programs, Programs::Processes(_)),
            Err(error) => !error.is_absent(),
        };
        let complete = match listed {
            Ok(complete) => complete,
            Err(error) => {
                self.note = Some(error.to_string());
                true
            }
        };
        if keeps {
            found.extend(self.subjects.keys());
        }
        found.sort_unstable();
        found.dedup();
        let own = std::process::id() as i32;
        found.retain(|pid| *pid != own && !self.refused.contains_key(pid));
        self.bound(&mut found, complete, descriptors::processes());
        self.subjects
            .retain(|pid, _| found.binary_search(pid).is_ok());
        self.queue = found;
    }

    /// Leaves out what is too many. Where the list is not complete, there may be more than were found.
    fn bound(&mut self, found: &mut Vec<i32>, complete: bool, most: usize) {
        let (all, watched) = (found.len(), found.len().min(most));
        found.truncate(most);
        self.full = (all > watched || !complete).then(|| {
            let than = if complete { "" } else { "at least " };
            let more = if most < MAX_PROCESSES {
                ": a higher limit of open files (`ulimit -n`) allows more"
            } else {
                ""
            };
            format!("of {than}{all} processes only {watched} are watched{more}")
        });
    }

    fn forget_exited(&mut self) {
        let (exited, programs) = (&mut self.exited, &self.programs);
        self.subjects.retain(|pid, subject| {
            let alive = subject.alive();
            if !alive && is_given(programs, *pid) {
                exited.insert(*pid);
            }
            alive
        });
    }

    /// Lists the processes; false when there are more.
    fn list(&self, found: &mut Vec<i32>) -> Result<bool> {
        match &self.programs {
            Programs::Processes(given) => {
                let running = given.iter().filter(|pid| !self.exited.contains(pid));
                let (mut complete, mut failed) =
                    (running.clone().nth(MAX_PROCESSES).is_none(), None);
                for pid in running.take(MAX_PROCESSES) {
                    found.push(*pid);
                    let room = MAX_PROCESSES.saturating_sub(found.len());
                    match descendants(*pid, room, found) {
                        Ok(all) => complete &= all,
                        Err(error) => failed = Some(error),
                    }
                }
                failed.map_or(Ok(complete), Err)
            }
            Programs::Group(dir) => Cgroup::at(dir)?.processes(MAX_PROCESSES, found),
            Programs::All => {
                found.extend(numbers()?);
                Ok(true)
            }
        }
    }

    /// Looks at a process. All that may wait for it is done in time or not at all.
    fn look(&mut self, pid: i32, now: Nanos, evidence: &mut Evidence) {
        let known = self.subjects.remove(&pid);
        let over = Arc::new(AtomicBool::new(false));
        let ends = Over(Arc::clone(&over));
        let looked = within(PATIENCE, move || {
            let _ends = ends;
            let mut watched = known.map_or_else(|| Watched::open(pid), Ok)?;
            let seen = watched.look()?;
            Ok::<_, Error>((watched.new_majors()?, watched, seen))
        });
        match looked {
            Ok(Ok((majors, watched, seen))) => {
                self.take_in(pid, majors, seen, evidence);
                self.subjects.insert(pid, watched);
            }
            Ok(Err(error)) => self.refuse(pid, now, &error),
            Err(missed) => {
                let reason = reason_of(pid, missed);
                evidence.missed(pid);
                let group = group_of(pid).ok().flatten();
                self.refuse_for(pid, now, Why::Stuck { reason, group }, over);
            }
        }
    }

    fn take_in(&mut self, pid: i32, majors: u64, seen: Seen, evidence: &mut Evidence) {
        self.pace.count_look(seen.cost);
        self.finished.majors = self.finished.majors.saturating_add(majors);
        if seen.truncated {
            self.finished.cut.get_or_insert(pid);
        }
        for view in &seen.views {
            evidence.saw(view);
        }
        self.finished.passed.extend(seen.passed);
        self.finished.more_passed |= seen.more_passed;
    }

    /// Passes over a process for a window. One that exited after it was watched is nothing to report.
    fn refuse(&mut self, pid: i32, now: Nanos, error: &Error) {
        let given = is_given(&self.programs, pid);
        // It has no memory of its own, so the kernel says that there is no such process.
        let of_kernel = |process: Process| process.stat().is_ok_and(|stat| stat.of_kernel);
        let thread = error.is_gone() && Process::open(pid).is_ok_and(of_kernel);
        let why = match (given, thread, error.is_gone(), error.is_denied()) {
            (true, true, ..) => Why::Named(format!(
                "process {pid} is a kernel thread, which maps no file"
            )),
            (false, true, ..) => Why::Nothing,
            (false, _, true, _) => return,
            (false, _, _, true) => Why::Others,
            _ => Why::Named(error.to_string()),
        };
        self.refuse_for(pid, now, why, Arc::new(AtomicBool::new(true)));
    }

    fn refuse_for(&mut self, pid: i32, now: Nanos, why: Why, over: Arc<AtomicBool>) {
        if self.refused.len() < MAX_PROCESSES {
            let until = now + self.window;
            let refused = Refused { why, until, over };
            self.refused.insert(pid, refused);
        }
    }
}

/// Whether a process is one of those that were named.
fn is_given(programs: &Programs, pid: i32) -> bool {
    match programs {
        Programs::Processes(given) => given.contains(&pid),
        Programs::Group(_) | Programs::All => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn stuck(group: Option<&str>) -> Why {
        Why::Stuck {
            reason: String::new(),
            group: group.map(PathBuf::from),
        }
    }

    #[test]
    fn processes_that_are_too_many_are_told() {
        let mut gather = Gather::new(Programs::All, Options::default(), Nanos::ZERO);
        let mut told = |complete, most| {
            let mut found: Vec<i32> = (1..31).collect();
            gather.bound(&mut found, complete, most);
            let limits: Vec<Reached> = gather.limits().collect();
            assert_eq!(gather.count_passed(), gather.passed().count());
            assert_eq!(gather.count_passed(), limits.len());
            let reason = limits.first().map(|reached| reached.reason.clone());
            (found.len(), reason.unwrap_or_default())
        };
        assert_eq!(told(true, MAX_PROCESSES), (30, String::new()));
        let (left, reason) = told(true, 16);
        assert_eq!(left, 16);
        assert!(reason.starts_with("of 30 processes only 16 are watched: a higher"));
        let (left, reason) = told(false, MAX_PROCESSES);
        assert_eq!(left, 30);
        assert_eq!(reason, "of at least 30 processes only 30 are watched");
        assert_eq!(told(true, 30), (30, String::new()));
        gather.cut = Some(7);
        let all: Vec<Limit> = gather.limits().map(|reached| reached.limit).collect();
        assert_eq!(all, [Limit::Look]);
    }

    #[test]
    fn the_group_of_a_process_that_is_stuck_is_known() {
        let mut gather = Gather::new(Programs::All, Options::default(), Nanos::ZERO);
        let over = || Arc::new(AtomicBool::new(false));
        gather.refuse_for(7, Nanos(1), stuck(Some("/a")), over());
        gather.refuse_for(8, Nanos(1), Why::Others, over());
        gather.refuse_for(9, Nanos(1), stuck(None), over());
        assert_eq!(gather.group_of(7), Some(Path::new("/a")));
        assert_eq!((gather.group_of(8), gather.group_of(9)), (None, None));
        assert_eq!(gather.groups().len(), 1);
        assert!(gather.has_ungrouped());
        gather.refused.remove(&9);
        assert!(!gather.has_ungrouped());
    }

    #[test]
    fn a_number_that_was_given_to_another_process_is_not_watched() {
        let mut program = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = program.id() as i32;
        let own = std::process::id() as i32;
        let mut gather = Gather::new(
            Programs::Processes(vec![pid]),
            Options::default(),
            Nanos::ZERO,
        );
        let mut evidence = Evidence::new(Nanos::seconds(1), Nanos::ZERO);
        let mut round = |gather: &mut Gather, now| {
            gather.pace.set_due();
            gather
                .step(Nanos(now), Nanos::seconds(1 << 30), &mut evidence)
                .is_some()
        };
        assert!(round(&mut gather, 1));
        assert_eq!(gather.processes(), 1);
        assert!(!gather.is_alone());
        program.kill().unwrap();
        program.wait().unwrap();
        assert!(gather.is_alone());
        assert!(round(&mut gather, 2));
        assert!(gather.exited.contains(&pid));
        // As if the number were that of a process that lives.
        gather.exited.insert(own);
        gather.programs = Programs::Processes(vec![own]);
        assert!(round(&mut gather, 3) && gather.is_alone());
        gather.watch(Programs::Processes(vec![own]));
        assert!(!gather.is_alone());
    }
}
