//! The attach protocol of `HotSpot`: one command and one reply per connection to the socket of the virtual
//! machine, in its own mount namespace.
//!
//! A machine that has no socket yet is asked to open one: an empty file `.attach_pid<pid>` beside the place of
//! the socket, then `SIGQUIT`. Without that file the signal would print a thread dump, and without a handler for
//! it the process would die, so both are made sure of first. No call lasts longer than its timeout.

use super::hsperfdata::{PerfError, PerfFile, Value};
use super::reply::{self, Reply};
use super::trigger::Trigger;
use crate::process::Process;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// The most that is read of a reply, bytes.
const MAX_REPLY: usize = 4 << 20;
/// How often the socket is looked for while the machine opens it.
const LOOK: Duration = Duration::from_millis(5);
/// A machine says what may be done to it so soon after it begins to catch signals; one that stands still may never.
const STARTING: Duration = Duration::from_secs(1);
/// Signals to a machine that does not say what it does with them, and opens no socket.
const MOST_IN_VAIN: u8 = 2;
/// The counter that says what may be done to a machine.
const CAPABILITIES: &str = "sun.rt.jvmCapabilities";

/// Why a command has no reply.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The process is gone.
    #[error("process {pid} ended")]
    Gone {
        /// Which process.
        pid: u32,
    },
    /// It does not catch SIGQUIT: it may not be a Java virtual machine, or is not ready yet.
    #[error(
        "process {pid} does not catch SIGQUIT, so it is not asked to open its attach socket: wait until it has \
         started, or start it with -XX:+StartAttachListener if it runs with -Xrs"
    )]
    NotCatching {
        /// Which process.
        pid: u32,
    },
    /// It opened no socket.
    #[error(
        "the Java virtual machine {pid} opened no attach socket within {waited:?}: it is stopped, overloaded, or was \
         started with -XX:+DisableAttachMechanism"
    )]
    NoSocket {
        /// Which process.
        pid: u32,
        /// How long it was waited for.
        waited: Duration,
    },
    /// It did not answer a command.
    #[error("the Java virtual machine {pid} did not answer '{command}' within {waited:?}")]
    NoAnswer {
        /// Which process.
        pid: u32,
        /// What it was asked.
        command: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// It was started so.
    #[error("the Java virtual machine {pid} lets nobody attach (-XX:+DisableAttachMechanism)")]
    Refused {
        /// Which process.
        pid: u32,
    },
    /// The socket belongs to somebody else.
    #[error("the attach socket of process {pid} is served by process {by}: it is not used")]
    Impostor {
        /// Which process.
        pid: u32,
        /// Who listens there.
        by: u32,
    },
    /// The command does not fit the protocol.
    #[error("the command '{command}' is too long for the attach protocol")]
    TooLong {
        /// What should be asked.
        command: String,
    },
    /// The system refused something.
    #[error("cannot reach the Java virtual machine {pid} ({doing}): {source}")]
    System {
        /// Which process.
        pid: u32,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The reply is not one.
    #[error("the Java virtual machine {pid} answered '{command}' with something that is no reply")]
    BadReply {
        /// Which process.
        pid: u32,
        /// What it was asked.
        command: String,
    },
}

/// The attach socket of one virtual machine.
#[derive(Debug)]
pub struct Attach {
    process: Process,
    inner_pid: u32,
    euid: u32,
    egid: u32,
    tmp: OwnedFd,
    /// 1, or 2 where the machine said that it knows it.
    version: u8,
    /// How often it was signalled without opening its socket.
    in_vain: AtomicU8,
    /// A flag that this machine has by another name, and that name.
    renamed: OnceLock<(&'static str, &'static str)>,
}

impl Attach {
    /// Prepares to speak with this process; sends nothing yet.
    ///
    /// # Errors
    /// [`AttachError::Gone`] or [`AttachError::System`] where its `/proc` entry or its `/tmp` cannot be reached.
    pub fn new(process: Process) -> Result<Attach, AttachError> {
        let pid = process.pid;
        let status = process.status().map_err(|_| AttachError::Gone { pid })?;
        let tmp = process
            .inner_directory("tmp")
            .map_err(|source| AttachError::System {
                pid,
                doing: "opening its /tmp",
                source,
            })?;
        let (inner_pid, euid, egid) = (status.inner_pid, status.euid, status.egid);
        Ok(Attach {
            process,
            inner_pid,
            euid,
            egid,
            tmp,
            version: 1,
            in_vain: AtomicU8::new(0),
            renamed: OnceLock::new(),
        })
    }

    /// From now on who sets the flag `name` sets the one that this machine has for it. One flag at the most.
    pub fn rename(&self, name: &'static str, of_this_machine: &'static str) {
        self.renamed.get_or_init(|| (name, of_this_machine));
    }

    /// Asks which version of the protocol it speaks (2 since JDK 24); 1 serves for everything short.
    ///
    /// # Errors
    /// As [`Attach::command`].
    pub fn negotiate(&mut self, timeout: Duration) -> Result<u8, AttachError> {
        let reply = self.command("getversion", &[], timeout)?;
        self.version = if reply.code == 0 && reply.text.trim() == "2" {
            2
        } else {
            1
        };
        Ok(self.version)
    }

    /// Sends one command and waits for its whole reply, in all at the most `timeout`.
    ///
    /// # Errors
    /// Each [`AttachError`]; [`AttachError::Gone`] whenever the process ended meanwhile.
    pub fn command(
        &self,
        name: &str,
        arguments: &[&str],
        timeout: Duration,
    ) -> Result<Reply, AttachError> {
        let deadline = Instant::now() + timeout;
        let renamed = self.renamed.get().filter(|_| name == "setflag");
        let own = |argument| match renamed {
            Some(&(from, to)) if argument == from => to,
            _ => argument,
        };
        let arguments: Vec<&str> = arguments.iter().copied().map(own).collect();
        let request = match reply::request_v1(name, &arguments) {
            Some(request) => request,
            None if self.version >= 2 => reply::request_v2(name, &arguments),
            None => {
                return Err(AttachError::TooLong {
                    command: name.to_owned(),
                });
            }
        };
        let answer = self
            .open(deadline, timeout)
            .and_then(|socket| self.exchange(&socket, &request, name, deadline, timeout));
        match answer {
            Err(_) if !self.process.alive() => Err(AttachError::Gone {
                pid: self.process.pid,
            }),
            other => other,
        }
    }

    /// `jcmd`: a diagnostic command with its arguments in one line.
    ///
    /// # Errors
    /// As [`Attach::command`].
    pub fn jcmd(&self, line: &str, timeout: Duration) -> Result<Reply, AttachError> {
        self.command("jcmd", &[line], timeout)
    }

    /// Connects; has the machine open its socket first where there is none. One of which it is not
    /// known that it lets anybody attach is signalled a few times only: it would take the signal for another wish, and print
    /// all its threads.
    fn open(&self, deadline: Instant, timeout: Duration) -> Result<OwnedFd, AttachError> {
        if let Some(socket) = self.connect(deadline)? {
            return Ok(socket);
        }
        let pid = self.process.pid;
        match self.may_attach(deadline.min(Instant::now() + STARTING)) {
            Some(true) => {}
            Some(false) => return Err(AttachError::Refused { pid }),
            None if self.in_vain.load(Ordering::Relaxed) < MOST_IN_VAIN => {}
            None => {
                let waited = Duration::ZERO;
                return Err(AttachError::NoSocket { pid, waited });
            }
        }
        let trigger = self.trigger()?;
        self.signal()?;
        let mut again = Some(Instant::now() + timeout / 2);
        while Instant::now() < deadline {
            std::thread::sleep(LOOK);
            if let Some(socket) = self.connect(deadline)? {
                self.in_vain.store(0, Ordering::Relaxed);
                return Ok(socket);
            }
            if !self.process.alive() {
                return Err(AttachError::Gone {
                    pid: self.process.pid,
                });
            }
            if again.is_some_and(|t| Instant::now() >= t) {
                again = None;
                self.signal()?;
            }
        }
        drop(trigger);
        Err(AttachError::NoSocket {
            pid: self.process.pid,
            waited: timeout,
        })
    }

    /// Whether the machine says that it may be attached to (not with `-XX:+DisableAttachMechanism`). One that just starts
    /// says so a moment later.
    fn may_attach(&self, deadline: Instant) -> Option<bool> {
        let mut perf = PerfFile::open(&self.process).ok()?;
        while Instant::now() < deadline && matches!(perf.read(), Err(PerfError::Unfinished { .. }))
        {
            std::thread::sleep(LOOK);
        }
        let counters = perf.read().ok()?;
        // A character for each capability, the first that of attaching.
        let told = counters.iter().find(|(name, _)| *name == CAPABILITIES)?;
        match told.1 {
            Value::Text(text) => Some(text.starts_with('1')),
            Value::Long(_) => None,
        }
    }

    /// `None` where there is no socket, or where nobody listens to it any more.
    fn connect(&self, deadline: Instant) -> Result<Option<OwnedFd>, AttachError> {
        let name = format!(".java_pid{}", self.inner_pid);
        match rustix::fs::statat(&self.tmp, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(s)
                if rustix::fs::FileType::from_raw_mode(s.st_mode)
                    == rustix::fs::FileType::Socket => {}
            Ok(_) | Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(self.system("looking for its socket", e)),
        }
        let path = format!("/proc/self/fd/{}/{name}", self.tmp.as_raw_fd());
        let address = SocketAddrUnix::new(path).map_err(|e| self.system("naming its socket", e))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|e| self.system("making a socket", e))?;
        loop {
            match rustix::net::connect(&socket, &address) {
                Ok(()) => break,
                // Its queue of connections is full: it does not answer the ones before us.
                Err(Errno::AGAIN | Errno::INTR) if Instant::now() < deadline => {
                    std::thread::sleep(LOOK)
                }
                Err(Errno::CONNREFUSED | Errno::NOENT | Errno::AGAIN | Errno::INTR) => {
                    return Ok(None);
                }
                Err(e) => return Err(self.system("connecting to its socket", e)),
            }
        }
        self.check_peer(&socket)?;
        Ok(Some(socket))
    }

    /// The one who listens must be the machine itself: another user could have put a socket into `/tmp`.
    fn check_peer(&self, socket: &OwnedFd) -> Result<(), AttachError> {
        let peer = plimsoll_kernel::peer::peer_of(socket)
            .map_err(|e| self.system("asking who serves its socket", e))?;
        let by = peer.pid;
        if by == self.process.pid {
            Ok(())
        } else {
            Err(AttachError::Impostor {
                pid: self.process.pid,
                by,
            })
        }
    }

    /// In the machine's `/tmp`, or in its working directory where that cannot be written.
    fn trigger(&self) -> Result<Trigger, AttachError> {
        let place = |directory| Trigger::place(directory, self.inner_pid, (self.euid, self.egid));
        let tmp = self.tmp.try_clone().ok();
        if let Some(trigger) = tmp.and_then(|tmp| place(tmp).ok()) {
            return Ok(trigger);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(self.process.path("cwd"), flags, Mode::empty())
            .and_then(place)
            .map_err(|e| self.system("writing .attach_pid to its /tmp and its directory", e))
    }

    fn signal(&self) -> Result<(), AttachError> {
        let pid = self.process.pid;
        let status = self
            .process
            .status()
            .map_err(|_| AttachError::Gone { pid })?;
        if status.caught & (1 << (libc::SIGQUIT - 1)) == 0 {
            return Err(AttachError::NotCatching { pid });
        }
        self.in_vain.fetch_add(1, Ordering::Relaxed);
        self.process
            .signal(rustix::process::Signal::QUIT)
            .map_err(|source| AttachError::System {
                pid,
                doing: "sending SIGQUIT",
                source,
            })
    }

    fn exchange(
        &self,
        socket: &OwnedFd,
        request: &[u8],
        name: &str,
        deadline: Instant,
        timeout: Duration,
    ) -> Result<Reply, AttachError> {
        let pid = self.process.pid;
        let late = || AttachError::NoAnswer {
            pid,
            command: name.to_owned(),
            waited: timeout,
        };
        let mut sent = 0;
        while sent < request.len() {
            match rustix::net::send(socket, &request[sent..], rustix::net::SendFlags::NOSIGNAL) {
                Ok(n) => sent += n,
                Err(Errno::AGAIN) => ready(socket, PollFlags::OUT, deadline).ok_or_else(late)?,
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.system("sending a command", e)),
            }
        }
        let mut bytes = Vec::with_capacity(4096);
        let mut chunk = [0_u8; 4096];
        loop {
            match rustix::io::read(socket, &mut chunk) {
                Ok(0) => break,
                Ok(n) if bytes.len() + n > MAX_REPLY => break,
                Ok(n) => bytes.extend_from_slice(&chunk[..n]),
                Err(Errno::AGAIN) => ready(socket, PollFlags::IN, deadline).ok_or_else(late)?,
                Err(Errno::INTR) => {}
                // The machine closes without reading the rest of what it does not want.
                Err(Errno::CONNRESET) => break,
                Err(e) => return Err(self.system("reading a reply", e)),
            }
        }
        reply::parse(&bytes).ok_or_else(|| AttachError::BadReply {
            pid,
            command: name.to_owned(),
        })
    }

    fn system(&self, doing: &'static str, errno: Errno) -> AttachError {
        AttachError::System {
            pid: self.process.pid,
            doing,
            source: errno.into(),
        }
    }
}

/// Waits until the socket is ready; `None` at the deadline.
fn ready(socket: &OwnedFd, flags: PollFlags, deadline: Instant) -> Option<()> {
    loop {
        let left = deadline.checked_duration_since(Instant::now())?;
        let timeout = rustix::event::Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(socket, flags)], Some(&timeout)) {
            Ok(0) => return None,
            Ok(_) => return Some(()),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}
