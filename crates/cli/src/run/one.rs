//! `plimsoll run PROGRAM`: one program, in the foreground, as if plimsoll were not there.

use super::child::{self, Launch, Running};
use super::phases::Ordered;
use super::principal::{self, Member, Wanted};
use super::signals::{FORWARDED, Received, Signals};
use super::{keep, log, orphans, put_back, steer};
use crate::args;
use crate::error::CliError;
use crate::own_broker::{self, Place};
use crate::own_cgroup::OwnCgroup;
use plimsoll_programs::Setting;
use plimsoll_runtimes::program_name::called;
use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::OsString;
use tracing::{info, warn};

/// Runs a program until it ends, and returns its status.
///
/// # Errors
/// When it cannot be started. A missing broker is not an error.
pub(super) fn run(place: &Place, args: &args::Run) -> Result<u8, CliError> {
    let heard = FORWARDED.into_iter().chain([libc::SIGTSTP]);
    let heard: Vec<i32> = heard.chain(orphans::heard()).collect();
    // Before the first thread, so that the signals are blocked in all threads.
    let signals = Signals::block(&heard)?;
    log::start(log::Tone::of(args.quiet, args.verbose), args.log.as_deref())?;
    put_back();
    let max = principal::bound(args.principal.max)?;
    let choices = steer::Choices::from(&args.principal);
    let alone = is_alone(place, &choices);
    let found = !alone && find_broker(place);
    let broker = (!alone).then_some(place);
    let steered = steer::prepare(&args.program, &choices, None, &Setting::ours(), broker);
    let name = args
        .principal
        .name
        .clone()
        .unwrap_or_else(|| name_of(&args.program));
    let wanted = Wanted {
        name: &name,
        unnamed: args.principal.name.is_none(),
        weight: args.principal.weight,
        priority: args.principal.priority,
        max,
        adapter: steered.adapter,
        whole: false,
    };
    let member = match broker {
        Some(place) => join(place, wanted, found)?,
        None => None,
    };
    let mut launch = Launch {
        argv: steered.argv,
        ..Launch::default()
    };
    launch.environment = steered.environment;
    let own = member.as_ref().and_then(|_| own_cgroup());
    if let Some(member) = &member {
        member.tell(&mut launch);
        launch.cgroup = own.as_ref().map(|own| own.entry().clone());
    }
    let mut running = child::spawn(&launch)?;
    if let Some(member) = &member {
        member.attach_started(running.pid(), launch.starts_in());
        if let Some(own) = &own {
            member.contain(running.pid(), own.dir());
        }
    }
    if alone || member.is_some() {
        steer::start(member.as_ref(), running.pid(), &choices);
    }
    let ordered = Ordered::start(running.pid(), &args.phases, member.clone());
    let status = supervise(&mut running, &signals);
    if let Some(ordered) = ordered {
        ordered.let_go();
    }
    let status = status?;
    info!("the program ended with status {status}");
    Ok(status)
}

/// Runs a program until it ends, with no broker and no adapter, and returns its status. Called before the
/// first
/// thread is started.
///
/// # Errors
/// When it cannot be started.
pub fn plainly(argv: Vec<OsString>) -> Result<u8, CliError> {
    let heard = FORWARDED.into_iter().chain([libc::SIGTSTP]);
    let signals = Signals::block(&heard.chain(orphans::heard()).collect::<Vec<i32>>())?;
    let mut running = child::spawn(&Launch {
        argv,
        ..Launch::default()
    })?;
    supervise(&mut running, &signals)
}

/// A cgroup for the program, where it is ours to make one. Without it the broker can only page the program
/// out.
fn own_cgroup() -> Option<OwnCgroup> {
    OwnCgroup::for_program()
        .inspect_err(|why| info!("the program has no cgroup of its own: {why}"))
        .ok()
        .flatten()
}

/// Whether the program runs without a broker: the policy needs none, and none runs here.
fn is_alone(place: &Place, choices: &steer::Choices) -> bool {
    let alone = choices.need_no_broker() && !own_broker::answers(place);
    if alone {
        info!("no broker runs, and Isla Vista needs none: the program is not registered");
    }
    alone
}

/// Finds or starts a broker. False, with a warning, if there is none.
fn find_broker(place: &Place) -> bool {
    let at = place.socket.path().display();
    match own_broker::ensure(place) {
        Ok(true) => info!("started a broker at {at}"),
        Ok(false) => info!("found the broker at {at}"),
        Err(error) => {
            warn!("the program runs without a broker: {error}");
            return false;
        }
    }
    keep(place);
    true
}

/// Makes a principal for the program. Without a broker it is alone until one comes. Warns if a
/// broker was `found` but does not serve.
///
/// # Errors
/// The broker does not give what was asked for: the program does not start.
fn join(place: &Place, wanted: Wanted<'_>, found: bool) -> Result<Option<Member>, CliError> {
    let member = principal::unless_asked(Member::join(place, wanted, None))?;
    let why = match &member {
        Ok(member) => member.alone(),
        Err(why) => Some(why.clone()),
    };
    if let Some(why) = why.filter(|_| found) {
        warn!("the program runs without a broker: {why}");
    }
    Ok(member.ok())
}

/// A principal's name from the command line.
fn name_of(argv: &[OsString]) -> String {
    let words: Vec<String> = argv
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    called(&words)
}

/// Waits for the program's end, and passes on signals that we receive.
fn supervise(running: &mut Running, signals: &Signals) -> Result<u8, CliError> {
    loop {
        if let Some(status) = running.ended() {
            return Ok(status);
        }
        let mut fds = [
            PollFd::new(running.pidfd(), PollFlags::IN),
            PollFd::new(signals, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(CliError::system("waiting for the program")(error)),
        }
        while let Some(received) = signals.next() {
            match received.signal {
                libc::SIGCHLD => orphans::reap(&[running.pid()]),
                _ => pass_on(running, received),
            }
        }
    }
}

/// Passes on a signal, except those from the terminal: they reach the program directly, because it
/// is in our process group.
fn pass_on(running: &Running, received: Received) {
    if !received.from_terminal {
        running.signal(received.signal);
    }
    if received.signal == libc::SIGTSTP {
        // Stop with the program, so that the shell takes the terminal back. SAFETY: `raise` only
        // sends a signal to this very process.
        unsafe { libc::raise(libc::SIGSTOP) };
    }
}
