//! Carries a scenario out.

use super::broker::{Broker, find};
use super::ground::Ground;
use super::interrupt;
use super::processor::{Yardstick, processor_ns};
use super::programs::{adapter, agent, sibling};
use super::scenario::{Conditions, Program, Scenario};
use super::trace::{Ending, Sample, Seen, Trace};
use super::watch::{Group, Watched};
use super::work::Work;
use crate::progress::Progress;
use crate::{Error, Result};
use plimsoll_client::Connection;
use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_testbed::children::{end, end_with_us, signal};
use plimsoll_wire::messages;
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time between two samples.
const PACE: Duration = Duration::from_millis(100);

/// Carries `scenario` out and returns what was seen.
///
/// # Errors
/// When the broker or a program cannot be started; everything that was started is ended.
pub fn play(
    ground: &Ground,
    scenario: &Scenario,
    conditions: Conditions,
    progress: &Progress,
) -> Result<Trace> {
    ground.limit(scenario.budget)?;
    let start = |settings| Broker::configured(ground.folder(), Some(ground.cgroup()), settings);
    let broker = match conditions {
        Conditions::Broker => Some(start("")?),
        Conditions::BrokerWithoutLending => Some(start("lending = false\n")?),
        Conditions::Bare => None,
    };
    let mut run = Run::new(ground, scenario, broker)?;
    let start = Instant::now();
    loop {
        let now = start.elapsed().as_secs_f64();
        if now >= scenario.seconds {
            break;
        }
        interrupt::check()?;
        run.start_and_stop(now)?;
        run.change(now)?;
        run.sample(now);
        if run.is_done() {
            break;
        }
        progress.tell(format_args!("{now:.0} of {:.0} s", scenario.seconds));
        let next =
            PACE.saturating_sub(start.elapsed().saturating_sub(Duration::from_secs_f64(now)));
        std::thread::sleep(next);
    }
    Ok(run.finish())
}

struct Running {
    child: Child,
    watched: Watched,
    work: Work,
    stopped: bool,
    ending: Option<Ending>,
}

struct Run<'a> {
    ground: &'a Ground,
    scenario: &'a Scenario,
    // Declared before the broker, so that programs are dropped first.
    programs: Vec<Option<Running>>,
    control: Option<Connection>,
    changed: Vec<bool>,
    broker: Option<Broker>,
    group: Group,
    yardstick: Yardstick,
    trace: Trace,
}

impl<'a> Run<'a> {
    fn new(ground: &'a Ground, scenario: &'a Scenario, broker: Option<Broker>) -> Result<Self> {
        let control = broker.as_ref().map(Broker::connect).transpose()?;
        let group = Cgroup::at(ground.cgroup().dir())?;
        Ok(Run {
            ground,
            scenario,
            programs: scenario.programs.iter().map(|_| None).collect(),
            control,
            changed: vec![false; scenario.changes.len()],
            broker,
            group: Group::new(group),
            yardstick: Yardstick::new(),
            trace: Trace::default(),
        })
    }

