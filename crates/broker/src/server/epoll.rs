//! One epoll descriptor and the meaning of its events.

use crate::error::Error;
use plimsoll_wire::messages::Id;
use rustix::event::{Timespec, epoll};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Most events taken from the kernel at a time.
const BATCH: usize = 64;
const KIND_SHIFT: u32 = 56;
const GENERATION_SHIFT: u32 = 32;

/// Identifies the descriptor of an event. Slots are reused and therefore carry a generation: an
/// event for a connection that ended earlier in the same batch does not reach its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A client connects.
    Listener,
    /// A connection.
    Connection(Slot),
    /// The process of a principal ended.
    Process(Id),
    /// A program connects to the pressure socket of a principal.
    PressureListener(Id),
    /// A listener of a pressure socket left.
    PressureListeners(Id),
    /// A signal for us.
    Signal,
    /// A background thread has results.
    Results,
}

/// A place in a table and one of its successive holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index in the table.
    pub index: u32,
    /// Number of the holder, 24 bits.
    pub generation: u32,
}

impl Token {
    fn encode(self) -> u64 {
        let (kind, value) = match self {
            Token::Listener => (1, 0),
            Token::Connection(slot) => (
                2,
                u64::from(slot.generation & 0xff_ffff) << GENERATION_SHIFT | u64::from(slot.index),
            ),
            Token::Process(id) => (3, id),
            Token::PressureListener(id) => (4, id),
            Token::PressureListeners(id) => (5, id),
            Token::Signal => (6, 0),
            Token::Results => (7, 0),
        };
        kind << KIND_SHIFT | value & ((1 << KIND_SHIFT) - 1)
    }

    fn decode(data: u64) -> Option<Token> {
        let value = data & ((1 << KIND_SHIFT) - 1);
        Some(match data >> KIND_SHIFT {
            1 => Token::Listener,
            2 => Token::Connection(Slot {
                index: value as u32,
                generation: (value >> GENERATION_SHIFT) as u32 & 0xff_ffff,
            }),
            3 => Token::Process(value),
            4 => Token::PressureListener(value),
            5 => Token::PressureListeners(value),
            6 => Token::Signal,
            7 => Token::Results,
            _ => return None,
        })
    }
}

/// Events that a descriptor is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Only the peer's end.
    Nothing,
    /// Something to read.
    Read,
    /// Room to write; no reading meanwhile.
    Write,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        let leaving = epoll::EventFlags::RDHUP;
        match self {
            Interest::Nothing => leaving,
            Interest::Read => leaving | epoll::EventFlags::IN,
            Interest::Write => leaving | epoll::EventFlags::OUT,
        }
    }
}

/// Events of one descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The descriptor.
    pub token: Token,
    /// Something to read, or an end of file to see.
    pub readable: bool,
    /// Room to write.
    pub writable: bool,
    /// The peer is gone for good.
    pub gone: bool,
}

/// Reasons for a connection's turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Something to read, or an end of file to see.
    pub readable: bool,
    /// Room to write.
    pub writable: bool,
    /// The peer is gone for good.
    pub gone: bool,
}

impl Turn {
    /// Adds other reasons.
    pub fn add(&mut self, other: Turn) {
        self.readable |= other.readable;
        self.writable |= other.writable;
        self.gone |= other.gone;
    }
}

impl From<Ready> for Turn {
    fn from(ready: Ready) -> Turn {
        Turn {
            readable: ready.readable,
            writable: ready.writable,
            gone: ready.gone,
        }
    }
}

/// The epoll descriptor with its bounded batch of events.
pub struct Poll {
    fd: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    /// Makes an epoll descriptor.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses (out of descriptors).
    pub fn new() -> Result<Poll, Error> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system(
            "epoll_create1 failed; raise the limit of open files",
        ))?;
        Ok(Poll {
            fd,
            events: Vec::with_capacity(BATCH),
        })
    }

    /// Starts watching a descriptor.
    ///
    /// # Errors
    /// The kernel's error, when it is out of watches or memory.
    pub fn add(&self, fd: impl AsFd, token: Token, interest: Interest) -> rustix::io::Result<()> {
        epoll::add(
            &self.fd,
            fd,
            epoll::EventData::new_u64(token.encode()),
            interest.flags(),
        )
    }

    /// Changes the events that a descriptor is watched for.
    ///
    /// # Errors
    /// The kernel's error; does not happen for a descriptor that was added.
    pub fn modify(
        &self,
        fd: impl AsFd,
        token: Token,
        interest: Interest,
    ) -> rustix::io::Result<()> {
        epoll::modify(
            &self.fd,
            fd,
            epoll::EventData::new_u64(token.encode()),
            interest.flags(),
        )
    }

    /// Waits at most `timeout`, then passes at most `BATCH` events to `each`. An interrupted wait
    /// passes none.
    ///
    /// # Errors
    /// [`Error::System`] when waiting itself fails.
    pub fn wait(&mut self, timeout: Duration, mut each: impl FnMut(Ready)) -> Result<(), Error> {
        let timeout = Timespec {
            tv_sec: timeout.as_secs().min(3600) as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        self.events.clear();
        match epoll::wait(
            &self.fd,
            rustix::buffer::spare_capacity(&mut self.events),
            Some(&timeout),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::system("epoll_wait failed")(errno)),
        }
        for event in &self.events {
            let flags = event.flags;
            let gone = flags.intersects(
                epoll::EventFlags::HUP | epoll::EventFlags::ERR | epoll::EventFlags::RDHUP,
            );
            if let Some(token) = Token::decode(event.data.u64()) {
                each(Ready {
                    token,
                    readable: flags.contains(epoll::EventFlags::IN),
                    writable: flags.contains(epoll::EventFlags::OUT),
                    gone,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_kernel() {
        let slot = Slot {
            index: u32::MAX,
            generation: 0xff_ffff,
        };
        for token in [
            Token::Listener,
            Token::Connection(slot),
            Token::Process(1 << 40),
            Token::PressureListener(7),
            Token::PressureListeners(9),
            Token::Signal,
            Token::Results,
        ] {
            assert_eq!(Token::decode(token.encode()), Some(token));
        }
        assert_eq!(Token::decode(0), None);
    }
}
