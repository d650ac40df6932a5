//! The trait of what tells one runtime from the others.

use crate::candidate::Candidate;
use crate::command::Command;
use std::fmt::Debug;

/// Tells the programs of one runtime.
///
/// Neither question waits, or makes the program do anything; they read at most some megabytes of files.
/// Neither fails: a program that cannot be read is not recognised.
pub trait Recognise: Debug + Sync {
    /// The unique name: 1 to 32 bytes of `a` to `z`, `0` to `9` and `-`.
    fn name(&self) -> &'static str;

    /// Whether the command line starts a program of this runtime, judged by its file
    /// ([`Command::executable`]). A script belongs to no runtime; the programs that it starts are found when
    /// they run. No by default: nothing is added to a program of a runtime that needs nothing at its start.
    fn starts(&self, _command: &Command<'_>) -> bool {
        false
    }

    /// Whether this process has the runtime now, judged by its mapped files ([`Candidate::names`]) or by what
    /// is in them ([`crate::elf::Image`]). Both are hidden if we may not look into the process
    /// ([`Candidate::is_closed`]). The answer changes when a process becomes another program.
    fn runs(&self, process: &Candidate<'_>) -> bool;
}
