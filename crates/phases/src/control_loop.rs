//! The loop: look, decide, place; and windows.

use crate::deprioritise::Lever;
use crate::events::News;
use crate::parameters::Setter;
use crate::threads::{Followed, Threads};
use crate::undo_on_kill::{Guarded, undo_heirs};
use plimsoll_kernel::clock;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::sched::{
    Parameters, Policy, Rights, SLICES, parameters, processors, set_parameters,
};
use plimsoll_kernel::undo_notes::Notes;
use plimsoll_kernel::{Error, Result};
use plimsoll_map::runtimes::hotspot::allocation::{Allocation, AllocationError};
use plimsoll_policy::phases::live::{Front, Outcome, Switch, Trial, Window, pace};
use plimsoll_policy::phases::{Quanta, Rule};
use plimsoll_unit::{Bytes, Nanos};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error as Explained;

/// The longest sleep. After it the loop looks whether it has to stop.
const GRAIN: Duration = Duration::from_millis(50);
/// The first 1/`SETTLES` of a window is not compared: work that the window before left is finished there.
const SETTLES: u64 = 5;
/// After this many windows in a row in which no thread was put back, the user gets a message.
const IN_VAIN: u32 = 5;

/// How the threads of a program are ordered.
#[derive(Clone, Debug)]
pub struct Options {
    /// The discipline.
    pub rule: Rule,
    /// Its quanta. A time below that between two looks has no effect.
    pub quanta: Quanta,
    /// The time between two looks, at least.
    pub look: Duration,
    /// The length of a window.
    pub window: Duration,
    /// How threads are put back; the strongest that can be undone if absent.
    pub lever: Option<Lever>,
    /// Windows without the discipline are left out, and with them the bound on harm. For measurements.
    pub always: bool,
    /// A program, and its command that calls [`guard()`](crate::guard()); that undoes all if we are killed.
    pub guard: Option<(PathBuf, &'static str)>,
    /// Where is noted what to undo if that one is killed, too.
    pub notes: Option<Arc<Notes>>,
}

impl Options {
    /// The usual ones. Windows of a second have some collections in them.
    pub fn of(rule: Rule) -> Options {
        Options {
            rule,
            quanta: Quanta {
                time: Nanos::millis(10),
                bytes: Bytes::mib(1),
                most: Nanos::millis(100),
            },
            look: Duration::from_millis(10),
            window: Duration::from_secs(1),
            lever: None,
            always: false,
            guard: None,
            notes: None,
        }
    }
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The program has ended.
    ProgramGone,
    /// We were asked to stop.
    Stopped,
}

/// Why threads are not ordered.
#[derive(Debug, Explained)]
pub enum FollowError {
    /// Their allocation cannot be read.
    #[error(transparent)]
    Allocation(#[from] AllocationError),
    /// No parameter can be changed and changed back.
    #[error(
        "the threads of process {pid} are not ordered: {lever} cannot be changed and changed back here; that \
         needs CAP_SYS_NICE or a limit RLIMIT_NICE of 20 or more for nice levels, and Linux 6.12 for slices"
    )]
    NoLever {
        /// The process.
        pid: i32,
        /// The parameter that was to be changed.
        lever: &'static str,
    },
    /// The program's own parameters leave nothing to change.
    #[error(
        "the threads of process {pid} are not ordered: the program runs under a policy of real time, or \
         under the idle policy, or at nice 19, where {lever} order nothing"
    )]
    NoRoom {
        /// The process.
        pid: i32,
        /// The parameter that was to be changed.
        lever: &'static str,
    },
    /// Its threads have other numbers here than for itself.
    #[error(
        "the threads of process {0} are not ordered: it is in a pid namespace of its own, so its JVM knows \
         them by other numbers; run plimsoll in there"
    )]
    Namespace(i32),
    /// The kernel does not say, or refuses.
    #[error(transparent)]
    Kernel(#[from] Error),
}

