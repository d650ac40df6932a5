//! `plimsoll adopt`: brings a running program under the broker.

use crate::args;
use crate::broker_connection::Control;
use crate::descriptors;
use crate::error::CliError;
use crate::own_broker::{self, Place};
use crate::rows::{find, shown};
use crate::run::log::notice;
use crate::run::principal::{self, Member, Wanted};
use crate::run::signals::Signals;
use crate::run::{Choices, keep, log, put_back, start_steering};
use crate::size::Human;
use plimsoll_kernel::process::{Handle, Process};
use plimsoll_runtimes::adapter_lock::AdapterLock;
use plimsoll_runtimes::program_name::called;
use plimsoll_runtimes::{ALL, Runtime};
use plimsoll_wire::messages::Principal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tracing::info;

/// Signals that end the adoption. The program lives on.
const HEARD: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// How long we wait for the first limit that the broker gives, and how often we ask.
const FIRST_LIMIT: Duration = Duration::from_secs(1);
const PACE: Duration = Duration::from_millis(20);
/// The line that the background process writes and the waiting `--detach` reads.
const DONE: &[u8] = b"done\n";

/// Adopts a program until it ends, or until we are told to end.
///
/// # Errors
/// When there is no such process, no broker, or the broker refuses.
pub fn run(place: &Place, args: &args::Adopt) -> Result<u8, CliError> {
    let process = open(args.pid)?;
    // Without an adapter the program is only counted, not steered.
    if !matches!(args.principal.adapter, args::AdapterChoice::None) {
        free(args.pid)?;
    }
    if args.detach && !args.tell_when_done {
        return detach();
    }
    let signals = Signals::block(&HEARD)?;
    log::start(log::Tone::of(args.quiet, args.verbose), None)?;
    put_back();
    let choices = Choices::from(&args.principal);
    let alone = choices.need_no_broker() && !own_broker::answers(place);
    let member = if alone {
        None
    } else {
        Some(join(place, args, &process)?)
    };
    let steering = start_steering(member.as_ref(), args.pid, &choices);
    let told = match &member {
        None => "steered by its own stalls, without a broker".to_owned(),
        Some(member) => {
            info!("the broker is at {}", place.socket.path().display());
            standing(place, member, args, steering.is_some())
        }
    };
    notice!("process {} is adopted: {told}", args.pid);
    if args.tell_when_done {
        close_output()?;
    }
    wait(&process, &signals)?;
    let lives = process.alive();
    if let Some(steering) = steering.filter(|_| lives) {
        steering.let_go();
    }
    if lives {
        notice!("process {} is let go, and runs on without us", args.pid);
    } else {
        notice!("process {} has ended", args.pid);
    }
    Ok(0)
}

/// How an adopted program is steered, how closely, and what the broker gives it.
fn standing(place: &Place, member: &Member, args: &args::Adopt, steered: bool) -> String {
    let runtime = runtime(args.principal.adapter, args.pid).filter(|_| steered);
    let steered = runtime.and_then(|it| Some((it.adapter()?, it.adopted())));
    let how = match steered {
        Some((adapter, Some(less))) => format!("steered as {adapter} ({less})"),
        Some((adapter, None)) => format!("steered as {adapter}"),
        None => "counted and shown, not steered".to_owned(),
    };
    let Some(given) = given(place, member) else {
        return how;
    };
    let name = shown(&given.name, 64);
    let limit = match (given.limit, given.max) {
        (0, _) => String::new(),
        (limit, None) => format!(", limit {}", Human(limit)),
        (limit, Some(max)) => format!(", limit {} of at most {}", Human(limit), Human(max)),
    };
    format!("{how}; `{name}`, weight {}{limit}", given.weight)
}

/// The principal as the broker lists it: with its first limit, if that comes soon.
fn given(place: &Place, member: &Member) -> Option<Principal> {
    let mut control = Control::connect(&place.socket).ok()?;
    let until = Instant::now() + FIRST_LIMIT;
    loop {
        let listing = control.list().ok()?;
        let given = find(&listing, member.id()?)?;
        if given.limit > 0 || Instant::now() >= until {
            return Some(given.clone());
        }
        std::thread::sleep(PACE);
    }
}

/// Refuses a process that somebody steers.
fn free(pid: u32) -> Result<(), CliError> {
    let handle = Handle::new(pid).map_err(|_| CliError::NoSuchProcess(pid))?;
    AdapterLock::of(&handle)?;
    Ok(())
}

