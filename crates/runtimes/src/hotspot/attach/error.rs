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
    /// It does not catch SIGQUIT: it may not be a Java virtual machine, or is not ready yet.
    #[error(
        "process {pid} does not catch SIGQUIT, so it is not asked to open its attach socket: wait until \
         it has \
         started, or start it with -XX:+StartAttachListener"
    )]
    NotCatching {
        /// Which process.
        pid: u32,
    },
    /// It is not ready yet.
    #[error("the Java virtual machine {pid} is still starting")]
    Starting {
        /// Which process.
        pid: u32,
    },
    /// A signal that is sent now reaches it only later, when we may be gone.
    #[error("process {pid} {how}: it is asked to open its attach socket when it goes on")]
    StandsStill {
        /// Which process.
        pid: u32,
        /// What keeps it.
        how: &'static str,
    },
    /// SIGQUIT could be anything to it.
    #[error(
        "process {pid} is not known to take SIGQUIT for the wish to attach ({why}), so it gets none; \
         started with \
         -XX:+StartAttachListener it needs none"
    )]
    NotKnown {
        /// Which process.
        pid: u32,
        /// What is known of it.
        why: &'static str,
    },
    /// Somebody put a file there.
    #[error(
        "a file of user {by} stands where {what} of the Java virtual machine {pid} should be: it is not \
         asked for \
         anything until that is taken away"
    )]
    InTheWay {
        /// Which process.
        pid: u32,
        /// Whose file it is.
        by: u32,
        /// In the place of what.
        what: &'static str,
    },
    /// It opened no socket.
    #[error(
        "the Java virtual machine {pid} opened no attach socket within {waited:?}: it is stopped or \
         overloaded, or \
         cannot make one in its /tmp"
    )]
    NoSocket {
        /// Which process.
        pid: u32,
        /// How long it was waited for.
        waited: Duration,
    },
    /// It opened no socket, however often it was asked to.
    #[error(
        "the Java virtual machine {pid} opened no attach socket after {signals} signals and gets no more: it \
         is overloaded, or cannot make one in its /tmp"
    )]
    InVain {
        /// Which process.
        pid: u32,
        /// How often it was asked.
        signals: u8,
    },
    /// Others wait there already.
    #[error(
        "the Java virtual machine {pid} takes none of the connections that wait at its attach socket"
    )]
    Busy {
        /// Which process.
        pid: u32,
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
    /// It hung up.
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

impl AttachError {
    /// A machine that has just started may say this for a moment.
    pub fn is_early(&self) -> bool {
        matches!(
            self,
            AttachError::NotCatching { .. }
                | AttachError::Starting { .. }
                | AttachError::NotKnown { .. }
        )
    }
}
