//! A broker of its own for a run, on a socket of its own.

use super::programs::sibling;
use plimsoll_client::Connection;
use plimsoll_client::Socket;
use plimsoll_kernel::cgroup::Cgroup;
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
    /// Starts one that shares out what `cgroup` is limited to (the machine without); its files are
    /// in `folder`.
    ///
    /// # Errors
    /// When it cannot be started or does not open its socket within 10 s.
    pub fn start(folder: &Path, cgroup: Option<&Cgroup>) -> Result<Self, String> {
        let socket = folder.join("broker.sock");
        let log = std::fs::File::create(folder.join("broker.log")).map_err(|e| e.to_string())?;
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
        let child = command
            .spawn()
            .map_err(|e| format!("cannot start plimsolld: {e}"))?;
        let mut broker = Broker { child, socket };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !broker.socket.exists() {
            if let Ok(Some(status)) = broker.child.try_wait() {
                let log = std::fs::read_to_string(folder.join("broker.log")).unwrap_or_default();
                return Err(format!("plimsolld ended at once ({status}): {log}"));
            }
            if Instant::now() > deadline {
                return Err("plimsolld did not open its socket within 10 s".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(broker)
    }

    /// Where it listens.
    pub fn socket(&self) -> Socket {
        Socket::at(&self.socket)
    }

    /// A connection to it.
    ///
    /// # Errors
    /// A sentence on why not.
    pub fn connect(&self) -> Result<Connection, String> {
        Connection::open(&self.socket(), Duration::from_secs(5)).map_err(|e| e.to_string())
    }

    /// Stops it for a while (SIGSTOP) or lets it go on.
    pub fn pause(&self, stopped: bool) {
        use rustix::process::Signal;
        let which = if stopped { Signal::STOP } else { Signal::CONT };
        super::runner::signal(self.child.id(), which);
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // One that is stopped does not hear that it should end.
        self.pause(false);
        super::runner::end(&mut self.child, Duration::from_secs(3));
    }
}
