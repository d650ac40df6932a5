//! `OpenJ9`: the other Java virtual machine. It has none of `HotSpot`'s flags, counters and
//! commands.

use crate::candidate::{Candidate, Jvm};
use crate::command::Command;
use crate::foreign_files::Root;
use crate::java;
use crate::recognise::Recognise;

/// `OpenJ9` Java virtual machines.
#[derive(Clone, Copy, Debug)]
pub struct OpenJ9;

impl Recognise for OpenJ9 {
    fn name(&self) -> &'static str {
        "openj9"
    }

    fn starts(&self, command: &Command<'_>) -> bool {
        let file = command.executable();
        file.and_then(|file| java::of_launcher(&Root::Ours, file)) == Some(Jvm::OpenJ9)
    }

    fn runs(&self, process: &Candidate<'_>) -> bool {
        java::of_process(process) == Some(Jvm::OpenJ9)
    }
}
