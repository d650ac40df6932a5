//! Servers under a limit, and one run: load on them while somebody holds pages, or nobody.

use super::holder::{Groups, Holder, Way};
use super::server_software::{PAGE, Server, Site};
use super::slow_disk::{READS, SlowDisk};
use super::traffic::{Counters, Traffic};
use super::{LIMIT, What};
use crate::Result;
use crate::harness::ground::Ground;
use crate::harness::interrupt;
use crate::harness::load::{Load, Rate};
use crate::harness::programs::sibling;
use crate::report::stacked_bars::once;
use crate::report::statistics::quantile;
use crate::runner::Turn;
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_map::attribute::AreaOf;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Requests a second, to all servers together.
pub(super) const RATE: f64 = 200.0;
/// Requests that a server may work on at once.
const CONNECTIONS: usize = 8;
/// After servers are added they are warmed up without a limit, so that they compile what is hot: requests a
/// second, and seconds.
const WARM_RATE: f64 = 200.0;
const WARM: f64 = 8.0;
/// Seconds of the load after the limit came down, before anything is measured.
const SHRINK: f64 = 12.0;
/// Seconds from the start of a run until it is measured. By then, the holder has chosen its pages.
pub(super) const SETTLE: f64 = 20.0;
/// Seconds that are measured.
pub(super) const SECONDS: f64 = 12.0;

/// The servers that run, and what they run in.
pub(super) struct Fleet<'a> {
    ground: &'a Ground,
    site: &'a Site,
    // Dropped before the groups.
    servers: Vec<Server>,
    groups: Groups,
    /// Servers and holder are in it; `None` where the kernel throttles no reads.
    disk: Option<SlowDisk>,
    /// Files that `plimsoll pin` held last, at least in part.
    files: Vec<PathBuf>,
}

/// The figures of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Good answers a second.
    pub(super) throughput: f64,
    /// Seconds.
    pub(super) median: f64,
    pub(super) p99: f64,
    /// Good answers.
    pub(super) answers: f64,
    /// Requests that failed.
    pub(super) failed: f64,
    pub(super) traffic: Traffic,
    /// Bytes locked.
    pub(super) locked: f64,
    /// Bytes in memory and in swap.
    pub(super) footprint: f64,
    /// Servers that were killed.
    pub(super) killed: usize,
    /// Areas of all servers; empty where `plimsoll map` did not tell.
    pub(super) areas: Vec<AreaOf>,
    /// Why nothing was measured; empty if something was.
    pub(super) skipped: String,
}

