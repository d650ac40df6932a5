//! Finding a broker, and starting one for this user where none runs.

use crate::control::Control;
use crate::descriptors;
use crate::error::CliError;
use crate::run::signals;
use plimsoll_broker::options::user_directory;
use plimsoll_broker::server::listener::make_directory;
use plimsoll_client::{SYSTEM, Socket, Surroundings};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An embedded broker leaves so long after its last principal.
pub const IDLE_EXIT: Duration = Duration::from_secs(10);
/// A broker that does not answer so long after its start will not.
const START: Duration = Duration::from_secs(10);
/// Between two looks whether it answers.
const LOOK: Duration = Duration::from_millis(5);
/// Shown of the log of a broker that did not start, bytes from its end.
const SHOWN: u64 = 2000;
/// A longer log is begun anew, bytes.
const LONGEST_LOG: u64 = 1 << 20;
/// How the log of a broker that did not start ends ([`CliError::NotStarted`]).
const LAST_WORDS: &str = "plimsoll: the broker could not be started:";

/// How a service manager speaks with who starts the broker. The broker is another's child, and must
/// not answer.
const OF_A_SERVICE: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];

/// Where the broker is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The socket.
    pub socket: Socket,
    /// Whether we may start a broker there: not in place of the system's.
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

/// The socket that was asked for; else the first of the usual places where a broker answers; else
/// where a broker of this user would be.
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

/// Makes sure that a broker answers, starting one where we may. Returns whether it was started.
///
/// # Errors
/// When none answers and none could be started; the message says why.
pub fn ensure(place: &Place) -> Result<bool, CliError> {
    match Control::connect(&place.socket) {
        Ok(_) => return Ok(false),
        Err(CliError::NoBroker { .. }) if place.ours => {}
        Err(error) => return Err(error),
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
        // Another that was faster is as good.
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
    let directory = socket.parent().unwrap_or(Path::new("."));
    make_directory(directory, false).map_err(|error| CliError::NotStarted(error.to_string()))?;
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

/// Starts this very program as a broker: a session of its own, a child of init, nothing inherited
/// but the log.
fn spawn(socket: &Path, log: &File) -> Result<(), CliError> {
    let own = own_program()?;
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
        // Where nobody keeps how children end, it has ended all the same.
        Err(error) if error.raw_os_error() != Some(libc::ECHILD) => Err(CliError::system(
            "waiting for the broker's first process",
        )(error)),
        _ => Ok(()),
    }
}

/// The file that runs; where it was replaced (by a newer version), the kernel still has the old one.
fn own_program() -> Result<PathBuf, CliError> {
    let own = std::env::current_exe().map_err(CliError::system("our own program file"))?;
    match own.exists() {
        true => Ok(own),
        false => Ok("/proc/self/exe".into()),
    }
}

/// What the log says since then.
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
