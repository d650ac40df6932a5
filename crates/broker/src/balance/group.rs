//! One subject: counters of its cgroup, waits of its processes, and its swappiness.

use super::reading::{Place, Reading, Subject};
use plimsoll_kernel::cgroup::{Cgroup, Version, locate};
use plimsoll_kernel::process::Handle;
use plimsoll_kernel::stalls::Taskstats;
use plimsoll_kernel::{Error, Result};
use plimsoll_policy::balance::{Balance, CostEstimate, Costs, Period};
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::Refaulted;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Rounds after which a subject without a cgroup of its own is looked for again.
const ROUNDS_PER_LOOK: u32 = 16;

/// Most rounds that pass without a look at a subject without refaults.
const LONGEST_CALM: u32 = 15;

/// Times that a process had waited and run at the last reading.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// For blocks and for swap, and how often.
    waited: Nanos,
    waits: u64,
    /// In the program itself.
    ran: Nanos,
}

/// Sums over the processes that were there in two rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    waited: f64,
    waits: u64,
    ran: f64,
    known: bool,
}

/// Counters at the last round.
#[derive(Clone, Copy, Debug)]
struct Before {
    at: Nanos,
    file: u64,
    anon: u64,
}

/// A subject with what is known of it.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The cgroup that counts it. Nothing of it stays open: there may be thousands.
    directory: Option<PathBuf>,
    rounds: u32,
    before: Option<Before>,
    times: HashMap<(i32, u64), Times>,
    estimate: CostEstimate,
    /// Present where the swappiness is ours to change.
    lever: Option<Lever>,
    /// Rounds that pass after a look at which nothing had been read again, and how many are left.
    calm: u32,
    left: u32,
}

/// The swappiness of a cgroup of ours.
#[derive(Debug)]
struct Lever {
    balance: Balance,
    /// As written or read last.
    now: u32,
    /// Somebody else set it, or it cannot be written: it is left alone from now on.
    given_up: bool,
}

impl Lever {
    /// The swappiness to put back at the end; none if somebody else set another.
    fn to_put_back(&self) -> Option<u32> {
        (!self.given_up).then(|| self.balance.usual())
    }
}

/// The state that all subjects of a round share.
pub(super) struct Round<'r> {
    /// When it began.
    pub(super) now: Nanos,
    /// By the devices, where known.
    pub(super) devices: Option<Costs>,
    /// Whether a swappiness may be changed, and there is room in swap.
    pub(super) may_shift: bool,
    /// The kernel's accounting of waits, where it is switched on.
    pub(super) taskstats: Option<&'r mut Taskstats>,
}

impl Group {
    /// Whether it is to be measured in this round. Calm subjects are looked at ever more rarely.
    pub(super) fn is_due(&mut self) -> bool {
        let due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        due
    }

    /// Notes how much was read again. One whose swappiness differs from the usual is looked at in
    /// each round.
    fn pace(&mut self, pages: u64) {
        let moved = |lever: &Lever| lever.to_put_back().is_some_and(|usual| usual != lever.now);
        let awake = pages > 0 || self.lever.as_ref().is_some_and(moved);
        self.calm = if awake {
            0
        } else {
            (self.calm * 2).clamp(1, LONGEST_CALM)
        };
        self.left = self.calm;
    }

