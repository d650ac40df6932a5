//! Why a machine cannot be asked.

use std::io;
use std::time::Duration;

/// Why a command has no reply.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The process is gone.
    #[error("process {pid} ended")]
    Gone {
        /// Which process.
        pid: u32,
    },
    /// The process does not catch SIGQUIT: it is not a Java virtual machine, or is not ready yet.
    #[error(
        "process {pid} does not catch SIGQUIT, so it is not asked to open its attach socket: wait until \
         it has \
         started, or start it with -XX:+StartAttachListener"
    )]
    NotCatching {
        /// Which process.
        pid: u32,
    },
    /// The machine is not ready yet.
    #[error("the Java virtual machine {pid} is still starting")]
    Starting {
        /// Which process.
        pid: u32,
    },
    /// The process stands still. A signal that is sent now would reach it only later, when we may
    /// be gone.
    #[error("process {pid} {how}: it is asked to open its attach socket when it goes on")]
    StandsStill {
        /// Which process.
        pid: u32,
        /// In which way it stands still.
        how: &'static str,
    },
    /// It is not known what the process does on SIGQUIT.
    #[error(
        "process {pid} is not known to take SIGQUIT for the wish to attach ({why}), so it gets none; \
         started with \
         -XX:+StartAttachListener it needs none"
    )]
    NotKnown {
        /// Which process.
        pid: u32,
        /// Why that is not known.
        why: &'static str,
    },
    /// Another user's file lies where ours or the socket should be.
    #[error(
        "a file of user {by} stands where {what} of the Java virtual machine {pid} should be: it is not \
         asked for \
         anything until that is taken away"
    )]
    InTheWay {
        /// Which process.
        pid: u32,
        /// The user who owns the file.
        by: u32,
        /// The file that should be in that place.
        what: &'static str,
    },
    /// The machine did not open its socket in time.
    #[error(
        "the Java virtual machine {pid} opened no attach socket within {waited:?}: it is stopped or \
         overloaded, or \
         cannot make one in its /tmp"
    )]
    NoSocket {
        /// Which process.
        pid: u32,
        /// How long we waited.
        waited: Duration,
    },
    /// The machine did not open its socket after several requests, and is not asked again.
    #[error(
        "the Java virtual machine {pid} opened no attach socket after {signals} signals and gets no more: it \
         is overloaded, or cannot make one in its /tmp"
    )]
    InVain {
        /// Which process.
        pid: u32,
        /// How many signals were sent.
        signals: u8,
    },
    /// The machine's queue of connections is full.
    #[error(
        "the Java virtual machine {pid} takes none of the connections that wait at its attach socket"
    )]
    Busy {
        /// Which process.
        pid: u32,
    },
    /// The machine did not answer a command in time.
    #[error("the Java virtual machine {pid} did not answer '{command}' within {waited:?}")]
    NoAnswer {
        /// Which process.
        pid: u32,
        /// The command.
        command: String,
        /// How long we waited.
        waited: Duration,
    },
    /// The machine was started with attaching disabled.
    #[error("the Java virtual machine {pid} lets nobody attach (-XX:+DisableAttachMechanism)")]
    Refused {
        /// Which process.
        pid: u32,
    },
    /// Another process listens at the socket.
    #[error("the attach socket of process {pid} is served by process {by}: it is not used")]
    Impostor {
        /// Which process.
        pid: u32,
        /// The process that listens there.
        by: u32,
    },
    /// The machine closed the connection without a reply.
    #[error(
        "the Java virtual machine {pid} closed the connection without an answer: it answers its own user \
         and group, \
         and root; run plimsoll as one of these"
    )]
    Dismissed {
        /// Which process.
        pid: u32,
    },
    /// The command does not fit the protocol.
    #[error("the command '{command}' is too long for the attach protocol")]
    TooLong {
        /// The command.
        command: String,
    },
    /// A system call failed.
    #[error("cannot reach the Java virtual machine {pid} ({doing}): {source}")]
    System {
        /// Which process.
        pid: u32,
        /// The action that failed.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The reply does not follow the protocol.
    #[error("the Java virtual machine {pid} answered '{command}' with something that is no reply")]
    BadReply {
        /// Which process.
        pid: u32,
        /// The command.
        command: String,
    },
}

impl AttachError {
    /// Whether a machine that has just started may cause this error for a moment.
    pub fn is_early(&self) -> bool {
        matches!(
            self,
            AttachError::NotCatching { .. }
                | AttachError::Starting { .. }
                | AttachError::NotKnown { .. }
        )
    }

    /// Whether a machine that has answered before may answer again a little later: it is busy, stopped or
    /// short of memory now, or something stands in the way that can be taken away.
    pub fn may_pass(&self) -> bool {
        match self {
            AttachError::NotCatching { .. }
            | AttachError::Starting { .. }
            | AttachError::StandsStill { .. }
            | AttachError::NotKnown { .. }
            | AttachError::InTheWay { .. }
            | AttachError::NoSocket { .. }
            | AttachError::Busy { .. }
            | AttachError::NoAnswer { .. }
            | AttachError::Impostor { .. }
            | AttachError::Dismissed { .. }
            | AttachError::System { .. } => true,
            AttachError::Gone { .. }
            | AttachError::InVain { .. }
            | AttachError::Refused { .. }
            | AttachError::TooLong { .. }
            | AttachError::BadReply { .. } => false,
        }
    }
}
