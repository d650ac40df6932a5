//! The command line, and where the broker's files are.

use crate::error::Error;
use plimsoll_kernel::environment::variable;
use plimsoll_kernel::peer::is_own_directory;
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
    /// The system's broker, for all users: `/run/plimsoll`, `/etc/plimsoll/plimsoll.toml`.
    pub system: bool,
    /// Directory that holds the socket, pages and state; by default as `system` and the
    /// environment say ([`user_directory`]).
    pub directory: Option<PathBuf>,
    /// The socket, `broker.sock` in the directory by default.
    pub socket: Option<PathBuf>,
    /// The configuration; by default `/etc/plimsoll/plimsoll.toml` or
    /// `$XDG_CONFIG_HOME/plimsoll/plimsoll.toml`. A path given here must exist.
    pub config: Option<PathBuf>,
    /// Leave so long after the last principal and connection are gone; never by default.
    pub idle_exit: Option<Duration>,
    /// Memory domain: a cgroup directory under the memory controller's mount whose limit bounds
    /// everything, instead of the one that the broker sits in.
    pub domain: Option<PathBuf>,
    /// Bytes to share out at most, above the configuration's `budget`.
    pub budget: Option<u64>,
    /// Check the configuration, say what it means and leave.
    pub check: bool,
}

/// Absolute paths, resolved once at start.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Holds everything else unless said otherwise.
    pub directory: PathBuf,
    /// The Varlink socket.
    pub socket: PathBuf,
    /// One page per principal.
    pub pages: PathBuf,
    /// One pressure socket per principal.
    pub pressure: PathBuf,
    /// What survives a crash.
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
        let directory = match (&self.directory, &self.socket) {
            (Some(directory), _) => directory.clone(),
            (None, Some(socket)) => socket.parent().unwrap_or(Path::new(".")).to_path_buf(),
            (None, None) if self.system => PathBuf::from(SYSTEM_DIRECTORY),
            (None, None) => user_directory(),
        };
        let directory = absolute(&directory)?;
        let socket = match &self.socket {
            Some(socket) => absolute(socket)?,
            None => directory.join("broker.sock"),
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

/// The user's configuration file. Relative paths count as none, as the XDG base directory specification
/// has it: a broker must not take the configuration of whatever directory it was started in.
fn config_below(config_home: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let whole = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let base = config_home
        .and_then(whole)
        .or_else(|| Some(home.and_then(whole)?.join(".config")));
    base.unwrap_or_else(|| PathBuf::from("/etc"))
        .join("plimsoll/plimsoll.toml")
}

/// The user's directory: `$XDG_RUNTIME_DIR/plimsoll` where that is the user's own, else
/// `/run/user/UID/plimsoll` where that directory exists, else `/tmp/plimsoll-UID`.
/// `PLIMSOLL_SOCKET` overrides it with its parent.
#[must_use]
pub fn user_directory() -> PathBuf {
    if let Some(socket) = variable("PLIMSOLL_SOCKET").filter(|value| !value.is_empty())
        && let Some(parent) = Path::new(&socket).parent()
    {
        return parent.to_path_buf();
    }
    let uid = rustix::process::getuid().as_raw();
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(runtime) = runtime.filter(|runtime| is_own_directory(runtime, uid)) {
        return runtime.join("plimsoll");
    }
    let runtime = PathBuf::from(format!("/run/user/{uid}"));
    match runtime.is_dir() {
        true => runtime.join("plimsoll"),
        false => PathBuf::from(format!("/tmp/plimsoll-{uid}")),
    }
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
