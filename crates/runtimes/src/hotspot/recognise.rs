//! Tells `HotSpot` from other runtimes.

use super::hsperfdata;
use crate::detect::Candidate;
use crate::java::{self, Jvm};
use crate::process::Process;
use crate::regular::Root;
use std::path::Path;

/// Whether this file below `root` is the launcher `bin/java` of a `HotSpot`. `real`: links were
/// followed.
pub(super) fn is_launcher(root: &Root, real: &Path) -> bool {
    java::of_launcher(root, real) == Some(Jvm::HotSpot)
}

/// Whether the process has a `HotSpot` machine, judged by its mapped files. If the map is closed to
/// us because the process has capabilities that we lack, judged by its counters.
pub(super) fn runs(process: &Candidate) -> bool {
    match process.is_closed() {
        true => process
            .process()
            .is_some_and(|process| hsperfdata::is_machine(&process)),
        false => java::of_process(process) == Some(Jvm::HotSpot),
    }
}

/// Whether this process has a `HotSpot` machine now. A process stays the same when it becomes
/// another program by an exec.
pub fn is_machine(process: &Process) -> bool {
    runs(&Candidate::look(process.pid))
}
