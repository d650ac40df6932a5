//! A broker that serves one run only, on a socket of its own.

use super::programs::sibling;
use crate::{Error, Result};
use plimsoll_client::{Connection, Socket};
use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_testbed::children;
use plimsoll_wire::messages::{Listing, Principal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running `plimsolld`.
#[derive(Debug)]
pub struct Broker {
    child: Child,
    socket: PathBuf,
}

impl Broker {
    /// Starts a broker that shares out the limit of `cgroup`, or the machine's memory without a cgroup. The
    /// files of the broker are in `folder`.
    ///
    /// # Errors
    /// When it cannot be started or does not open its socket within 10 s.
    pub fn start(folder: &Path, cgroup: Option<&Cgroup>) -> Result<Self> {
        Broker::configured(folder, cgroup, "")
    }

    /// The same with a configuration: the text of a `plimsoll.toml`.
    ///
    /// # Errors
    /// As [`Broker::start`]; and when the file cannot be written.
    pub fn configured(folder: &Path, cgroup: Option<&Cgroup>, settings: &str) -> Result<Self> {
        /// How long it is waited for the socket.
        const PATIENCE: Duration = Duration::from_secs(10);
        let (socket, told) = (folder.join("broker.sock"), folder.join("broker.log"));
        let log = std::fs::File::create(&told).map_err(Error::file("write", &told))?;
        let mut command = Command::new(sibling("plimsolld"));
        command
            .arg("--socket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        if let Some(cgroup) = cgroup {
            command.arg("--domain").arg(cgroup.dir());
        }
        if !settings.is_empty() {
            let path = folder.join("plimsoll.toml");
            std::fs::write(&path, settings).map_err(Error::file("write", &path))?;
            command.arg("--config").arg(&path);
        }
        children::end_with_us(&mut command);
        let child = command.spawn().map_err(Error::start(&command))?;
        let mut broker = Broker { child, socket };
        let deadline = Instant::now() + PATIENCE;
        let log = || std::fs::read_to_string(&told).unwrap_or_default();
        while !broker.socket.exists() {
            if let Ok(Some(status)) = broker.child.try_wait() {
                let log = log();
                return Err(Error::BrokerEnded { status, log });
            }
            if Instant::now() > deadline {
                return Err(Error::BrokerSilent {
                    socket: broker.socket.clone(),
                    seconds: PATIENCE.as_secs(),
                    log: log(),
                });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(broker)
    }

    /// The socket that it listens on.
    pub fn socket(&self) -> Socket {
        Socket::at(&self.socket)
    }

    /// A connection to it.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn connect(&self) -> Result<Connection> {
        Ok(Connection::open(&self.socket(), Duration::from_secs(5))?)
    }

    /// Stops the broker (SIGSTOP), or lets it go on (SIGCONT).
    pub fn pause(&self, stopped: bool) {
        use rustix::process::Signal;
        let which = if stopped { Signal::STOP } else { Signal::CONT };
        children::signal(self.child.id(), which);
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // A stopped process would act on SIGTERM only once it goes on.
        self.pause(false);
        children::end(&mut self.child, Duration::from_secs(3));
    }
}

/// The principal of that name, anywhere in the tree.
pub fn find<'a>(listing: &'a Listing, name: &str) -> Option<&'a Principal> {
    fn below<'a>(principals: &'a [Principal], name: &str) -> Option<&'a Principal> {
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
