//! Finds a broker, and starts one for this user if none runs.

use crate::broker_connection::Control;
use crate::descriptors;
use crate::error::CliError;
use crate::run::signals;
use plimsoll_broker::options::{directory_of, taken, user_directory};
use plimsoll_broker::server::listener::make_directory;
use plimsoll_client::{SYSTEM, Socket, Surroundings};
use plimsoll_kernel::process::own;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An embedded broker ends this long after its last principal left.
pub const IDLE_EXIT: Duration = Duration::from_secs(10);
/// A broker that does not answer within this time after its start never will.
const START: Duration = Duration::from_secs(10);
/// The pause between two checks whether it answers.
const LOOK: Duration = Duration::from_millis(5);
/// How many bytes from the end of the log are shown if a broker did not start.
const SHOWN: u64 = 2000;
/// A log that is longer than this many bytes is begun anew.
const LONGEST_LOG: u64 = 1 << 20;
/// The last message in the log of a broker that did not start ([`CliError::NotStarted`]).
const LAST_WORDS: &str = "plimsoll: the broker could not be started:";

/// Variables through which a service manager talks to the process that starts the broker. They are
/// not meant for the broker, which is a child of another process.
const OF_A_SERVICE: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];

/// The place of the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The socket.
    pub socket: Socket,
    /// Whether we may start a broker there. Not in the system broker's place.
    pub ours: bool,
}

impl Place {
    fn at(socket: Socket) -> Place {
        Place {
            ours: socket.path() != Path::new(SYSTEM),
            socket,
        }
    }
}

/// The requested socket; else the first usual place where a broker answers; else the place for a
/// broker of this user.
pub fn place(asked: Option<&Path>) -> Place {
    if let Some(socket) = asked {
        return Place::at(Socket::at(socket));
    }
    let around = Surroundings {
        socket: None,
        ..Surroundings::of_self()
    };
    let candidates = Socket::candidates(&around);
    let own = user_directory().join("broker.sock");
    let answers = candidates
        .iter()
        .find(|socket| Control::connect(socket).is_ok());
    let found = answers.or_else(|| candidates.iter().find(|socket| socket.path() == own));
    Place::at(found.cloned().unwrap_or_else(|| Socket::at(own)))
}

/// Whether a broker answers there now.
pub fn answers(place: &Place) -> bool {
    Control::connect(&place.socket).is_ok()
}

/// Makes sure that a broker answers, and starts one if we may. Returns whether one was started.
///
/// # Errors
/// When none answers and none could be started. The message says why.
pub fn ensure(place: &Place) -> Result<bool, CliError> {
    match Control::connect(&place.socket) {
        Ok(_) => return Ok(false),
        Err(CliError::NoBroker { .. }) if place.ours => {}
        Err(error) => return Err(error),
    }
    let directory = directory_of(place.socket.path());
    if let Some(taken) = taken(&directory) {
        let (taken, directory) = (taken.display(), directory.display());
        tracing::warn!("{taken} is not ours: the broker is in {directory} instead");
    }
    let mut log = open_log(place.socket.path())?;
    let before = log.seek(SeekFrom::End(0)).unwrap_or(0);
    spawn(place.socket.path(), &log)?;
    let deadline = Instant::now() + START;
    while Instant::now() < deadline {
        if Control::connect(&place.socket).is_ok() {
            return Ok(true);
        }
        let told = tail(&mut log, before);
        // Another broker that started faster is as good.
        if told.contains(LAST_WORDS) && !told.contains("already serves") {
            return Err(CliError::NotStarted(
                told.replace(LAST_WORDS, "").trim().to_owned(),
            ));
        }
        std::thread::sleep(LOOK);
    }
    let told = tail(&mut log, before);
    let said = if told.is_empty() {
        "it said nothing".to_owned()
    } else {
        told
    };
    Err(CliError::NotStarted(format!(
        "no answer within {} s: {said}",
        START.as_secs()
    )))
}

fn open_log(socket: &Path) -> Result<File, CliError> {
    let directory = directory_of(socket);
    for directory in [socket.parent().unwrap_or(Path::new(".")), &directory] {
        make_directory(directory, false)
            .map_err(|error| CliError::NotStarted(error.to_string()))?;
    }
    let path = directory.join("broker.log");
    let log = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .map_err(CliError::path(&path))?;
    if log.metadata().is_ok_and(|meta| meta.len() > LONGEST_LOG) {
        log.set_len(0).map_err(CliError::path(&path))?;
    }
    Ok(log)
}

/// Starts our own program as a broker: in a session of its own, as a child of init, with no
/// inherited descriptor but the log.
fn spawn(socket: &Path, log: &File) -> Result<(), CliError> {
    let own = own::program().map_err(CliError::system("our own program file"))?;
    let clone = || {
        log.try_clone()
            .map_err(CliError::system("the broker's log"))
    };
    let mut command = Command::new(own);
    command
        .arg("broker")
        .arg("--embedded")
        .arg("--socket")
        .arg(socket);
    for name in OF_A_SERVICE {
        command.env_remove(name);
    }
    command
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(clone()?)
        .stderr(clone()?);
    let open = descriptors::inherited();
    // SAFETY: between fork and exec only `setsid`, `fork`, `_exit`, `sigprocmask`, `close_range` and
    // `fcntl` are called, which may be. The child that forks ends at once, so the broker is nobody's
    // zombie.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            signals::unblock_all();
            descriptors::close_on_exec(&open);
            match libc::fork() {
                0 => Ok(()),
                -1 => Err(std::io::Error::last_os_error()),
                _ => libc::_exit(0),
            }
        });
    }
    let mut child = command
        .spawn()
        .map_err(|error| CliError::NotStarted(error.to_string()))?;
    match child.wait() {
        // If SIGCHLD is ignored there is no exit status, but the child has ended.
        Err(error) if error.raw_os_error() != Some(libc::ECHILD) => Err(CliError::system(
            "waiting for the broker's first process",
        )(error)),
        _ => Ok(()),
    }
}

/// The text of the log from offset `since` on.
fn tail(log: &mut File, since: u64) -> String {
    let end = log.seek(SeekFrom::End(0)).unwrap_or(since);
    let from = since.max(end.saturating_sub(SHOWN));
    let mut bytes = Vec::new();
    let read = log
        .seek(SeekFrom::Start(from))
        .and_then(|_| log.take(SHOWN).read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_that_was_asked_for_is_taken() {
        let asked = place(Some(Path::new("/x/y.sock")));
        assert_eq!(
            asked,
            Place {
                socket: Socket::at("/x/y.sock"),
                ours: true
            }
        );
        assert!(!place(Some(Path::new(SYSTEM))).ours);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let place = Place {
            socket: Socket::at("/proc/nowhere/broker.sock"),
            ours: true,
        };
        let error = ensure(&place).unwrap_err().to_string();
        assert!(error.contains("/proc/nowhere"), "{error}");
    }

    #[test]
    fn a_directory_of_others_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let place = Place {
            socket: Socket::at(dir.path().join("broker.sock")),
            ours: true,
        };
        assert!(matches!(ensure(&place), Err(CliError::NotStarted(_))));
    }

    #[test]
    fn the_systems_broker_is_not_started_by_users() {
        let place = Place {
            socket: Socket::at("/nonexistent/broker.sock"),
            ours: false,
        };
        assert!(matches!(ensure(&place), Err(CliError::NoBroker { .. })));
    }
}
