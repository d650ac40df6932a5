//! `plimsoll run -f programs.toml`: several programs under one budget, each with its own start
//! time.

mod messages;
mod slot;

pub use slot::GRACE;

use super::budget_cgroup::Budget;
use super::child::{self, Launch, Running};
use super::log::notice;
use super::principal::{self, Member, Wanted};
use super::record::{Event, Recording};
use super::signals::Signals;
use super::{orphans, steer};
use crate::error::CliError;
use crate::own_broker::Place;
use crate::programs::{Program, Programs};
use plimsoll_programs::Setting;
use plimsoll_unit::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slot::{End, Slot, Stage};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Signals that end all programs.
pub const HEARD: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// The longest sleep. All events that matter wake us earlier.
const LONGEST: Duration = Duration::from_secs(3600);

/// The running programs of a file.
pub struct Many {
    slots: Vec<Slot>,
    place: Place,
    group: Option<Member>,
    /// The budget that all share.
    bytes: Option<Bytes>,
    budget: Option<Budget>,
    recording: Option<Recording>,
    /// The folder for outputs that the file does not redirect; inherited if absent.
    outputs: Option<PathBuf>,
    started: Instant,
    worst: u8,
    /// How programs ended, outsiders included, in the order of their ends.
    ends: Vec<(String, u8)>,
    ending: bool,
}

/// A cgroup for all programs, with their budget if they have one.
fn bounded(bytes: Option<Bytes>) -> Option<Budget> {
    match bytes {
        Some(bytes) => Budget::make(bytes)
            .inspect_err(|why| warn!("the budget is advisory, no cgroup can be made for it: {why}"))
            .ok(),
        None => Budget::unlimited()
            .inspect_err(|why| info!("the programs have no cgroups of their own: {why}"))
            .ok()
            .flatten(),
    }
}

impl Many {
    /// Makes the budget and the group. Nothing runs yet.
    ///
    /// # Errors
    /// The file asks for something that the broker does not give.
    pub fn new(
        file: Programs,
        place: &Place,
        recording: Option<Recording>,
        outputs: Option<PathBuf>,
    ) -> Result<Many, CliError> {
        for doubt in file.doubts(principal::capacity()) {
            warn!("{doubt}");
        }
        let bytes = principal::bound(file.budget)?;
        let budget = bounded(bytes);
        let wanted = Wanted {
            name: file.name.as_deref().unwrap_or("programs"),
            unnamed: false,
            weight: file.standing.weight,
            priority: file.standing.priority,
            max: bytes,
            adapter: None,
            whole: false,
        };
        let limited = budget.as_ref().filter(|_| bytes.is_some());
        let group = Member::group(place, wanted, limited.map(Budget::dir));
        let group = or_without(group, || "the programs run".to_owned())?;
        let programs = file.programs.into_iter();
        let programs = programs.map(|program| Slot::new(program, false));
        let outsiders = file.outsiders.into_iter();
        let outsiders = outsiders.map(|program| Slot::new(program, true));
        Ok(Many {
            slots: programs.chain(outsiders).collect(),
            place: place.clone(),
            group,
            bytes,
            budget,
            recording,
            outputs,
            started: Instant::now(),
            worst: 0,
            ends: Vec::new(),
            ending: false,
        })
    }

    /// Runs until all programs have ended, then ends the remaining outsiders. Returns the worst
    /// status of the programs.
    ///
    /// # Errors
    /// When the first program cannot be started. Later programs that cannot be started count as
    /// ended with that status.
    pub fn run(&mut self, signals: &Signals) -> Result<u8, CliError> {
        self.start_due();
        self.tell_of_start();
        while !self.over() {
            self.start_due();
            self.stop_due();
            self.collect();
            orphans::reap(&self.slots.iter().filter_map(Slot::pid).collect::<Vec<_>>());
            if let Some(recording) = &mut self.recording {
                recording.look();
            }
            if !self.over() {
                self.wait(signals)?;
            }
            while let Some(received) = signals.next() {
                if received.signal != libc::SIGCHLD {
                    self.interrupted(received.signal);
                }
            }
        }
        let unstarted = self.slots.len() - self.ends.len();
        let summary = messages::summary(&self.ends, unstarted, self.started.elapsed());
        if let Some(summary) = summary {
            notice!("{summary}");
        }
        Ok(self.worst)
    }