/// Brings the process under the broker, which is started if we may.
fn join(place: &Place, args: &args::Adopt, process: &Process) -> Result<Member, CliError> {
    own_broker::ensure(place)?;
    let name = args
        .principal
        .name
        .clone()
        .unwrap_or_else(|| name_of(process));
    let wanted = Wanted {
        name: &name,
        unnamed: args.principal.name.is_none(),
        weight: args.principal.weight,
        priority: args.principal.priority,
        max: principal::bound(args.principal.max)?,
        adapter: runtime(args.principal.adapter, args.pid).and_then(|it| it.adapter()),
        whole: args.whole,
    };
    let member = Member::join(place, wanted, None)?;
    member.attach(args.pid)?;
    keep(place);
    Ok(member)
}

fn open(pid: u32) -> Result<Process, CliError> {
    let number = i32::try_from(pid).map_err(|_| CliError::NoSuchProcess(pid))?;
    match Process::open(number) {
        Ok(process) if process.alive() => Ok(process),
        Ok(_) | Err(plimsoll_kernel::Error::Gone { .. }) => Err(CliError::NoSuchProcess(pid)),
        Err(error) => Err(CliError::Refused(error.to_string())),
    }
}

fn name_of(process: &Process) -> String {
    let by_path = process.exe().ok().flatten();
    let file = by_path.as_deref().and_then(|exe| exe.file_name());
    let name = file.map(|file| file.to_string_lossy().into_owned());
    let name = name.or_else(|| process.comm().ok()).unwrap_or_default();
    // A program may call itself anything, so its name is that of its file.
    let mut words = process.cmdline().unwrap_or_default();
    words.splice(..words.len().min(1), [name]);
    called(&words)
}

/// The runtime as whose program an adopted one is steered.
fn runtime(choice: args::AdapterChoice, pid: u32) -> Option<&'static dyn Runtime> {
    let found = ALL.of_process(pid);
    match choice {
        _ if found.left_alone().is_some() => None,
        args::AdapterChoice::Auto => Some(found),
        args::AdapterChoice::None => None,
        args::AdapterChoice::Named(name) => ALL.chosen(name),
    }
}

/// Waits for the program's end or a signal.
fn wait(process: &Process, signals: &Signals) -> Result<(), CliError> {
    let second = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    while process.alive() && signals.next().is_none() {
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        let pidfd = process.pidfd();
        if let Some(pidfd) = &pidfd {
            fds.push(PollFd::new(pidfd, PollFlags::IN));
        }
        // Without a pidfd we look once a second.
        match poll(&mut fds, pidfd.is_none().then_some(&second)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(CliError::system("waiting for the program")(error)),
        }
    }
    Ok(())
}

/// Starts this command again in a session of its own, and waits until it has adopted the program.
fn detach() -> Result<u8, CliError> {
    let own = std::env::current_exe().map_err(CliError::system("our own program file"))?;
    let mut command = Command::new(own);
    command
        .args(std::env::args_os().skip(1))
        .env("PLIMSOLL_TELL_WHEN_DONE", "true");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let open = descriptors::inherited();
    // SAFETY: `setsid`, `close_range` and `fcntl` may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            descriptors::close_on_exec(&open);
            Ok(())
        });
    }
    let mut child = command
        .spawn()
        .map_err(CliError::system("the background process"))?;
    let mut told = Vec::new();
    if let Some(output) = child.stdout.take() {
        let _ = output.take(64).read_to_end(&mut told);
    }
    if told == DONE {
        return Ok(0);
    }
    // The child has told why on standard error, which it shares with us.
    let status = child
        .wait()
        .map_err(CliError::system("the background process"))?;
    Ok(status
        .code()
        .map_or(crate::error::FAILED, |code| code as u8))
}

/// Tells the waiting process that the adoption is done, and releases its terminal.
fn close_output() -> Result<(), CliError> {
    let mut output = std::io::stdout();
    let told = output.write_all(DONE).and_then(|()| output.flush());
    told.map_err(CliError::system("standard output"))?;
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null");
    let null = null.map_err(CliError::path("/dev/null"))?;
    rustix::stdio::dup2_stdout(&null).map_err(CliError::system("standard output"))?;
    rustix::stdio::dup2_stderr(&null).map_err(CliError::system("standard error"))
}
