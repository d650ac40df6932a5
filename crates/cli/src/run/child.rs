//! Starts a program, in its cgroup if it has one, and tells how it ended.

use super::move_children::cgroup_of;
use super::signals;
use crate::error::{CliError, RUN_FAILED};
use crate::own_cgroup::{Entry, Usher};
use plimsoll_kernel::process::{Process, numbers};
use plimsoll_programs::Setting;
use plimsoll_programs::command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, test_kill_process};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::warn;

/// Whether SIGCHLD was ignored when we were started.
static IGNORED: AtomicBool = AtomicBool::new(false);

/// Makes the kernel keep our children's exit status. It does not while SIGCHLD is ignored, and a
/// parent that ignores it (`trap '' CHLD`) passes that on to us. Call it first. Our programs get
/// SIGCHLD as we found it.
pub fn hear_of_ends() {
    // SAFETY: no handler is set, so nothing of ours runs when the signal comes.
    let found = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    IGNORED.store(found == libc::SIG_IGN, Ordering::Relaxed);
}

/// Becomes another program, which finds SIGCHLD as we found it. Returns only if that fails.
pub fn replace_us(mut command: Command) -> io::Error {
    if IGNORED.load(Ordering::Relaxed) {
        // SAFETY: no handler is set, and no child of ours runs.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
    command.exec()
}

/// A program to start, and the place where it starts.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Program and arguments; never empty.
    pub argv: Vec<OsString>,
    /// Added to the environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables removed from our environment, unless they are added.
    pub removed: Vec<OsString>,
    /// Where it runs; here when absent.
    pub cwd: Option<PathBuf>,
    /// The file that its standard output is appended to; inherited if absent.
    pub stdout: Option<PathBuf>,
    /// The file that its standard error is appended to; inherited if absent.
    pub stderr: Option<PathBuf>,
    /// The cgroup that it enters before its exec; ours if absent or not permitted.
    pub cgroup: Option<Entry>,
    /// In a process group of its own, so that the terminal's signals do not reach it.
    pub own_group: bool,
}

impl Launch {
    /// The memory cgroup in which the program finds itself at first.
    pub(super) fn starts_in(&self) -> Option<PathBuf> {
        let own = self.cgroup.as_ref().map(|entry| entry.dir.clone());
        own.or_else(|| cgroup_of(std::process::id()))
    }
}

/// A started program.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pidfd: OwnedFd,
}

/// Starts a program.
///
/// # Errors
/// When it was not found or cannot be executed, or when an output file cannot be opened.
pub fn spawn(launch: &Launch) -> Result<Running, CliError> {
    let mut command = Command::new(&launch.argv[0]);
    for name in &launch.removed {
        command.env_remove(name);
    }
    command
        .args(&launch.argv[1..])
        .envs(launch.environment.iter().cloned());
    if let Some(cwd) = &launch.cwd {
        std::fs::read_dir(cwd).map_err(|source| CliError::Cwd {
            path: cwd.clone(),
            source,
        })?;
        command.current_dir(cwd);
    }
    if let Some(path) = &launch.stdout {
        command.stdout(open_output(path)?);
    }
    if let Some(path) = &launch.stderr {
        command.stderr(open_output(path)?);
    }
    if launch.own_group {
        // A background process group could not read from the terminal anyway.
        command.process_group(0).stdin(Stdio::null());
    }
    // Without descriptors or a thread for this the program runs where we are.
    let way = launch.cgroup.as_ref().and_then(|entry| entry.open().ok());
    let (newcomer, usher) = way.unzip();
    // SAFETY: the closure calls nothing but `Newcomer::enter`, `sigprocmask` and `signal`, which may be
    // called between fork and exec; the files stay open until the closure is dropped with the command.
    unsafe {
        command.pre_exec(move || {
            if let Some(newcomer) = &newcomer {
                newcomer.enter();
            }
            signals::unblock_all();
            if IGNORED.load(Ordering::Relaxed) {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            }
            Ok(())
        });
    }
    let child = start(command, usher.filter(Usher::is_needed))
        .map_err(|source| not_started(&launch.argv[0], source))?;
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(CliError::system(
        "the program runs, but cannot be watched (pidfd_open)",
    ))?;
    Ok(Running { child, pidfd })
}

