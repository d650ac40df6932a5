//! A runtime without practical use: the worked example of `docs/src/adding-a-runtime.md`. Its programs are
//! called `plimsoll-example`. They take no more than the bytes that the variable `PLIMSOLL_EXAMPLE_BUDGET`
//! says, and no more than the file `/tmp/plimsoll-example-PID.limit` says, which they read now and then.
//!
//! It is compiled and tested but not in [`crate::ALL`]; make a list with it to use it. To write a real
//! runtime, begin with a copy of this folder.
//!
//! Rooms inside: `limit_file` (the file of one program), `lever` (when it is written, and removed).

mod lever;
mod limit_file;

use crate::adapter_lock::AdapterLock;
use crate::lever_options::Choice;
use crate::process::Process;
use crate::runtime::{Addition, Runtime, Start, Steered};
use lever::BUDGET;
use limit_file::LimitFile;
pub use plimsoll_programs::example::Example;
use std::ffi::OsString;

/// The name of the adapter and the value of `--adapter`.
const NAME: &str = "example";

impl Runtime for Example {
    fn choices(&self) -> &'static [Choice] {
        &[Choice {
            name: NAME,
            help: "A program that is called plimsoll-example",
        }]
    }

    /// Adds what the user did not give, and notes it.
    fn prepare(&self, start: &Start<'_>) -> Addition {
        let given = (start.command.setting.variables)(BUDGET).is_some();
        let budget = start.plan.budget.filter(|_| !given);
        let value = budget.map(|bytes| bytes.0.to_string());
        Addition {
            notes: value
                .iter()
                .map(|value| format!("{BUDGET}={value}"))
                .collect(),
            environment: value
                .map(|value| (OsString::from(BUDGET), OsString::from(value)))
                .into_iter()
                .collect(),
            steered: true,
            ..Addition::default()
        }
    }

    fn steered(&self) -> Steered {
        Steered::Outside(lever::begin)
    }

    /// Removes the file. Another adapter may steer the program by now; that one has the lock.
    fn put_back(&self, process: Process, _note: &str) -> bool {
        let lock = AdapterLock::of(&process);
        lock.is_ok() && LimitFile::of(&process).is_ok_and(|file| file.remove().is_ok())
    }
}
