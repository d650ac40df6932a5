//! Commands to a machine, and the time that they take from it.

use crate::hotspot::attach::{Attach, AttachError};
use crate::hotspot::attach_protocol::Reply;
use crate::process::Process;
use plimsoll_unit::Nanos;
use std::time::{Duration, Instant};
use tracing::debug;

/// How long a command that needs no work may take.
pub(super) const COMMAND: Duration = Duration::from_secs(5);

/// Why a command was not carried out.
pub(super) enum Failed {
    /// The machine ended.
    Gone,
    /// It did not answer in time; what to tell the user.
    Unanswered(String),
}

/// Sends commands to one machine. All that steer it go through [`Commands::send`], so their time is known.
#[derive(Debug)]
pub(super) struct Commands {
    /// The machine's process.
    process: Process,
    /// The connection.
    pub(super) attach: Attach,
    /// It carried out a command since this was last set to false.
    pub(super) answered: bool,
    /// Wall-clock time of the commands so far.
    took: Nanos,
    /// Processor time of the machine during them.
    processor: Nanos,
}

impl Commands {
    /// Nothing was sent to this process yet.
    pub(super) fn to(process: Process, attach: Attach) -> Commands {
        Commands {
            process,
            attach,
            answered: false,
            took: Nanos::ZERO,
            processor: Nanos::ZERO,
        }
    }

    /// Sends a command and waits for its end.
    ///
    /// # Errors
    /// When the machine does not answer within `timeout`, or has ended.
    pub(super) fn send(
        &mut self,
        name: &str,
        arguments: &[&str],
        timeout: Duration,
    ) -> Result<Reply, Failed> {
        let (start, before) = (Instant::now(), self.process.processor());
        let answer = self.attach.command(name, arguments, timeout);
        self.took += start.elapsed().into();
        if let Some((before, after)) = before.zip(self.process.processor()) {
            self.processor += after - before;
        }
        match answer {
            Ok(reply) => {
                if reply.code != 0 {
                    debug!("{name} {arguments:?} was refused: {}", reply.text.trim());
                }
                self.answered = true;
                Ok(reply)
            }
            Err(AttachError::Gone { .. }) => Err(Failed::Gone),
            Err(error) => Err(Failed::Unanswered(error.to_string())),
        }
    }

    /// Wall-clock time of the commands so far.
    pub(super) fn took(&self) -> Nanos {
        self.took
    }

    /// Processor time of the machine during the commands so far.
    pub(super) fn processor(&self) -> Nanos {
        self.processor
    }
}
