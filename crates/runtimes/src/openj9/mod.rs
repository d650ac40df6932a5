//! `OpenJ9`: the other Java virtual machine. It has none of `HotSpot`'s flags, counters and
//! commands.

use crate::detect::{Candidate, Command};
use crate::java::{self, Jvm};
use crate::regular::Root;
use crate::runtime::{Runtime, Steered};

/// `OpenJ9` Java virtual machines, which are left alone.
#[derive(Clone, Copy, Debug)]
pub struct OpenJ9;

impl Runtime for OpenJ9 {
    fn name(&self) -> &'static str {
        "openj9"
    }

    fn starts(&self, command: &Command<'_>) -> bool {
        let file = command.executable();
        file.and_then(|file| java::of_launcher(&Root::Ours, file)) == Some(Jvm::OpenJ9)
    }

    fn runs(&self, process: &Candidate) -> bool {
        java::of_process(process) == Some(Jvm::OpenJ9)
    }

    fn steered(&self) -> Steered {
        Steered::LeftAlone(
            "it is an OpenJ9 virtual machine, which has no lever that is known: it is passive, and nothing \
             is added, sent or signalled to it",
        )
    }
}