    fn start_and_stop(&mut self, now: f64) -> Result<()> {
        for index in 0..self.programs.len() {
            let program = &self.scenario.programs[index];
            match &mut self.programs[index] {
                None if now >= program.start => self.programs[index] = Some(self.launch(program)?),
                Some(running)
                    if !running.stopped && program.stop.is_some_and(|stop| now >= stop) =>
                {
                    running.stopped = true;
                    signal(running.child.id(), Signal::TERM);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn launch(&self, program: &Program) -> Result<Running> {
        let under = self.broker.as_ref().filter(|_| !program.outsider);
        let mut command = match under {
            Some(broker) => {
                let mut command = Command::new(sibling("plimsoll"));
                command.arg("--socket").arg(broker.socket().path()).args([
                    "run",
                    "--name",
                    &program.name,
                    "--weight",
                ]);
                command
                    .arg(program.weight.to_string())
                    .args(["--adapter", adapter(&program.command)])
                    .args(["--agent", agent(program.agent), "--"])
                    .args(&program.command);
                command
            }
            None => {
                let mut command = Command::new(&program.command[0]);
                command.args(&program.command[1..]);
                command
            }
        };
        let log = self.ground.folder().join(format!("{}.log", program.name));
        let log = std::fs::File::create(&log).map_err(Error::file("write", &log))?;
        command.envs(&program.env).current_dir(self.ground.folder());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        end_with_us(&mut command);
        if !program.elsewhere {
            self.ground.enter(&mut command)?;
        }
        let mut child = command.spawn().map_err(Error::start(&command))?;
        let watched = Watched::new(child.id(), under.is_some() || program.launched)?;
        let work = Work::default();
        if let Some(output) = child.stdout.take() {
            work.follow(output);
        }
        Ok(Running {
            child,
            watched,
            work,
            stopped: false,
            ending: None,
        })
    }

    fn change(&mut self, now: f64) -> Result<()> {
        for (change, done) in self.scenario.changes.iter().zip(&mut self.changed) {
            if *done || now < change.at {
                continue;
            }
            *done = true;
            let Some(control) = &mut self.control else {
                continue;
            };
            let listing = control.list()?;
            let id = find(&listing, &change.name).map(|p| p.id);
            let id = id.ok_or_else(|| Error::NoPrincipal {
                name: change.name.clone(),
            })?;
            let weight = messages::Weight::new(change.weight)?;
            let set = messages::Set {
                id,
                weight: Some(weight),
                ..messages::Set::default()
            };
            control.set(&set)?;
        }
        Ok(())
    }

    fn sample(&mut self, now: f64) {
        let listing = self
            .control
            .as_mut()
            .and_then(|control| control.list().ok())
            .unwrap_or_default();
        let group = self.group.look();
        let mut programs = Vec::with_capacity(self.programs.len());
        for running in &mut self.programs {
            let Some(running) = running else {
                programs.push(Seen::default());
                continue;
            };
            let mut seen = running.watched.look();
            running.work.said().tell(&mut seen);
            running.note_end();
            seen.alive &= running.ending.is_none();
            programs.push(seen);
        }
        let limit = |p: &Program| find(&listing, &p.name).map_or(0, |p| p.limit);
        self.trace.samples.push(Sample {
            at: now,
            programs,
            used: group.used,
            swapped: group.swapped,
            swap_traffic: group.swap_traffic,
            limit_hits: group.limit_hits,
            budget: listing.budget,
            limits: self.scenario.programs.iter().map(limit).collect(),
            ours_ns: self.ours_ns(),
            yardstick_ns: self.yardstick.measure(),
        });
    }

    /// Processor time of the broker and of each `plimsoll run`.
    fn ours_ns(&self) -> u64 {
        let Some(broker) = &self.broker else { return 0 };
        let under = |(_, program): &(_, &Program)| !program.outsider;
        let pairs = self.programs.iter().zip(&self.scenario.programs);
        let launchers = pairs
            .filter(under)
            .filter_map(|(running, _)| running.as_ref());
        let each = launchers.map(|running| processor_ns(running.child.id()));
        processor_ns(broker.pid()) + each.sum::<u64>()
    }

    fn is_done(&self) -> bool {
        let (until_done, until_work) = (self.scenario.until_done, self.scenario.until_work);
        let done = |running: &Running| {
            let ended = (until_done || until_work.is_some()) && running.ending.is_some();
            ended || until_work.is_some_and(|work| running.work.said().work >= work)
        };
        let pairs = self.programs.iter().zip(&self.scenario.programs);
        let mut programs = pairs.filter(|(_, program)| !program.outsider);
        programs.all(|(running, _)| running.as_ref().is_some_and(done))
    }

    fn finish(mut self) -> Trace {
        for running in self.programs.iter_mut().flatten() {
            running.stopped = true;
            if running.ending.is_none() {
                signal(running.child.id(), Signal::TERM);
            }
        }
        for running in &mut self.programs {
            let ending = running.as_mut().map(|running| {
                end(&mut running.child, Duration::from_secs(5));
                running.note_end();
                let mut ending = running.ending.clone().unwrap_or_default();
                ending.output = running.work.lines();
                ending
            });
            self.trace.endings.push(ending.unwrap_or_default());
        }
        self.trace
    }
}

impl Running {
    fn note_end(&mut self) {
        if self.ending.is_some() {
            return;
        }
        let Ok(Some(status)) = self.child.try_wait() else {
            return;
        };
        // If a signal ended the program, `plimsoll run` exits with 128 + the signal's number, as shells do.
        let signal = status.signal().or(status
            .code()
            .filter(|code| *code > 128)
            .map(|code| code - 128));
        let killed = !self.stopped && signal.is_some();
        self.ending = Some(Ending {
            killed,
            how: status.to_string(),
            ..Ending::default()
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child, Duration::from_secs(1));
        // If `plimsoll run` was killed, its program still runs.
        for pid in self.watched.pids() {
            signal(pid as u32, Signal::KILL);
        }
    }
}