    /// Measures the subject, and changes its swappiness where that is allowed. `None` until there
    /// are two readings, and where it cannot be told from others.
    pub(super) fn step(&mut self, subject: &Subject, round: &mut Round<'_>) -> Option<Reading> {
        self.find(subject);
        let opened = Cgroup::at(self.directory.as_deref()?);
        let read = opened.and_then(|cgroup| Ok((cgroup.stat()?, cgroup)));
        let (stat, cgroup) = read
            .inspect_err(|error| {
                tracing::debug!(principal = subject.id, %error, "its refaults cannot be read");
            })
            .ok()?;
        self.find_lever(subject, &cgroup);
        let sums = self.times_of(subject, round);
        let now = Before {
            at: round.now,
            file: stat.refault_file,
            anon: stat.refault_anon,
        };
        let before = self.before.replace(now)?;
        let length = (now.at - before.at).0 as f64 / 1e9;
        let period = Period {
            length,
            file: now.file.saturating_sub(before.file),
            anon: now.anon.saturating_sub(before.anon),
            ran: sums.known.then_some(sums.ran),
        };
        if sums.waits > 0 {
            self.estimate.note(period.file, period.anon, sums.waited);
        }
        let costs = self.costs(round.devices);
        let usable = costs.unwrap_or(Costs::UNKNOWN);
        let may = round.may_shift && subject.noted;
        self.shift(&cgroup, &period, &usable, may, subject);
        self.pace(period.file.saturating_add(period.anon));
        let rate = |pages: u64| pages as f64 / length.max(0.001);
        Some(Reading {
            file: rate(period.file),
            anon: rate(period.anon),
            pages: Refaulted {
                file: period.file,
                anon: period.anon,
            },
            costs,
            swappiness: self.swappiness(&cgroup),
            usual: self.lever.as_ref().and_then(Lever::to_put_back),
        })
    }

    fn costs(&self, devices: Option<Costs>) -> Option<Costs> {
        let estimate = self.estimate.costs(&devices.unwrap_or(Costs::UNKNOWN));
        let known = devices.is_some() || estimate != Costs::UNKNOWN;
        known.then_some(estimate)
    }

    fn swappiness(&self, cgroup: &Cgroup) -> Option<u32> {
        match &self.lever {
            Some(lever) => Some(lever.now),
            None => read(cgroup).ok(),
        }
    }

    /// Finds the cgroup that counts this subject alone.
    fn find(&mut self, subject: &Subject) {
        let look = self.rounds.is_multiple_of(ROUNDS_PER_LOOK);
        self.rounds = self.rounds.wrapping_add(1);
        let directory = match &subject.place {
            Place::Home(directory) | Place::Domain(directory) => Some(directory.clone()),
            Place::Own if look => alone_in(&subject.processes),
            Place::Own => self.directory.clone(),
        };
        if self.directory == directory {
            return;
        }
        self.put_back();
        self.directory = directory;
        self.before = None;
    }

    /// Under version 1 the swappiness of a cgroup that the broker made is a lever.
    fn find_lever(&mut self, subject: &Subject, cgroup: &Cgroup) {
        let ours = matches!(subject.place, Place::Home(_)) && cgroup.version() == Version::V1;
        if self.lever.is_some() || !ours {
            return;
        }
        self.lever = read(cgroup).ok().map(|usual| Lever {
            balance: Balance::new(usual),
            now: usual,
            given_up: false,
        });
    }

    /// How long the processes waited and ran since the last round.
    fn times_of(&mut self, subject: &Subject, round: &mut Round<'_>) -> Sums {
        let mut sums = Sums::default();
        let mut seen = HashMap::with_capacity(subject.processes.len());
        for &(pid, started) in &subject.processes {
            let Some(ran) = user_time(pid, started) else {
                continue;
            };
            let taskstats = round.taskstats.as_deref_mut();
            let waits = taskstats.and_then(|taskstats| taskstats.process(pid).ok());
            let waits = waits.unwrap_or_default();
            let times = Times {
                waited: waits.block + waits.swapin,
                waits: waits.block_count.saturating_add(waits.swapin_count),
                ran,
            };
            if let Some(before) = self.times.get(&(pid, started)) {
                let seconds = |now: Nanos, before: Nanos| (now - before).0 as f64 / 1e9;
                sums.waited += seconds(times.waited, before.waited);
                sums.waits += times.waits.saturating_sub(before.waits);
                sums.ran += seconds(times.ran, before.ran);
                sums.known = true;
            }
            seen.insert((pid, started), times);
        }
        self.times = seen;
        sums
    }