/// Orders the threads of a process with a machine, until it ends or `stop` is set. Blocks, so give it a
/// thread of its own. When it returns everything is undone, on an error too.
///
/// # Errors
/// [`FollowError`]. A machine that is just starting may have no tables yet: try again.
pub fn follow(
    process: &Arc<Process>,
    options: &Options,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&News),
) -> std::result::Result<Ended, FollowError> {
    let pid = process.pid();
    if process.ids()?.inner_pid != pid {
        return Err(FollowError::Namespace(pid));
    }
    let setter = setter(pid, options)?;
    let allocation = Allocation::open(process)?;
    let processors = processors(process);
    tell(&News::Follows {
        pid,
        rule: options.rule,
        quanta: options.quanta,
        lever: setter.lever(),
        processors,
    });
    let guard = options.guard.as_ref();
    let notes = options.notes.as_deref();
    let guard =
        guard.map(|(program, command)| Guarded::start((program, command), process, &setter, notes));
    if let Some(Err(error)) = &guard {
        tell(&News::NoGuard(error.to_string()));
    }
    hurry();
    let mut following = Following {
        process: Arc::clone(process),
        threads: Threads::new(process, allocation),
        front: Front::new(options.rule, options.quanta, processors),
        processors,
        options,
        setter,
        trial: Trial::default(),
        window: Window::default(),
        was_back: false,
        in_vain: 0,
        told_many: false,
        changes: 0,
        looks: 0,
    };
    let ended = following.run(stop, tell);
    following.undo();
    drop(guard);
    tell(&News::Ends {
        pid,
        gain: following.trial.gain(),
        changes: following.changes,
        looks: following.looks,
        cost: clock::thread_cpu(),
    });
    match ended {
        Err(Error::Gone { .. }) => Ok(Ended::ProgramGone),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(Ended::Stopped),
    }
}

/// Finds the lever for a process.
fn setter(pid: i32, options: &Options) -> std::result::Result<Setter, FollowError> {
    let rights = Rights::find();
    let lever = match options.lever {
        Some(lever) => Some(lever).filter(|lever| lever.is_allowed(rights)),
        None => Lever::of(rights),
    };
    let name = options.lever.map_or("no parameter of threads", Lever::name);
    let lever = lever.ok_or(FollowError::NoLever { pid, lever: name })?;
    let setter = Setter::new(pid, lever, rights)?;
    if lever.fits(setter.base()) {
        Ok(setter)
    } else {
        Err(FollowError::NoRoom {
            pid,
            lever: lever.name(),
        })
    }
}

/// The calling thread gets a processor soon when it wakes: it has the shortest slice. It needs no more than
/// others, and less of it.
fn hurry() {
    let own = parameters(0)
        .ok()
        .filter(|own| own.policy != Policy::Special);
    if let Some(own) = own {
        let slice = *SLICES.start();
        // Where the kernel has no slices it stays as it is.
        let _ = set_parameters(0, &Parameters { slice, ..own });
    }
}

struct Following<'a> {
    process: Arc<Process>,
    threads: Threads,
    front: Front,
    processors: usize,
    options: &'a Options,
    setter: Setter,
    trial: Trial,
    /// The present window, without its begin.
    window: Window,
    /// Somebody was put back in the present window.
    was_back: bool,
    /// Windows in a row in which no thread was put back; [`IN_VAIN`] if one was, or after the message.
    in_vain: u32,
    told_many: bool,
    changes: u64,
    looks: u64,
}

