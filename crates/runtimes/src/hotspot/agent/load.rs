//! Loads the agent into a running machine.

use super::install::{self, Unplaced};
use super::page::{Page, PageError};
use super::refuse;
use crate::hotspot::attach::{Attach, AttachError};
use crate::hotspot::machine::Machine;
use crate::process::Process;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long loading may take: the machine reads a library and its own tables.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a machine's answer that are shown.
const MAX_ANSWER: usize = 300;

/// Why the agent is not in a machine.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Our own library cannot be read.
    #[error("the agent's library {path} cannot be read: {source}")]
    Library {
        /// Where it should be.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// No directory of the process takes a copy.
    #[error(
        "the agent's library cannot be put where process {pid} can read it (its /tmp, /var/tmp, /dev/shm): \
         {source}"
    )]
    Nowhere {
        /// Which process.
        pid: u32,
        /// The last error of the system.
        source: std::io::Error,
    },
    /// All of them are mounted noexec.
    #[error(
        "the agent's library cannot be put where process {pid} can load it: its /tmp, /var/tmp and /dev/shm \
         are mounted noexec"
    )]
    NoExec {
        /// Which process.
        pid: u32,
    },
    /// The machine forbids it, or it would not go together with it.
    #[error("the agent is not loaded into the Java virtual machine {pid}: {why}")]
    Forbidden {
        /// Which process.
        pid: u32,
        /// The reason.
        why: &'static str,
    },
    /// The machine could not be told.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The machine did not load it.
    #[error("the Java virtual machine {pid} did not load the agent: {said}")]
    Refused {
        /// Which process.
        pid: u32,
        /// The answer of the machine or of the agent.
        said: String,
    },
    /// It was loaded, but has no page that can be used.
    #[error(transparent)]
    Page(#[from] PageError),
}

/// Loads the agent into a machine, unless it is there.
/// A machine of version 21 and later prints a warning on its standard error.
///
/// # Errors
/// [`AgentError`]; the machine is as it was.
pub fn load(
    process: &Process,
    attach: &Attach,
    machine: &Machine,
    library: &Path,
) -> Result<Page, AgentError> {
    match Page::of(process) {
        Err(PageError::Absent { .. }) => {}
        other => return Ok(other?),
    }
    let pid = process.pid;
    if let Some(why) = refuse::refused_by(machine) {
        return Err(AgentError::Forbidden { pid, why });
    }
    let status = process.status().map_err(|_| AttachError::Gone { pid })?;
    let owner = (status.euid, status.egid);
    let placed = install::place(process, library, owner).map_err(|unplaced| match unplaced {
        Unplaced::Library(path, source) => AgentError::Library { path, source },
        Unplaced::Nowhere(errno) => AgentError::Nowhere {
            pid,
            source: errno.into(),
        },
        Unplaced::NoExec => AgentError::NoExec { pid },
    })?;
    let path = placed.path().to_string_lossy();
    // "true": the path is absolute.
    let reply = attach.command("load", &[&path, "true", ""], TIMEOUT)?;
    match Page::of(process) {
        Err(PageError::Absent { .. }) => Err(AgentError::Refused {
            pid,
            said: meaning(&reply.text),
        }),
        other => Ok(other?),
    }
}

/// The meaning of a machine's answer, for a person.
fn meaning(said: &str) -> String {
    let code = said.split_once("return code:").map(|(_, code)| code.trim());
    // The results of `Agent_OnAttach` in `agents/jvm`.
    match code {
        Some("0") => "it has one already, and closed the descriptor of its page".to_owned(),
        Some("1") => "it offers no events of collections".to_owned(),
        Some("2") => "its process may make no memory file (memfd_create)".to_owned(),
        Some("3") => "it is to be checkpointed, which an open descriptor would prevent".to_owned(),
        _ => {
            let plain = |c: char| if c.is_control() { ' ' } else { c };
            let text: String = said.trim().chars().take(MAX_ANSWER).map(plain).collect();
            if text.is_empty() {
                "it does not say why".to_owned()
            } else {
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::meaning;

    #[test]
    fn answers_are_told_plainly() {
        assert!(meaning("return code: 2").contains("memfd_create"));
        assert!(meaning("return code: 0").contains("already"));
        assert_eq!(meaning(""), "it does not say why");
        let said = "/tmp/x.so was not loaded.\n/tmp/x.so: wrong ELF class\x1b[2J";
        assert_eq!(
            meaning(said),
            "/tmp/x.so was not loaded. /tmp/x.so: wrong ELF class [2J"
        );
        assert_eq!(meaning(&"é".repeat(1000)).chars().count(), 300);
    }
}
