//! What tells `HotSpot` from other runtimes.

use super::hsperfdata;
use crate::detect::Candidate;
use crate::java::{self, Jvm};
use crate::process::Process;
use crate::regular::Root;
use std::path::Path;

/// Whether this file below `root` is a launcher `bin/java` of a `HotSpot`; links were followed.
pub(super) fn is_launcher(root: &Root, real: &Path) -> bool {
    java::of_launcher(root, real) == Some(Jvm::HotSpot)
}

/// By what it has mapped; where its map is closed to us (it has capabilities that we have not), by the
/// counters that it publishes.
pub(super) fn runs(process: &Candidate) -> bool {
    match process.is_closed() {
        true => process
            .process()
            .is_some_and(|process| hsperfdata::is_machine(&process)),
        false => java::of_process(process) == Some(Jvm::HotSpot),
    }
}

/// Whether this process has a virtual machine of `HotSpot`'s now. A process may become another program, and
/// is the same process.
pub fn is_machine(process: &Process) -> bool {
    runs(&Candidate::look(process.pid))
}
