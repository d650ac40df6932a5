//! Made-up environments and programs for tests.

use crate::process::Process;
use plimsoll_programs::Setting;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command};

/// Calls `then` with an environment of these variables, in our own folder.
pub(crate) fn with_variables<R>(
    variables: &[(&str, &str)],
    then: impl FnOnce(&Setting<'_>) -> R,
) -> R {
    let variable = |name: &str| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| OsString::from(value))
    };
    then(&Setting {
        variables: &variable,
        folder: Path::new(""),
    })
}

/// A process that no runtime steers, ended with its guard.
pub(crate) struct Sleeper(Child);

impl Sleeper {
    pub(crate) fn start() -> Sleeper {
        Sleeper(Command::new("sleep").arg("60").spawn().unwrap())
    }

    pub(crate) fn process(&self) -> Process {
        Process::new(self.0.id()).unwrap()
    }

    pub(crate) fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end();
    }
}
