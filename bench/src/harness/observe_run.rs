//! Watches `plimsoll run -f programs.toml` from outside, and samples what `play` samples of its own runs.

use super::broker::find;
use super::processor::Yardstick;
use super::scenario::Scenario;
use super::trace::{Ending, Sample, Seen, Trace};
use super::watch::{Group, Watched};
use super::work;
use crate::progress::Progress;
use plimsoll_client::{Connection, Socket};
use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_testbed::children::end;
use plimsoll_wire::messages::Listing;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// Time between two samples.
const PACE: Duration = Duration::from_millis(200);

/// Follows `child` for the scenario's time. Each program writes its output to `NAME.out` in `folder`.
pub fn follow(
    mut child: Child,
    socket: &Path,
    folder: &Path,
    scenario: &Scenario,
    progress: &Progress,
) -> Trace {
    let mut following = Following {
        socket: Socket::at(socket),
        folder: folder.to_owned(),
        scenario,
        connection: None,
        watched: scenario.programs.iter().map(|_| None).collect(),
        group: None,
        yardstick: Yardstick::new(),
        trace: Trace::default(),
    };
    let start = Instant::now();
    loop {
        let now = start.elapsed().as_secs_f64();
        if now >= scenario.seconds || !matches!(child.try_wait(), Ok(None)) {
            break;
        }
        following.sample(now);
        progress.tell(format_args!("{now:.0} of {:.0} s", scenario.seconds));
        std::thread::sleep(PACE);
    }
    end(&mut child, Duration::from_secs(15));
    following.finish()
}

struct Following<'a> {
    socket: Socket,
    folder: PathBuf,
    scenario: &'a Scenario,
    connection: Option<Connection>,
    watched: Vec<Option<Watched>>,
    group: Option<Group>,
    yardstick: Yardstick,
    trace: Trace,
}

impl Following<'_> {
    fn sample(&mut self, at: f64) {
        let listing = self.listing();
        let mut programs: Vec<Seen> = Vec::with_capacity(self.watched.len());
        for (index, program) in self.scenario.programs.iter().enumerate() {
            let pid = find(&listing, &program.name).and_then(|p| p.pid);
            if let (None, Some(pid)) = (&self.watched[index], pid) {
                self.watched[index] = Watched::new(pid, false).ok();
                self.enter_group(pid);
            }
            let mut seen = self.watched[index]
                .as_mut()
                .map(Watched::look)
                .unwrap_or_default();
            work::latest(&self.output(&program.name)).tell(&mut seen);
            programs.push(seen);
        }
        let group = self.group.as_ref().map(Group::look).unwrap_or_default();
        let known: u64 = programs.iter().map(|p| p.uses).sum();
        for (seen, _) in programs
            .iter_mut()
            .zip(&self.scenario.programs)
            .filter(|(_, p)| p.outsider)
        {
            seen.uses = group.used.saturating_sub(known);
        }
        let limit = |name: &str| find(&listing, name).map_or(0, |p| p.limit);
        self.trace.samples.push(Sample {
            at,
            programs,
            used: group.used,
            swapped: group.swapped,
            swap_traffic: group.swap_traffic,
            limit_hits: group.limit_hits,
            // The shares add up to the budget even while a program owes memory; the limits do not.
            budget: listing.principals.iter().map(|p| p.share).sum(),
            limits: self
                .scenario
                .programs
                .iter()
                .map(|p| limit(&p.name))
                .collect(),
            // Here the processes that belong to us are not known.
            ours_ns: 0,
            yardstick_ns: self.yardstick.measure(),
        });
    }

    /// The broker's list of principals. It is empty until the command that is followed has started the
    /// broker.
    fn listing(&mut self) -> Listing {
        if self.connection.is_none() {
            self.connection = Connection::open(&self.socket, Duration::from_secs(1)).ok();
        }
        let listing = self
            .connection
            .as_mut()
            .and_then(|connection| connection.list().ok());
        if listing.is_none() {
            self.connection = None;
        }
        listing.unwrap_or_default()
    }

    /// Finds the cgroup that the command made for the budget: it is above that of `pid`, and known by its
    /// limit.
    fn enter_group(&mut self, pid: u32) {
        if self.group.is_some() {
            return;
        }
        let mut next = Cgroup::of(pid as i32).ok().flatten();
        while let Some(cgroup) = next {
            if cgroup
                .limit()
                .ok()
                .flatten()
                .is_some_and(|limit| limit.0.abs_diff(self.scenario.budget) < 1 << 20)
            {
                self.group = Some(Group::new(cgroup));
                return;
            }
            next = cgroup.parent().ok().flatten();
        }
    }

    fn output(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.out"))
    }

    fn finish(mut self) -> Trace {
        for program in &self.scenario.programs {
            let output = std::fs::read_to_string(self.output(&program.name)).unwrap_or_default();
            let output = output.lines().rev().take(200).map(str::to_owned).collect();
            self.trace.endings.push(Ending {
                output,
                ..Ending::default()
            });
        }
        self.trace
    }
}
