//! One connection to the socket of a machine. No step lasts beyond its deadline.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketAddrUnix};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How often the socket is looked for while the machine opens it.
pub(super) const LOOK: Duration = Duration::from_millis(5);
/// Bytes of a reply that are read at most.
const MAX_REPLY: usize = 4 << 20;

/// Why there is no reply.
pub(super) enum Failed {
    /// The deadline passed.
    Late,
    Sending(Errno),
    Reading(Errno),
}

pub(super) fn connect_until(
    socket: &OwnedFd,
    address: &SocketAddrUnix,
    deadline: Instant,
) -> rustix::io::Result<()> {
    loop {
        match rustix::net::connect(socket, address) {
            // The machine's queue of connections is full: it has not answered those before us.
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < deadline => {
                std::thread::sleep(LOOK);
            }
            other => return other,
        }
    }
}

/// Sends a request and reads until the machine closes the connection. Returns what was read,
/// possibly nothing.
pub(super) fn exchange(
    socket: &OwnedFd,
    request: &[u8],
    deadline: Instant,
) -> Result<Vec<u8>, Failed> {
    let mut sent = 0;
    while sent < request.len() {
        match rustix::net::send(socket, &request[sent..], SendFlags::NOSIGNAL) {
            Ok(n) => sent += n,
            Err(Errno::AGAIN) => ready(socket, PollFlags::OUT, deadline).ok_or(Failed::Late)?,
            Err(Errno::INTR) => {}
            Err(e) => return Err(Failed::Sending(e)),
        }
    }
    let mut bytes = Vec::with_capacity(4096);
    let mut chunk = [0_u8; 4096];
    loop {
        match rustix::io::read(socket, &mut chunk) {
            Ok(0) => break,
            Ok(n) if bytes.len() + n > MAX_REPLY => break,
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            Err(Errno::AGAIN) => ready(socket, PollFlags::IN, deadline).ok_or(Failed::Late)?,
            Err(Errno::INTR) => {}
            // A machine that rejects a request closes without reading the rest of it.
            Err(Errno::CONNRESET) => break,
            Err(e) => return Err(Failed::Reading(e)),
        }
    }
    Ok(bytes)
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
