//! The options of the command line, and the paths of the broker's files.

use crate::error::Error;
use plimsoll_kernel::environment::variable;
use plimsoll_kernel::peer::{IN_HOME, is_own_directory, is_taken};
use plimsoll_unit::Bytes;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The system broker's directory.
pub const SYSTEM_DIRECTORY: &str = "/run/plimsoll";
/// The system broker's configuration.
pub const SYSTEM_CONFIG: &str = "/etc/plimsoll/plimsoll.toml";

/// How to run a broker. [`Options::default`] is the user's broker.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether to be the system's broker for all users: `/run/plimsoll`,
    /// `/etc/plimsoll/plimsoll.toml`.
    pub system: bool,
    /// Directory of the socket, pages and state; the default depends on the socket ([`directory_of`]),
    /// `system` and the environment ([`user_directory`]).
    pub directory: Option<PathBuf>,
    /// The socket; by default `PLIMSOLL_SOCKET` (of a user's broker without a `directory`), else
    /// `broker.sock` in the directory.
    pub socket: Option<PathBuf>,
    /// The configuration; by default `/etc/plimsoll/plimsoll.toml` or
    /// `$XDG_CONFIG_HOME/plimsoll/plimsoll.toml`. A path given here must exist.
    pub config: Option<PathBuf>,
    /// Exit this long after the last principal and connection are gone; never when `None`.
    pub idle_exit: Option<Duration>,
    /// Memory domain: a cgroup directory under the memory controller's mount whose limit bounds
    /// everything, instead of the broker's own cgroup.
    pub domain: Option<PathBuf>,
    /// Most memory to share out; the smaller of this and the configuration's `budget` applies.
    pub budget: Option<Bytes>,
    /// Only check the configuration and print a summary.
    pub check: bool,
}

/// Absolute paths, resolved once at start.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Directory of all other paths unless they are given.
    pub directory: PathBuf,
    /// The Varlink socket.
    pub socket: PathBuf,
    /// Directory with one page per principal.
    pub pages: PathBuf,
    /// Directory with one pressure socket per principal.
    pub pressure: PathBuf,
    /// File with the state that survives a crash.
    pub state: PathBuf,
    /// The configuration and whether it must exist.
    pub config: (PathBuf, bool),
}

impl Options {
    /// Resolves every path.
    ///
    /// # Errors
    /// [`Error::Path`] for a relative path that cannot be made absolute.
    pub fn paths(&self) -> Result<Paths, Error> {
        self.paths_if_named(named_by_environment())
    }

    /// As [`Options::paths`], where the environment names this socket.
    fn paths_if_named(&self, named: Option<PathBuf>) -> Result<Paths, Error> {
        let named = named.filter(|_| !self.system && self.directory.is_none());
        let socket = self.socket.clone().or(named);
        let directory = match (&self.directory, &socket) {
            (Some(directory), _) => directory.clone(),
            (None, Some(socket)) => directory_of(socket),
            (None, None) if self.system => PathBuf::from(SYSTEM_DIRECTORY),
            (None, None) => user_directory(),
        };
        let directory = absolute(&directory)?;
        let socket = match &socket {
            Some(socket) => absolute(socket)?,
            None => directory.join(USUAL),
        };
        let config = match &self.config {
            Some(path) => (absolute(path)?, true),
            None => (self.default_config(), false),
        };
        Ok(Paths {
            pages: directory.join("pages"),
            pressure: directory.join("pressure"),
            state: directory.join("state.json"),
            socket,
            directory,
            config,
        })
    }

    fn default_config(&self) -> PathBuf {
        if self.system {
            return PathBuf::from(SYSTEM_CONFIG);
        }
        config_below(variable("XDG_CONFIG_HOME"), variable("HOME"))
    }
}

/// Name of a socket whose directory is its broker's.
const USUAL: &str = "broker.sock";

/// The directory of the broker at a socket: that of the socket, or, for another name than the usual one,
/// `NAME.d` beside it. So each socket of a directory has a broker of its own.
#[must_use]
pub fn directory_of(socket: &Path) -> PathBuf {
    let parent = socket.parent().unwrap_or(Path::new("."));
    match socket.file_name() {
        Some(name) if name != USUAL => {
            let mut name = name.to_os_string();
            name.push(".d");
            parent.join(name)
        }
        _ => parent.to_path_buf(),
    }
}

