//! The attach protocol of `HotSpot`: one command and one reply per connection to a socket of the
//! virtual machine. The socket lies in the machine's own mount namespace.
//!
//! A machine that has no socket yet is asked to open one: by an empty file `.attach_pid<pid>`
//! beside the place of the socket, and then by `SIGQUIT`. The signal is sent once, and only to a
//! machine that is known (`quit`) to take it as this request. Without the file the signal would
//! print all threads, and it cannot be recalled. So the file stays until the socket is there or the
//! machine has had ample time for it. No call lasts longer than its timeout.
//!
//! A machine answers its own user and group. It also answers root, unless it is in a user namespace
//! in which we are not root. So we create the file and connect as the machine's user.

pub(super) mod error;
mod socket;

pub use error::AttachError;

use super::attach_file::{self, Trigger};
use super::attach_protocol::{self, Reply};
use super::sigquit;
use crate::process::Process;
use plimsoll_kernel::descriptors::path_of;
use plimsoll_kernel::identity::as_user;
use plimsoll_kernel::peer::peer_of;
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often a machine that is still starting is looked at.
const STARTING: Duration = Duration::from_millis(50);
/// By then a machine that another program asked has opened its socket.
const SOON: Duration = Duration::from_secs(1);
/// By then a process that closed its files because it is ending is gone.
const ENDING: Duration = Duration::from_millis(200);
/// By then a running machine has handled a signal.
const DONE: Duration = Duration::from_secs(60);
/// The most signals to a machine that opens no socket.
const MOST_IN_VAIN: u8 = 3;

/// The attach socket of one virtual machine.
#[derive(Debug)]
pub struct Attach {
    /// The machine's process.
    process: Process,
    /// Its process id in its own pid namespace, which the names of its files contain.
    inner_pid: u32,
    /// Its effective user and group, to whom the files must belong.
    euid: u32,
    egid: u32,
    /// Its `/tmp`.
    tmp: OwnedFd,
    /// The protocol version: 1, or 2 if the machine said that it supports it.
    version: u8,
    /// The pending request to open the socket; none when there is no request or the machine has
    /// followed it.
    asked: Mutex<Option<Asked>>,
    /// A flag that has another name in this machine, and its name there.
    renamed: OnceLock<(&'static str, &'static str)>,
}

/// A file: the number of its file system and its inode.
type Entry = (u64, u64);

/// A request to open the socket.
#[derive(Debug)]
struct Asked {
    /// The file that makes the machine take the signal as a request.
    trigger: Trigger,
    /// The file in the place of the socket at that time.
    before: Option<Entry>,
    /// When the last signal was sent; `None` if none was sent yet.
    sent: Option<Instant>,
    /// Signals sent so far.
    signals: u8,
}

impl Attach {
    /// Prepares to speak with this process. Sends nothing yet.
    ///
    /// # Errors
    /// [`AttachError::Gone`] or [`AttachError::System`] where its `/proc` entry or its `/tmp`
    /// cannot be reached.
    pub fn new(process: Process) -> Result<Attach, AttachError> {
        let pid = process.pid;
        let status = process.status().map_err(|_| AttachError::Gone { pid })?;
        let tmp = process.tmp().map_err(|source| AttachError::System {
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
            asked: Mutex::new(None),
            renamed: OnceLock::new(),
        })
    }

    /// From now on a command that sets the flag `name` sets the flag `of_this_machine` instead.
    /// Only one flag can be renamed.
    pub fn rename(&self, name: &'static str, of_this_machine: &'static str) {
        self.renamed.get_or_init(|| (name, of_this_machine));
    }

    /// Whether a signal was sent to the machine that it has not followed yet.
    pub fn has_signalled(&self) -> bool {
        self.asked().as_ref().is_some_and(|asked| asked.signals > 0)
    }

    /// Asks which version of the protocol the machine speaks (2 since JDK 24). Version 1 is enough
    /// for short commands.
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