    fn tell_of_start(&self) {
        let later = self.slots.iter().filter(|slot| slot.is_waiting());
        let begin = messages::Begin {
            running: self.slots.iter().filter_map(Slot::pid).count(),
            later: later
                .map(|slot| (slot.program.name.clone(), slot.program.start))
                .collect(),
            share: self.bytes.map(|bytes| messages::Share {
                bytes: bytes.0,
                advisory: self.budget.is_none(),
            }),
            known: self
                .group
                .as_ref()
                .is_some_and(|group| group.alone().is_none()),
        };
        notice!("{}", begin.line());
    }

    fn over(&mut self) -> bool {
        let left = |outsider: bool, slots: &[Slot]| {
            slots
                .iter()
                .any(|slot| slot.outsider == outsider && !slot.is_over())
        };
        if left(false, &self.slots) {
            return false;
        }
        if left(true, &self.slots) {
            self.end_all();
            return !left(true, &self.slots);
        }
        true
    }

    /// Asks everything to end. On a second call, waits no longer.
    fn interrupted(&mut self, signal: i32) {
        let running = messages::programs(self.slots.iter().filter_map(Slot::pid).count());
        let why = match signal {
            libc::SIGINT => "Ctrl-C".to_owned(),
            libc::SIGTERM => "SIGTERM".to_owned(),
            other => format!("signal {other}"),
        };
        if self.ending {
            notice!("{why} again: {running} killed");
            self.kill_all();
        } else {
            notice!("{why}: {running} asked to end; again kills what still runs");
        }
        self.end_all();
    }

    /// Asks all running programs to end, and starts no more.
    pub fn end_all(&mut self) {
        if self.ending {
            return;
        }
        self.ending = true;
        self.slots.iter_mut().for_each(Slot::ask);
    }

    fn kill_all(&self) {
        self.slots.iter().for_each(Slot::kill);
    }

    fn start_due(&mut self) {
        let elapsed = self.started.elapsed();
        for index in 0..self.slots.len() {
            if self.slots[index].is_due(elapsed) {
                self.start(index);
            }
        }
    }

    fn start(&mut self, index: usize) {
        let slot = &self.slots[index];
        let name = slot.program.name.clone();
        let outsider = Some(slot.outsider);
        match self.launch(slot) {
            Ok((running, member)) => {
                let pid = Some(running.pid());
                if self.slots[index].program.start.is_zero() {
                    info!("{name} started as process {}", running.pid());
                } else {
                    notice!("{name} started as process {}", running.pid());
                }
                self.slots[index].state = Stage::Running {
                    running,
                    _member: member,
                    asked: None,
                    leaving: false,
                };
                let event = "started";
                self.event(&Event {
                    event,
                    program: Some(&name),
                    outsider,
                    pid,
                    ..Event::default()
                });
            }
            Err(error) => {
                warn!("{name}: {error}");
                let status = error.run_status();
                self.ended(index, None, status);
            }
        }
    }

    fn launch(&self, slot: &Slot) -> Result<(Running, Option<Member>), CliError> {
        let program = &slot.program;
        let argv: Vec<OsString> = program.command.0.iter().map(OsString::from).collect();
        let choices = steer::Choices::from(program);
        let steered = if slot.outsider {
            steer::untouched(&argv)
        } else {
            let variables = |name: &str| match program.env.get(name) {
                Some(value) => Some(OsString::from(value)),
                None => std::env::var_os(name),
            };
            let setting = Setting {
                variables: &variables,
                folder: program.cwd.as_deref().unwrap_or(Path::new("")),
            };
            steer::prepare(&argv, &choices, self.bytes, &setting, Some(&self.place))
        };
        let member = if slot.outsider {
            None
        } else {
            self.join(program, steered.adapter)?
        };
        let output = |given: &Option<PathBuf>| {
            let spare = self
                .outputs
                .as_ref()
                .map(|dir| dir.join(format!("{}.log", file_name(&program.name))));
            given.clone().or(spare)
        };
        let mut launch = Launch {
            argv: steered.argv,
            environment: Vec::new(),
            removed: Vec::new(),
            cwd: program.cwd.clone(),
            stdout: output(&program.stdout),
            stderr: output(&program.stderr),
            cgroup: None,
            own_group: true,
        };
        if let Some(member) = &member {
            member.tell(&mut launch);
        }
        let budget = self.budget.as_ref();
        launch.cgroup = budget.map(|budget| {
            let prepared = member.as_ref().and_then(Member::cgroup);
            budget.entry(&file_name(&program.name), prepared.as_deref())
        });
        let own = program
            .env
            .iter()
            .map(|(key, value)| (key.into(), value.into()));
        launch.environment.extend(own);
        // Added variables contain the given values.
        launch.environment.extend(steered.environment);
        let running = child::spawn(&launch)?;
        if let Some(member) = &member {
            member.attach_started(running.pid(), launch.starts_in());
            if let Some(own) = launch
                .cgroup
                .filter(|_| budget.is_some_and(Budget::is_divided))
            {
                member.contain(running.pid(), &own.dir);
            }
            steer::start(Some(member), running.pid(), &choices);
        }
        Ok((running, member))
    }