/// The user's configuration file. Relative paths are ignored, as the XDG base directory
/// specification requires: a broker must not take a configuration from the directory in which it
/// happens to start.
fn config_below(config_home: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let whole = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let base = config_home
        .and_then(whole)
        .or_else(|| Some(home.and_then(whole)?.join(".config")));
    base.unwrap_or_else(|| PathBuf::from("/etc"))
        .join("plimsoll/plimsoll.toml")
}

/// The socket that `PLIMSOLL_SOCKET` names.
fn named_by_environment() -> Option<PathBuf> {
    let socket = variable("PLIMSOLL_SOCKET").filter(|value| !value.is_empty());
    socket.map(PathBuf::from)
}

/// The user's directory: `$XDG_RUNTIME_DIR/plimsoll` where that is the user's own, else
/// `/run/user/UID/plimsoll` where that directory exists, else `/tmp/plimsoll-UID`, or, where another user has
/// taken that, `~/.cache/plimsoll`.
#[must_use]
pub fn user_directory() -> PathBuf {
    let uid = rustix::process::getuid().as_raw();
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(runtime) = runtime.filter(|runtime| is_own_directory(runtime, uid)) {
        return runtime.join("plimsoll");
    }
    let runtime = PathBuf::from(format!("/run/user/{uid}"));
    if runtime.is_dir() {
        return runtime.join("plimsoll");
    }
    let usual = temporary(uid);
    let home = variable("HOME").map(PathBuf::from);
    let home = home.filter(|home| is_taken(&usual, uid) && is_own_directory(home, uid));
    home.map_or(usual, |home| home.join(IN_HOME))
}

fn temporary(uid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/plimsoll-{uid}"))
}

/// The usual place of a user's broker, if its directory is elsewhere because another user took that place.
#[must_use]
pub fn taken(directory: &Path) -> Option<PathBuf> {
    let usual = temporary(rustix::process::getuid().as_raw());
    let is_elsewhere = directory.ends_with(IN_HOME) && directory == user_directory();
    is_elsewhere.then_some(usual)
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|source| Error::Path {
        path: path.to_path_buf(),
        what: "cannot be made absolute; give a full path".into(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_socket_of_a_directory_has_a_broker_of_its_own() {
        let paths = |socket: &str| {
            let socket = Some(PathBuf::from(socket));
            Options {
                socket,
                ..Options::default()
            }
            .paths()
            .unwrap()
        };
        let (one, other, usual) = (
            paths("/d/a.sock"),
            paths("/d/b.sock"),
            paths("/d/broker.sock"),
        );
        assert_eq!(one.directory, Path::new("/d/a.sock.d"));
        assert_eq!(usual.directory, Path::new("/d"));
        assert!(one.pages != other.pages && one.state != other.state);
        assert_eq!(one.socket, Path::new("/d/a.sock"));
    }

    #[test]
    fn the_socket_that_the_environment_names_is_that_of_a_users_broker_without_other_options() {
        let named = |options: Options| {
            let paths = options.paths_if_named(Some("/e/a.sock".into())).unwrap();
            (paths.directory, paths.socket)
        };
        let pair = |directory: &str, socket: &str| (directory.into(), socket.into());
        let usual = Options::default();
        assert_eq!(named(usual.clone()), pair("/e/a.sock.d", "/e/a.sock"));
        let directory = Some("/d".into());
        let elsewhere = Options {
            directory,
            ..usual.clone()
        };
        assert_eq!(named(elsewhere), pair("/d", "/d/broker.sock"));
        let system = Options {
            system: true,
            ..usual
        };
        let of_system = format!("{SYSTEM_DIRECTORY}/{USUAL}");
        assert_eq!(named(system), pair(SYSTEM_DIRECTORY, &of_system));
    }

    #[test]
    fn a_configuration_is_never_taken_from_the_working_directory() {
        let place = |config_home: &str, home: &str| {
            let path = config_below(Some(config_home.into()), Some(home.into()));
            path.to_str().unwrap().to_owned()
        };
        assert_eq!(place("/c", "/h"), "/c/plimsoll/plimsoll.toml");
        assert_eq!(place("", "/h"), "/h/.config/plimsoll/plimsoll.toml");
        assert_eq!(place("c", "/h"), "/h/.config/plimsoll/plimsoll.toml");
        assert_eq!(place("c", "h"), "/etc/plimsoll/plimsoll.toml");
        assert_eq!(place("", ""), "/etc/plimsoll/plimsoll.toml");
        let none = config_below(None, None);
        assert_eq!(none, Path::new("/etc/plimsoll/plimsoll.toml"));
    }
}