    /// Sends one command and waits for the whole reply, for `timeout` at most in all.
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
        let request = match attach_protocol::request_v1(name, &arguments) {
            Some(request) => request,
            None if self.version >= 2 => attach_protocol::request_v2(name, &arguments),
            None => {
                return Err(AttachError::TooLong {
                    command: name.to_owned(),
                });
            }
        };
        let answer = self
            .open(deadline, timeout)
            .and_then(|socket| self.exchange(&socket, &request, name, deadline, timeout));
        if matches!(answer, Err(AttachError::Dismissed { .. })) {
            self.let_end();
        }
        match answer {
            Err(_) if !self.process.alive() => Err(AttachError::Gone {
                pid: self.process.pid,
            }),
            other => other,
        }
    }

    /// Waits a moment, because a process that ends closes its sockets shortly before it is gone.
    fn let_end(&self) {
        let until = Instant::now() + ENDING;
        while self.process.alive() && Instant::now() < until {
            std::thread::sleep(socket::LOOK);
        }
    }

    /// Sends a diagnostic command (`jcmd`), with its arguments in one line.
    ///
    /// # Errors
    /// As [`Attach::command`].
    pub fn jcmd(&self, line: &str, timeout: Duration) -> Result<Reply, AttachError> {
        self.command("jcmd", &[line], timeout)
    }

    /// Connects. If there is no socket, has the machine open one first.
    fn open(&self, deadline: Instant, timeout: Duration) -> Result<OwnedFd, AttachError> {
        let pid = self.process.pid;
        let mut asked = false;
        loop {
            if let Some(socket) = self.connect(deadline)? {
                // The machine has done what it was asked to do.
                *self.asked() = None;
                return Ok(socket);
            }
            if !self.process.alive() {
                return Err(AttachError::Gone { pid });
            }
            let over = Instant::now() >= deadline;
            if asked && over {
                let waited = timeout;
                return Err(AttachError::NoSocket { pid, waited });
            }
            if !asked {
                match self.ask(deadline) {
                    // There is time left to wait for its start.
                    Err(AttachError::Starting { .. }) if !over => std::thread::sleep(STARTING),
                    answer => {
                        answer?;
                        asked = true;
                    }
                }
            }
            std::thread::sleep(socket::LOOK);
        }
    }

    /// Asks the machine to open its socket, unless it was asked a while ago or another program has
    /// just asked. A second signal after the first was followed would print all threads.
    fn ask(&self, deadline: Instant) -> Result<(), AttachError> {
        let pid = self.process.pid;
        let mut asked = self.asked();
        if let Some(before) = &*asked {
            if before.sent.is_some_and(|sent| sent.elapsed() < DONE) {
                return Ok(());
            }
            if before.signals >= MOST_IN_VAIN {
                let signals = before.signals;
                return Err(AttachError::InVain { pid, signals });
            }
        }
        let soon = deadline.min(Instant::now() + SOON);
        let before = self.in_its_place().map(|found| entry(&found));
        let left = before.is_some();
        if !left && sigquit::listens(&self.process) && self.has_socket_by(soon) {
            return Ok(());
        }
        sigquit::takes(&self.process, left)?;
        if asked.is_none() {
            *asked = self.trigger()?.map(|trigger| Asked {
                trigger,
                before,
                sent: None,
                signals: 0,
            });
        }
        let Some(now) = &mut *asked else {
            return Ok(());
        };
        // The machine may have been stopped meanwhile, or another program may have asked it.
        let sent = if self.has_socket() == left {
            sigquit::is_the_moment(&self.process).and_then(|()| self.signal())
        } else {
            Err(AttachError::Starting { pid })
        };
        match sent {
            Ok(()) => {
                now.sent = Some(Instant::now());
                now.signals += 1;
            }
            Err(_) if now.signals == 0 => *asked = None,
            Err(_) => {}
        }
        sent
    }

    fn asked(&self) -> MutexGuard<'_, Option<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file in the place of the socket, if any.
    fn in_its_place(&self) -> Option<Stat> {
        rustix::fs::statat(&self.tmp, self.socket(), AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    fn has_socket(&self) -> bool {
        self.in_its_place().is_some()
    }

    /// Whether the machine opened its socket: a socket of its user lies in the place and is not the
    /// file that lay there `before`.
    fn has_opened(&self, before: Option<Entry>) -> bool {
        self.in_its_place().is_some_and(|found| {
            let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
            is_socket && found.st_uid == self.euid && Some(entry(&found)) != before
        })
    }

    /// Waits for the socket that another program asked for. Returns whether it came.
    fn has_socket_by(&self, deadline: Instant) -> bool {
        while !self.has_socket() && Instant::now() < deadline {
            std::thread::sleep(socket::LOOK);
        }
        self.has_socket()
    }

    /// The name of the socket in the machine's `/tmp`.
    fn socket(&self) -> String {
        format!(".java_pid{}", self.inner_pid)
    }

    /// `None` if there is no socket or nobody listens to it any more.
    fn connect(&self, deadline: Instant) -> Result<Option<OwnedFd>, AttachError> {
        let name = self.socket();
        match rustix::fs::statat(&self.tmp, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(s) if s.st_uid != self.euid => {
                return Err(AttachError::InTheWay {
                    pid: self.process.pid,
                    by: s.st_uid,
                    what: "the attach socket",
                });
            }
            Ok(s) if FileType::from_raw_mode(s.st_mode) == FileType::Socket => {}
            Ok(_) | Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(self.system("looking for its socket", e)),
        }
        let path = path_of(&self.tmp).join(name);
        let address = SocketAddrUnix::new(path).map_err(|e| self.system("naming its socket", e))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|e| self.system("making a socket", e))?;
        let connected = as_user(self.euid, self.egid, || {
            socket::connect_until(&socket, &address, deadline)
        });
        match connected.unwrap_or_else(|e| Err(Errno::from_io_error(&e).unwrap_or(Errno::AGAIN))) {
            Ok(()) => {}
            // A socket that was left by this machine, or by an earlier one with the same number,
            // when it died.
            Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(None),
            Err(Errno::AGAIN | Errno::INTR) => {
                let pid = self.process.pid;
                return Err(AttachError::Busy { pid });
            }
            Err(e) => return Err(self.system("connecting to its socket", e)),
        }
        self.check_peer(&socket)?;
        Ok(Some(socket))
    }

    /// Checks that the listener is the machine itself, because any process can put a socket into
    /// `/tmp`.
    fn check_peer(&self, socket: &OwnedFd) -> Result<(), AttachError> {
        let peer = peer_of(socket).map_err(|e| self.system("asking who serves its socket", e))?;
        if peer.pid == self.process.pid {
            Ok(())
        } else {
            Err(AttachError::Impostor {
                pid: self.process.pid,
                by: peer.pid,
            })
        }
    }

    /// Places the file that triggers the socket. `None` if another program is about to attach.
    fn trigger(&self) -> Result<Option<Trigger>, AttachError> {
        let owner = (self.euid, self.egid);
        let pid = self.process.pid;
        attach_file::place(&self.process, &self.tmp, self.inner_pid, owner).map_err(|e| match e {
            attach_file::Refused::InTheWay(by) => AttachError::InTheWay {
                pid,
                by,
                what: "the file that asks for the attach socket",
            },
            attach_file::Refused::System(e) => {
                self.system("writing .attach_pid to its /tmp and its directory", e)
            }
        })
    }

    fn signal(&self) -> Result<(), AttachError> {
        let signal = rustix::process::Signal::QUIT;
        self.process
            .signal(signal)
            .map_err(|source| AttachError::System {
                pid: self.process.pid,
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
        let bytes = socket::exchange(socket, request, deadline).map_err(|failed| match failed {
            socket::Failed::Late => AttachError::NoAnswer {
                pid,
                command: name.to_owned(),
                waited: timeout,
            },
            socket::Failed::Sending(e) => self.system("sending a command", e),
            socket::Failed::Reading(e) => self.system("reading a reply", e),
        })?;
        if bytes.is_empty() {
            return Err(AttachError::Dismissed { pid });
        }
        attach_protocol::parse(&bytes).ok_or_else(|| AttachError::BadReply {
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

impl Drop for Attach {
    /// Leaves the file in place while a signal may still be on its way.
    fn drop(&mut self) {
        let asked = self.asked().take();
        let Some(Asked {
            trigger,
            before,
            sent,
            ..
        }) = asked
        else {
            return;
        };
        // Then the machine has followed the file and no longer needs it.
        if self.has_opened(before) {
            return;
        }
        let lately = sent.is_some_and(|sent| sent.elapsed() < DONE);
        let moment = sigquit::is_the_moment(&self.process);
        let stands = matches!(moment, Err(AttachError::StandsStill { .. }));
        if self.process.alive() && (lately || stands) {
            trigger.leave();
        }
    }
}

fn entry(found: &Stat) -> Entry {
    (found.st_dev, found.st_ino)
}