/// Starts a command. The usher serves the new process meanwhile: until that has executed its program, `spawn`
/// does not return.
fn start(mut command: Command, usher: Option<Usher>) -> io::Result<Child> {
    std::thread::scope(|scope| {
        if let Some(usher) = usher {
            let thread = std::thread::Builder::new().name("usher".into());
            if let Err(error) = thread.spawn_scoped(scope, || usher.serve()) {
                warn!("no thread to move the program to its cgroup: {error}");
            }
        }
        let child = command.spawn();
        // The usher hears of the end when nobody holds the other ends of its pipes any more.
        drop(command);
        child
    })
}

fn open_output(path: &Path) -> Result<File, CliError> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(CliError::path(path))
}

/// Tells a missing program from a missing interpreter: the kernel says "no such file" for both.
fn not_started(program: &OsString, source: io::Error) -> CliError {
    let name = program.to_string_lossy().into_owned();
    match find(Path::new(program)) {
        Some(path) if source.kind() == io::ErrorKind::NotFound => CliError::NotExecutable {
            program: name,
            source: io::Error::other(format!(
                "the interpreter of {} was not found",
                path.display()
            )),
        },
        None if source.kind() == io::ErrorKind::NotFound => {
            CliError::ProgramNotFound { program: name }
        }
        Some(path) if path.is_dir() => CliError::NotExecutable {
            program: name,
            source: io::Error::other("it is a directory"),
        },
        _ => CliError::NotExecutable {
            program: name,
            source,
        },
    }
}

/// Finds the program in `PATH`, or by the path itself.
pub fn find(program: &Path) -> Option<PathBuf> {
    let found = command::program(program.as_os_str(), &Setting::ours());
    found.filter(|file| file.exists())
}

impl Running {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A descriptor that is readable once it has ended.
    pub fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = pidfd_send_signal(&self.pidfd, signal);
        }
    }

    /// Sends a signal to its process group, where it has one of its own.
    pub fn signal_group(&self, signal: i32) {
        if let (Some(signal), Some(pid)) = (Signal::from_named_raw(signal), self.number()) {
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }

    /// How it ended, if it has. Takes the zombie away.
    pub fn ended(&mut self) -> Option<u8> {
        match self.child.try_wait() {
            Ok(ended) => ended.map(status),
            // Another waiter took its status. The error would come back for ever.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                warn!("process {} has ended; how is not known", self.pid());
                Some(RUN_FAILED)
            }
            Err(_) => None,
        }
    }

    /// Whether it has ended while others of its process group still run. Does not reap it: until
    /// [`Running::ended`] does, the zombie keeps its number from being reused, so it is safe to
    /// signal the group.
    pub fn left_others(&self) -> bool {
        self.is_over() && self.number().is_some_and(others_run)
    }

    fn is_over(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&now)), Ok(ready) if ready > 0)
    }

    fn number(&self) -> Option<Pid> {
        i32::try_from(self.pid()).ok().and_then(Pid::from_raw)
    }
}

/// Whether any process but the first runs in a process group. `kill` on the group cannot tell,
/// because it counts zombies.
fn others_run(group: Pid) -> bool {
    let Ok(numbers) = numbers() else {
        return false;
    };
    let runs = |pid: Pid| match Process::open(pid.as_raw_nonzero().get()) {
        Ok(process) => process.alive(),
        // A process that is hidden from us runs.
        Err(error) => !error.is_gone(),
    };
    numbers
        .filter_map(Pid::from_raw)
        .filter(|&pid| pid != group && group_of(pid) == group.as_raw_nonzero().get())
        // Do not wait for a process that we may not end (`sudo`).
        .any(|pid| test_kill_process(pid).is_ok() && runs(pid))
}

