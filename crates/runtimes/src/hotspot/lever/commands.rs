//! Commands to a machine, and the time that they take from it.

use crate::hotspot::attach::{Attach, AttachError};
use crate::hotspot::attach_protocol::Reply;
use crate::process::Process;
use std::time::{Duration, Instant};
use tracing::debug;

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
    took: Duration,
    /// Processor time of the machine during them, nanoseconds.
    processor_ns: u64,
}

impl Commands {
    /// Nothing was sent to this process yet.
    pub(super) fn to(process: Process, attach: Attach) -> Commands {
        Commands {
            process,
            attach,
            answered: false,
            took: Duration::ZERO,
            processor_ns: 0,
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
        let (start, before) = (Instant::now(), self.process.processor_ns());
        let answer = self.attach.command(name, arguments, timeout);
        self.took += start.elapsed();
        let after = self.process.processor_ns();
        self.processor_ns += before.zip(after).map_or(0, |(b, a)| a.saturating_sub(b));
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
    pub(super) fn took(&self) -> Duration {
        self.took
    }

    /// Processor time of the machine during the commands so far, nanoseconds.
    pub(super) fn processor_ns(&self) -> u64 {
        self.processor_ns
    }
}