    fn join(
        &self,
        program: &Program,
        adapter: Option<&'static str>,
    ) -> Result<Option<Member>, CliError> {
        let Some(group) = &self.group else {
            return Ok(None);
        };
        let wanted = Wanted {
            name: &program.name,
            unnamed: false,
            weight: program.standing.weight,
            priority: program.standing.priority,
            max: principal::bound(program.max)?,
            adapter,
            whole: false,
        };
        let member = Member::join(&self.place, wanted, Some(group));
        or_without(member, || format!("{} runs", program.name))
    }

    fn stop_due(&mut self) {
        let elapsed = self.started.elapsed();
        for slot in &mut self.slots {
            slot.stop_due(elapsed);
        }
    }

    fn collect(&mut self) {
        for index in 0..self.slots.len() {
            let Some(End { pid, status, asked }) = self.slots[index].end() else {
                continue;
            };
            // A program that was ended as the file says has ended well.
            let ours = asked && !self.ending && matches!(status, 143 | 137);
            self.ended(index, Some(pid), if ours { 0 } else { status });
        }
    }

    fn ended(&mut self, index: usize, pid: Option<u32>, status: u8) {
        let slot = &mut self.slots[index];
        slot.state = Stage::Ended;
        let name = slot.program.name.clone();
        let outsider = slot.outsider;
        let after = self.started.elapsed().saturating_sub(slot.program.start);
        notice!("{}", messages::end(&name, status, after));
        self.ends.push((name.clone(), status));
        if !outsider {
            self.worst = self.worst.max(status);
        }
        self.event(&Event {
            event: "ended",
            program: Some(&name),
            outsider: Some(outsider),
            pid,
            status: Some(status),
            ..Event::default()
        });
    }

    fn event(&mut self, event: &Event<'_>) {
        if let Some(recording) = &mut self.recording {
            recording.event(event);
        }
    }

    /// Sleeps until a program ends, a signal comes, or something is due.
    fn wait(&self, signals: &Signals) -> Result<(), CliError> {
        let elapsed = self.started.elapsed();
        let mut sleep = LONGEST;
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        for slot in &self.slots {
            let at_most = slot.watch(elapsed, &mut fds);
            sleep = sleep.min(at_most.unwrap_or(LONGEST));
        }
        if let Some(recording) = &self.recording {
            sleep = sleep.min(recording.due().saturating_duration_since(Instant::now()));
        }
        let timeout = Timespec {
            tv_sec: sleep.as_secs() as i64,
            tv_nsec: i64::from(sleep.subsec_nanos()),
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(CliError::system("waiting for the programs")(error)),
        }
    }
}

impl Drop for Many {
    /// If something fails on the way, no program outlives us.
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// A principal, or none, with a warning, if there is no broker that serves: then `who` goes on without.
fn or_without(
    member: Result<Member, CliError>,
    who: impl Fn() -> String,
) -> Result<Option<Member>, CliError> {
    let member = principal::unless_asked(member)?;
    Ok(member
        .inspect_err(|why| warn!("{} without a broker: {why}", who()))
        .ok())
}

pub(super) fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    Path::new(name)
        .to_string_lossy()
        .replace(|c| !plain(c), "_")
}
