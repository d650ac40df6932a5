//! `HotSpot` Java virtual machines, and what they publish: counters, and tables for debuggers.
//!
//! | module | is |
//! |---|---|
//! | [`hsperfdata`] | the file with the counters |
//! | `perf_memory` | counters that are in no file |
//! | [`tables`] | the tables of types, fields, constants and flags |

pub mod hsperfdata;
mod perf_memory;
pub mod tables;

use crate::candidate::{Candidate, Jvm};
use crate::command::Command;
use crate::foreign_files::Root;
use crate::java;
use crate::recognise::Recognise;
use plimsoll_kernel::process::Handle;
use std::path::Path;

pub use perf_memory::Searched;

/// Java virtual machines with `HotSpot`'s `libjvm.so`.
#[derive(Clone, Copy, Debug)]
pub struct HotSpot;

impl Recognise for HotSpot {
    fn name(&self) -> &'static str {
        "hotspot"
    }

    fn starts(&self, command: &Command<'_>) -> bool {
        let file = command.executable();
        file.is_some_and(|file| is_launcher(&Root::Ours, file))
    }

    /// Judged by the mapped files. If the map is closed to us because the process has capabilities that we
    /// lack, judged by its counters.
    fn runs(&self, process: &Candidate<'_>) -> bool {
        if process.is_closed() {
            process
                .process()
                .is_some_and(|process| hsperfdata::is_machine(&process))
        } else {
            java::of_process(process) == Some(Jvm::HotSpot)
        }
    }
}

/// Whether this file below `root` is the launcher `bin/java` of a `HotSpot`. `real`: links were
/// followed.
pub fn is_launcher(root: &Root, real: &Path) -> bool {
    java::of_launcher(root, real) == Some(Jvm::HotSpot)
}

/// Whether this process has a `HotSpot` machine now. A process stays the same when it becomes
/// another program by an exec.
pub fn is_machine(process: &Handle) -> bool {
    HotSpot.runs(&Candidate::look(process.pid))
}