impl<'a> Fleet<'a> {
    /// No servers yet.
    ///
    /// # Errors
    /// When groups cannot be made.
    pub(super) fn new(ground: &'a Ground, site: &'a Site) -> Result<Fleet<'a>> {
        Ok(Fleet {
            ground,
            site,
            servers: Vec::new(),
            groups: Groups::new(ground)?,
            disk: SlowDisk::new(),
            files: Vec::new(),
        })
    }

    /// One run.
    ///
    /// # Errors
    /// When something cannot be set up, and when a signal came.
    pub(super) fn once(&mut self, what: What, turn: &Turn<'_>) -> Result<Outcome> {
        let skipped = |why: &str| {
            Ok(Outcome {
                skipped: why.to_owned(),
                ..Outcome::default()
            })
        };
        if !self.swappiness(what.swappiness)? {
            return skipped("groups of version 2 have no swappiness");
        }
        if what.slow && self.disk.is_none() {
            return skipped("the kernel throttles no reads (CONFIG_BLK_DEV_THROTTLING, cgroup v1)");
        }
        // Servers start at full speed.
        self.throttle(None)?;
        self.become_many(what.servers, turn)?;
        self.throttle(what.slow.then_some(READS))?;
        let load = Load::start(&self.rate(RATE))?;
        let holder = Holder::start(
            what.way,
            self.ground,
            &self.groups,
            &self.servers,
            &self.files,
        )?;
        if holder.is_none() && what.way != Way::Plain {
            return skipped("not installed");
        }
        if let (Some(disk), Some(holder)) = (&self.disk, &holder) {
            // One that has ended already is told of below.
            let _ = disk.take(holder.pid());
        }
        turn.progress.tell(format_args!("settling"));
        wait(SETTLE)?;
        turn.progress.tell(format_args!("measuring"));
        let outcome = self.measure(&load, holder, turn.first && what.way <= Way::Pin)?;
        if outcome.killed > 0 {
            // The next run starts anew.
            self.servers.clear();
        }
        Ok(outcome)
    }

    fn measure(&mut self, load: &Load, mut holder: Option<Holder>, areas: bool) -> Result<Outcome> {
        let mut pids: Vec<u32> = self.servers.iter().map(Server::pid).collect();
        pids.extend(holder.as_ref().map(Holder::pid));
        let begin = load.now();
        let before = Counters::now(self.ground, &self.groups, &pids)?;
        wait(SECONDS)?;
        let after = Counters::now(self.ground, &self.groups, &pids)?;
        let window = load.window(begin, load.now());
        let cgroup = self.ground.cgroup();
        let mut outcome = Outcome {
            throughput: window.throughput(),
            median: quantile(&window.latencies, 0.5),
            p99: quantile(&window.latencies, 0.99),
            answers: window.answers as f64,
            failed: window.failed as f64,
            traffic: after.since(&before),
            footprint: (cgroup.usage()? + cgroup.swapped()?).0 as f64,
            killed: self
                .servers
                .iter_mut()
                .filter_map(|s| (!s.lives()).then_some(()))
                .count(),
            ..Outcome::default()
        };
        if let Some(holder) = &mut holder {
            outcome.locked = holder.locked() as f64;
            outcome.skipped = holder.ended().unwrap_or_default();
            let files = holder.files();
            if !files.is_empty() {
                self.files = files;
            }
        }
        if areas {
            outcome.areas = areas_of(&self.groups.servers);
        }
        Ok(outcome)
    }

    /// Brings the servers to this number. Each time some are added, the limit is lifted until they are
    /// warm. To have fewer, start anew.
    fn become_many(&mut self, count: usize, turn: &Turn<'_>) -> Result<()> {
        if self.servers.len() == count && self.servers.iter_mut().all(Server::lives) {
            return Ok(());
        }
        self.ground.limit(None)?;
        if self.servers.len() >= count {
            self.servers.clear();
        }
        if self.servers.is_empty() {
            self.site.forget();
        }
        let first = self.servers.len();
        for number in first..count {
            let server = self.site.start(number, &self.groups.servers)?;
            if let Some(disk) = &self.disk {
                disk.take(server.pid())?;
            }
            self.servers.push(server);
        }
        for (index, server) in self.servers[first..].iter_mut().enumerate() {
            let number = first + index + 1;
            turn.progress
                .tell(format_args!("server {number} of {count} starts"));
            server.wait()?;
        }
        turn.progress.tell(format_args!("warming up"));
        let load = Load::start(&self.rate(WARM_RATE))?;
        wait(WARM)?;
        turn.progress.tell(format_args!("the limit comes down"));
        self.ground.limit(LIMIT)?;
        wait(SHRINK)?;
        drop(load);
        Ok(())
    }

    fn throttle(&self, reads: Option<u64>) -> Result<()> {
        match &self.disk {
            Some(disk) => disk.throttle(reads),
            None => Ok(()),
        }
    }

    fn rate(&self, per_second: f64) -> Rate {
        Rate {
            servers: self.servers.iter().map(|server| server.address).collect(),
            path: PAGE.to_owned(),
            per_second,
            connections: CONNECTIONS,
        }
    }

    /// Sets the swappiness of all groups; `false` where groups have none and `value` is not
    /// the default.
    fn swappiness(&self, value: u64) -> Result<bool> {
        if self.ground.cgroup().version() == Version::V2 {
            return Ok(value == super::SWAPPINESS);
        }
        for group in [
            self.ground.cgroup(),
            &self.groups.servers,
            &self.groups.holder,
        ] {
            group.set_swappiness(value)?;
        }
        Ok(true)
    }
}

/// The areas of a group's processes, by `plimsoll map`; none if it does not tell.
fn areas_of(group: &Cgroup) -> Vec<AreaOf> {
    let mut command = Command::new(sibling("plimsoll"));
    command.args(["map", "--json", "--cgroup"]).arg(group.dir());
    let output = command.output().map(|output| output.stdout);
    let report = output
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok());
    report.map(|report| once(&report)).unwrap_or_default()
}

/// Waits this many seconds.
fn wait(seconds: f64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    loop {
        interrupt::check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}