    fn shift(
        &mut self,
        cgroup: &Cgroup,
        period: &Period,
        costs: &Costs,
        may: bool,
        subject: &Subject,
    ) {
        let Some(lever) = &mut self.lever else {
            return;
        };
        if lever.given_up {
            lever.now = read(cgroup).unwrap_or(lever.now);
            return;
        }
        match read(cgroup) {
            Ok(found) if found != lever.now => {
                tracing::info!(
                    principal = subject.id,
                    swappiness = found,
                    "somebody set its swappiness; it stays as it is"
                );
                (lever.given_up, lever.now) = (true, found);
                return;
            }
            Ok(_) => {}
            Err(_) => return,
        }
        let was = lever.balance.kept();
        let mut wanted = lever.balance.step(period, costs, may);
        if !may {
            wanted = lever.balance.usual();
        }
        if wanted == lever.now {
            return;
        }
        match cgroup.set_swappiness(wanted.into()) {
            Ok(()) => lever.now = wanted,
            Err(error) => {
                tracing::warn!(principal = subject.id, %error, "its swappiness cannot be changed");
                lever.given_up = true;
            }
        }
        let kept = lever.balance.kept();
        if kept != was {
            tracing::info!(
                principal = subject.id,
                from = was,
                to = kept,
                "its swappiness was changed: it waits less for pages that are read again"
            );
        }
    }

    /// Puts the swappiness back that was found, unless somebody else set another.
    pub(super) fn put_back(&mut self) {
        let (Some(lever), Some(directory)) = (self.lever.take(), &self.directory) else {
            return;
        };
        if let Some(usual) = lever.to_put_back().filter(|&usual| usual != lever.now)
            // A cgroup that is gone needs nothing.
            && let Ok(cgroup) = Cgroup::at(directory)
        {
            put_back(&cgroup, lever.now, usual);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.put_back();
    }
}

/// Sets the swappiness to `usual` if it is still `ours`.
fn put_back(cgroup: &Cgroup, ours: u32, usual: u32) {
    if read(cgroup).ok() != Some(ours) {
        return;
    }
    if let Err(error) = cgroup.set_swappiness(usual.into()) {
        tracing::warn!(%error, "a swappiness could not be put back");
    }
}

fn read(cgroup: &Cgroup) -> Result<u32> {
    let swappiness = cgroup.swappiness()?;
    u32::try_from(swappiness).map_err(|_| Error::Broken {
        path: cgroup.dir().join("memory.swappiness"),
        why: "it is above 200",
    })
}

fn user_time(pid: i32, started: u64) -> Option<Nanos> {
    let pid = u32::try_from(pid).ok()?;
    Handle { pid, started }.user()
}

/// The cgroup of these processes, if all of them are in it and nobody else is.
fn alone_in(processes: &[(i32, u64)]) -> Option<PathBuf> {
    let &(root, _) = processes.first()?;
    let location = locate(root).ok()?.filter(|location| location.exact)?;
    let cgroup = Cgroup::at(&location.dir)
        .ok()
        .filter(|group| !group.is_top())?;
    let mut members = Vec::new();
    let all = cgroup.processes(processes.len(), &mut members).ok()?;
    let known = |pid: &i32| processes.iter().any(|(known, _)| known == pid);
    let alone = all && members.iter().all(known) && members.contains(&root);
    alone.then(|| Path::to_path_buf(cgroup.dir()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_calm_is_looked_at_rarely_and_who_is_not_each_time() {
        let mut group = Group::default();
        let mut looks = |rounds: u32, pages: u64| {
            let mut looks = 0;
            for _ in 0..rounds {
                if group.is_due() {
                    looks += 1;
                    group.pace(pages);
                }
            }
            looks
        };
        assert_eq!(looks(100, 1), 100);
        assert!((6..=12).contains(&looks(100, 0)));
        looks(16, 1);
        assert_eq!(looks(100, 1), 100);
    }
}