/// The process group of a process, 0 for the kernel's threads (which `rustix`'s type cannot hold),
/// -1 when it is gone.
fn group_of(pid: Pid) -> i32 {
    // SAFETY: only asks.
    unsafe { libc::getpgid(pid.as_raw_nonzero().get()) }
}

/// The program's own status, or 128+N when signal N ended it.
fn status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => RUN_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn launch(words: &[&str]) -> Launch {
        Launch {
            argv: words.iter().map(OsString::from).collect(),
            ..Launch::default()
        }
    }

    fn end(words: &[&str]) -> u8 {
        let mut running = spawn(&launch(words)).unwrap();
        loop {
            if let Some(status) = running.ended() {
                return status;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    #[test]
    fn the_status_is_the_programs() {
        assert_eq!(end(&["true"]), 0);
        assert_eq!(end(&["sh", "-c", "exit 7"]), 7);
        assert_eq!(end(&["sh", "-c", "kill -9 $$"]), 137);
    }

    #[test]
    fn says_why_a_program_does_not_start() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/nonexistent/interpreter\n").unwrap();
        let path = script.to_str().unwrap();
        let status = |words: &[&str]| spawn(&launch(words)).unwrap_err().run_status();
        assert_eq!(status(&["plimsoll-no-such-program"]), 127);
        assert_eq!(status(&["/nonexistent/program"]), 127);
        assert_eq!(status(&[path]), 126);
        assert_eq!(status(&["/tmp"]), 126);
        let error = spawn(&launch(&["/tmp"])).unwrap_err().to_string();
        assert_eq!(error, "/tmp: cannot be executed: it is a directory");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = spawn(&launch(&[path])).unwrap_err();
        assert!(error.to_string().contains("interpreter"), "{error}");
    }

    #[test]
    fn files_and_directories_that_are_not_there_are_named() {
        let nowhere = Some(PathBuf::from("/nonexistent/x"));
        for broken in [
            Launch {
                cwd: nowhere.clone(),
                ..launch(&["true"])
            },
            Launch {
                stdout: nowhere.clone(),
                ..launch(&["true"])
            },
            Launch {
                stderr: nowhere.clone(),
                ..launch(&["true"])
            },
        ] {
            let error = spawn(&broken).unwrap_err();
            let error = error.to_string();
            let error = error.strip_prefix("cwd ").unwrap_or(&error);
            assert!(error.starts_with("/nonexistent/x: "), "{error}");
        }
    }

    #[test]
    fn a_cgroup_that_cannot_be_entered_costs_nothing() {
        let launch = Launch {
            cgroup: Some(Entry::directly(Path::new("/nonexistent"))),
            ..launch(&["true"])
        };
        let mut running = spawn(&launch).unwrap();
        while running.ended().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    #[test]
    fn an_end_of_which_somebody_else_heard_is_an_end() {
        let mut running = spawn(&launch(&["sleep", "600"])).unwrap();
        assert_eq!(running.ended(), None);
        running.signal(libc::SIGKILL);
        // SAFETY: the process is a child of ours, and a status is not asked for.
        unsafe { libc::waitpid(running.pid() as i32, std::ptr::null_mut(), 0) };
        assert_eq!(running.ended(), Some(RUN_FAILED));
    }

    #[test]
    fn what_a_program_leaves_in_its_group_is_seen() {
        let script = "sleep 600 & read line";
        let group = Launch {
            own_group: true,
            ..launch(&["sh", "-c", script])
        };
        // Its standard input is empty, so the shell ends and the other process stays.
        let mut running = spawn(&group).unwrap();
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !running.left_others() {
            assert!(std::time::Instant::now() < patience);
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        running.signal_group(libc::SIGKILL);
        while running.left_others() {
            assert!(std::time::Instant::now() < patience);
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert_eq!(running.ended(), Some(1), "what `read` said");
    }
}