impl Following<'_> {
    fn run(&mut self, stop: &AtomicBool, tell: &mut dyn FnMut(&News)) -> Result<()> {
        let wanted = Nanos::from(self.options.look);
        let length = Nanos::from(self.options.window);
        let (mut last, mut begin) = (clock::now(), clock::now());
        let mut pause = wanted;
        loop {
            if sleep_until(last + pause, stop) {
                return Ok(());
            }
            let (now, used) = (clock::now(), clock::thread_cpu());
            let elapsed = now - last;
            last = now;
            self.look(now - begin > length / SETTLES, elapsed)?;
            if now - begin >= length {
                self.end_window(tell)?;
                begin = clock::now();
            }
            pause = pace(wanted, clock::thread_cpu() - used);
        }
    }

    fn is_on(&self) -> bool {
        self.options.always || self.trial.switch() == Switch::On
    }

    /// One look, and the places that follow from it. `counts`: it belongs to the window.
    fn look(&mut self, counts: bool, elapsed: Nanos) -> Result<()> {
        self.looks += 1;
        let Following { threads, front, .. } = self;
        let mut leave = |followed: Followed| {
            if let Some(thread) = followed.thread {
                front.leave(thread);
            }
        };
        threads.look(&mut leave)?;
        if counts {
            let window = &mut self.window;
            window.elapsed += elapsed;
            for followed in self.threads.threads() {
                window.bytes += followed.used.bytes;
                window.time += followed.used.time;
                window.waited += Nanos(followed.waited);
            }
        }
        if self.is_on() {
            self.order(elapsed)
        } else {
            Ok(())
        }
    }

    fn order(&mut self, elapsed: Nanos) -> Result<()> {
        let front = &mut self.front;
        for followed in self.threads.threads_mut() {
            if followed.allocates && followed.used.time > Nanos::ZERO {
                let thread = *followed.thread.get_or_insert_with(|| front.admit());
                front.look(thread, followed.used);
            }
        }
        front.decide(elapsed);
        self.was_back |= front.back() > 0;
        for followed in self.threads.threads_mut() {
            if followed.held.is_none() {
                followed.held = self.setter.take(followed.tid).ok();
            }
            let Some(held) = &mut followed.held else {
                continue;
            };
            // A new thread may have inherited that its creator was put back.
            let placed = match followed.thread {
                Some(thread) => self.setter.place(held, front.place(thread)),
                None => self.setter.restore(held),
            };
            match placed {
                Ok(changed) => self.changes += u64::from(changed),
                // The next look sees that it has ended.
                Err(Error::Gone { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn end_window(&mut self, tell: &mut dyn FnMut(&News)) -> Result<()> {
        let was_on = self.is_on();
        if was_on {
            undo_heirs_but(&self.process, &self.setter, self.threads.threads());
            self.tell_whether_it_does_anything(tell);
        }
        let window = std::mem::take(&mut self.window);
        if !self.told_many && self.threads.left() > 0 {
            self.told_many = true;
            tell(&News::TooMany {
                pid: self.process.pid(),
                left: self.threads.left(),
            });
        }
        if self.options.always {
            return Ok(());
        }
        let outcome = self.trial.end(window);
        if was_on && !self.is_on() {
            self.undo();
        }
        match (outcome, self.trial.gain()) {
            (Outcome::Stood, Some(gain)) => tell(&News::Stood(gain)),
            (Outcome::Withdrawn(windows), gain) => {
                tell(&News::Withdrawn(gain, self.options.window * windows));
            }
            _ => {}
        }
        Ok(())
    }

    fn tell_whether_it_does_anything(&mut self, tell: &mut dyn FnMut(&News)) {
        let was_back = std::mem::take(&mut self.was_back);
        if was_back {
            self.in_vain = IN_VAIN;
        }
        if self.in_vain >= IN_VAIN {
            return;
        }
        self.in_vain += 1;
        if self.in_vain == IN_VAIN {
            let threads = self.threads.threads().iter();
            tell(&News::NothingToDo {
                pid: self.process.pid(),
                threads: threads.filter(|followed| followed.thread.is_some()).count(),
                processors: self.processors,
            });
        }
    }

    /// Gives all threads back what they had, and forgets the order.
    fn undo(&mut self) {
        for followed in self.threads.threads_mut() {
            followed.thread = None;
            if let Some(held) = &mut followed.held {
                // One that has ended needs nothing, and one that we may not set was not set.
                self.changes += u64::from(self.setter.restore(held).unwrap_or(false));
            }
            followed.held = None;
        }
        self.front = Front::new(self.options.rule, self.options.quanta, self.processors);
        undo_heirs(&self.process, &self.setter);
    }
}

/// As [`undo_heirs`], but for those threads that are ordered.
fn undo_heirs_but(process: &Process, setter: &Setter, ordered: &[Followed]) {
    let is_ordered = |tid: i32| {
        let followed = ordered.iter().find(|followed| followed.tid == tid);
        followed.is_some_and(|followed| followed.held.is_some())
    };
    crate::undo_on_kill::undo_heirs_where(process, setter, &|tid| !is_ordered(tid));
}

/// Sleeps until a time (of [`clock::now`]). Returns whether we are to stop.
fn sleep_until(until: Nanos, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Acquire) {
            return true;
        }
        match (until - clock::now()).duration() {
            Duration::ZERO => return false,
            left => std::thread::sleep(left.min(GRAIN)),
        }
    }
}
