//! Servers while they are recorded.

use crate::harness::interrupt;
use crate::{Error, Result};
use plimsoll_testbed::children::{end, end_with_us};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it answers, and until it has ended and its trace is made.
const PATIENCE: Duration = Duration::from_secs(900);
/// Time between two looks at it.
const PACE: Duration = Duration::from_millis(300);

/// Makes a command run in a folder, and end with us. Returns the log there to which it writes what it says.
///
/// # Errors
/// When there can be no log.
pub(super) fn logged(command: &mut Command, folder: &Path) -> Result<PathBuf> {
    let log = folder.join("log");
    let file = File::create(&log).map_err(Error::file("write", &log))?;
    let errors = file.try_clone().map_err(Error::file("write", &log))?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    command.current_dir(folder);
    end_with_us(command);
    Ok(log)
}

/// A server that is being recorded.
#[derive(Debug)]
pub(super) struct Running {
    /// `plimsoll trace`, which passes signals on.
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts it, with a log in a folder, in which it runs.
    pub(super) fn start(mut command: Command, folder: &Path) -> Result<Running> {
        let log = logged(&mut command, folder)?;
        let child = command.spawn().map_err(Error::start(&command))?;
        Ok(Running { child, log })
    }

    /// Waits until it is there.
    pub(super) fn wait_for(&mut self, is_there: impl Fn() -> bool) -> Result<()> {
        let begin = Instant::now();
        while !is_there() {
            interrupt::check()?;
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return Err(self.failed("ended"));
            }
            if begin.elapsed() > PATIENCE {
                return Err(self.failed("did not answer"));
            }
            std::thread::sleep(PACE);
        }
        Ok(())
    }

    /// Makes it end, and waits until its trace is made.
    ///
    /// # Errors
    /// When it ends with another status, or takes too long.
    pub(super) fn end(mut self, expected: i32) -> Result<()> {
        end(&mut self.child, PATIENCE);
        let status = self.child.wait();
        let status = status.map_err(|source| Error::Wait {
            what: "plimsoll trace",
            source,
        })?;
        if status.code() == Some(expected) {
            Ok(())
        } else {
            Err(self.failed(&format!("ended ({status})")))
        }
    }

    fn failed(&self, what: &str) -> Error {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let last = said.lines().last().unwrap_or("it said nothing");
        Error::program("the recorded server", format!("{what}: {last}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child, Duration::from_secs(20));
    }
}
