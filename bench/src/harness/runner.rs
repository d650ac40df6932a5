//! Carries a scenario out.

use super::broker::Broker;
use super::ground::Ground;
use super::interrupt;
use super::processor::{Yardstick, processor_ns};
use super::programs::{adapter, sibling};
use super::scenario::{Conditions, Program, Scenario};
use super::trace::{Ending, Sample, Seen, Trace};
use super::watch::{Group, Watched};
use super::work::Work;
use plimsoll_client::Connection;
use plimsoll_wire::messages::{self, Listing};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time between two samples.
const PACE: Duration = Duration::from_millis(100);

/// Runs `scenario` and returns what was seen. Shows progress on standard error.
///
/// # Errors
/// When the broker or a program cannot be started; everything that was started is ended.
pub fn run(
    ground: &Ground,
    scenario: &Scenario,
    conditions: Conditions,
    label: &str,
) -> Result<Trace, String> {
    ground.limit(scenario.budget)?;
    let broker = match conditions {
        Conditions::Broker => Some(Broker::start(ground.folder(), Some(ground.cgroup()))?),
        Conditions::Bare => None,
    };
    let mut run = Run::new(ground, scenario, broker)?;
    let start = Instant::now();
    let mut shown = 0;
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
        if now as u64 >= shown {
            shown = now as u64 + 5;
            eprint!("\r{label}: {now:.0} of {:.0} s   ", scenario.seconds);
        }
        let next =
            PACE.saturating_sub(start.elapsed().saturating_sub(Duration::from_secs_f64(now)));
        std::thread::sleep(next);
    }
    eprint!("\r{:60}\r", "");
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
    // Before the broker: programs end first.
    programs: Vec<Option<Running>>,
    control: Option<Connection>,
    changed: Vec<bool>,
    broker: Option<Broker>,
    group: Group,
    yardstick: Yardstick,
    trace: Trace,
}

impl<'a> Run<'a> {
    fn new(
        ground: &'a Ground,
        scenario: &'a Scenario,
        broker: Option<Broker>,
    ) -> Result<Self, String> {
        let control = match &broker {
            Some(broker) => Some(broker.connect()?),
            None => None,
        };
        let group = plimsoll_kernel::cgroup::Cgroup::at(ground.cgroup().dir())
            .map_err(|e| e.to_string())?;
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

    fn start_and_stop(&mut self, now: f64) -> Result<(), String> {
        for index in 0..self.programs.len() {
            let program = &self.scenario.programs[index];
            match &mut self.programs[index] {
                None if now >= program.start => self.programs[index] = Some(self.launch(program)?),
                Some(running)
                    if !running.stopped && program.stop.is_some_and(|stop| now >= stop) =>
                {
                    running.stopped = true;
                    signal(running.child.id(), rustix::process::Signal::TERM);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn launch(&self, program: &Program) -> Result<Running, String> {
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
                    .args(["--adapter", adapter(&program.command), "--"])
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
        let log = std::fs::File::create(&log)
            .map_err(|e| format!("cannot write {}: {e}", log.display()))?;
        command.envs(&program.env).current_dir(self.ground.folder());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        end_with_us(&mut command);
        if !program.elsewhere {
            enter(&mut command, self.ground.cgroup().dir());
        }
        let mut child = command
            .spawn()
            .map_err(|e| format!("cannot start {:?}: {e}", command.get_program()))?;
        let watched = Watched::new(child.id(), under.is_some()).map_err(|e| e.to_string())?;
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

    fn change(&mut self, now: f64) -> Result<(), String> {
        for (change, done) in self.scenario.changes.iter().zip(&mut self.changed) {
            if *done || now < change.at {
                continue;
            }
            *done = true;
            let Some(control) = &mut self.control else {
                continue;
            };
            let listing = control.list().map_err(|e| e.to_string())?;
            let id = find(&listing, &change.name).map(|p| p.id);
            let id = id.ok_or_else(|| format!("{} is not among the principals", change.name))?;
            let weight = messages::Weight::new(change.weight).map_err(|e| e.to_string())?;
            let set = messages::Set {
                id,
                weight: Some(weight),
                ..messages::Set::default()
            };
            control.set(&set).map_err(|e| e.to_string())?;
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
                signal(running.child.id(), rustix::process::Signal::TERM);
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
        // `plimsoll run` reports a signal's end as 128 + its number, as shells do.
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
        // A launcher that was killed leaves its program behind.
        for pid in self.watched.pids() {
            signal(pid as u32, rustix::process::Signal::KILL);
        }
    }
}

/// The principal of that name, anywhere in the tree.
pub fn find<'a>(listing: &'a Listing, name: &str) -> Option<&'a messages::Principal> {
    fn below<'a>(
        principals: &'a [messages::Principal],
        name: &str,
    ) -> Option<&'a messages::Principal> {
        principals.iter().find_map(|p| {
            if p.name == name {
                Some(p)
            } else {
                below(&p.children, name)
            }
        })
    }
    below(&listing.principals, name)
}

/// Makes `command` end with us, however we end.
pub fn end_with_us(command: &mut Command) {
    // SAFETY: between fork and exec one system call is made, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
            Ok(())
        });
    }
}

/// Makes `command` start inside the cgroup with directory `dir`.
pub fn enter(command: &mut Command, dir: &Path) {
    let procs = dir.join("cgroup.procs");
    let path = std::ffi::CString::new(procs.as_os_str().as_encoded_bytes()).unwrap_or_default();
    // SAFETY: between fork and exec only open, write and close are called, which are
    // async-signal-safe; the path was made before.
    unsafe {
        command.pre_exec(move || {
            use rustix::fs::{Mode, OFlags};
            let file = rustix::fs::open(
                path.as_c_str(),
                OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            rustix::io::write(&file, b"0")?;
            Ok(())
        });
    }
}

/// Asks a child to end, then makes it, and reaps it.
pub fn end(child: &mut Child, patience: Duration) {
    let deadline = Instant::now() + patience;
    if let Ok(None) = child.try_wait() {
        signal(child.id(), rustix::process::Signal::TERM);
    }
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            _ => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Sends a signal to a process of ours.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}
