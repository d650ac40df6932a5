//! Asks for collections: by the agent, or by a diagnostic command. Keeps a message of the machine that the
//! command causes out of the program's standard output.
//!
//! A machine that is asked for `GC.class_histogram` while a thread is in a critical section of JNI
//! (before 22 under G1, later only under Serial and Parallel) collects nothing, and logs "GC locker is held;
//! pre-dump GC was skipped" as a warning, which goes to standard output unless its user chose otherwise. So
//! warnings with exactly the tag `gc` are switched off for the time of our own request. Where the log was
//! configured by anybody, it stays as it is.

use super::commands::{COMMAND, Commands, Failed};
use crate::hotspot::agent::request::{self, Request};
use crate::hotspot::release::RELEASE;
use crate::hotspot::sizing_flags::Trigger;
use crate::process::Process;
use std::time::Duration;
use tracing::debug;

/// How long a collection may take.
const COLLECTION: Duration = Duration::from_secs(60);

/// The command that shows how the log is configured.
const LIST: &str = "VM.log list";
/// The command that switches those warnings off on standard output.
const OFF: &str = "VM.log output=#0 what=gc=error";
/// The command that switches them on again.
const ON: &str = "VM.log output=#0 what=gc=warning";

/// Whether the log on standard output is as it is unasked, by the answer to [`LIST`]: warnings of all kinds,
/// or those without `gc` since it was configured at run time, as one of ours that was killed leaves it.
fn is_unasked(list: &str) -> bool {
    let mut lines = list.lines().map(str::trim);
    let output = lines.find_map(|line| line.strip_prefix("#0: stdout "));
    let mut words = output.unwrap_or_default().split(' ');
    let (what, decorated) = (words.next(), words.next());
    let at_run_time = words.next_back() == Some("(reconfigured)");
    decorated == Some("uptime,level,tags")
        && (what == Some("all=warning") || what == Some("all=warning,gc=error") && at_run_time)
}

/// How one machine is asked for collections.
#[derive(Debug)]
pub(super) struct Requests {
    /// The machine's process.
    process: Process,
    /// Warnings of its log are off, because we collect.
    hushed: bool,
    /// The agent was asked, and did not collect.
    without_agent: bool,
    /// The agent counts what is allocated, or was asked and does not; `None` before it was asked.
    counts: Option<bool>,
}

impl Requests {
    /// Nothing was asked of this process yet.
    pub(super) fn to(process: Process) -> Requests {
        Requests {
            process,
            hushed: false,
            without_agent: false,
            counts: None,
        }
    }

    /// Asks for a collection and waits for its end. `has_agent`: an agent is in the machine.
    ///
    /// # Errors
    /// As [`Commands::send`].
    pub(super) fn collect(
        &mut self,
        trigger: Trigger,
        has_agent: bool,
        commands: &mut Commands,
    ) -> Result<(), Failed> {
        if trigger == Trigger::Histogram {
            if has_agent && self.agent_collects(commands)? {
                return Ok(());
            }
            // Each time: its user may have configured it since.
            if let Ok(listed) = commands.attach.command("jcmd", &[LIST], COMMAND) {
                self.hushed =
                    is_unasked(&listed.text) && commands.send("jcmd", &[OFF], COMMAND).is_ok();
            }
        }
        let done = commands.send("jcmd", &[trigger.command()], COLLECTION);
        self.speak(commands);
        done.map(drop)
    }

    /// Has the agent collect the whole heap. That takes half of the time of `GC.class_histogram`, which
    /// counts all objects, and Serial and Parallel tell the agent of it.
    fn agent_collects(&mut self, commands: &mut Commands) -> Result<bool, Failed> {
        if self.without_agent {
            return Ok(false);
        }
        let done = self.request(Request::Collect, COLLECTION, commands)?;
        self.without_agent = done == Some(false);
        Ok(done == Some(true))
    }

    /// Has the agent count what is allocated, once, so that it collects at its bound by itself.
    ///
    /// # Errors
    /// As [`Commands::send`].
    pub(super) fn have_counted(&mut self, commands: &mut Commands) -> Result<(), Failed> {
        if self.counts.is_none() {
            self.counts = self.request(Request::Count, COMMAND, commands)?;
        }
        Ok(())
    }

    /// It may have stopped that by itself: it is asked again when that is wanted.
    pub(super) fn may_have_stopped(&mut self) {
        self.counts.take_if(|counts| *counts);
    }

    /// Whether it does that.
    pub(super) fn counts(&self) -> bool {
        self.counts == Some(true)
    }

    /// Ends that. The machine may be gone.
    pub(super) fn leave_uncounted(&mut self, commands: &mut Commands) {
        if self.counts.take() == Some(true) {
            let _ = self.request(Request::Uncount, RELEASE, commands);
        }
    }

    /// Has the agent do something. Returns whether it did; `None` where its library cannot be named now.
    fn request(
        &mut self,
        request: Request,
        timeout: Duration,
        commands: &mut Commands,
    ) -> Result<Option<bool>, Failed> {
        let Some(library) = request::loaded(&self.process) else {
            return Ok(None);
        };
        let reply = commands.send(request::LOAD, &request.arguments(&library), timeout)?;
        let done = request.is_done(&reply);
        if !done {
            let (pid, said) = (self.process.pid, reply.text.trim());
            debug!("process {pid}: the agent did not do this ({request:?}): {said}");
        }
        Ok(Some(done))
    }

    /// Lets the machine log as it did, if we changed that.
    pub(super) fn speak(&mut self, commands: &mut Commands) {
        if self.hushed && commands.send("jcmd", &[ON], COMMAND).is_ok() {
            self.hushed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_somebody_configured_is_left_alone() {
        let list = |output: &str| {
            format!(
                "Available log levels: off, error\nLog output configuration:\n {output}\n #1: stderr all=off \
                 uptime,level,tags\n"
            )
        };
        for ready in [
            "#0: stdout all=warning uptime,level,tags",
            "#0: stdout all=warning uptime,level,tags foldmultilines=false",
            "#0: stdout all=warning,gc=error uptime,level,tags foldmultilines=false (reconfigured)",
            "#0: stdout all=warning,gc=error uptime,level,tags (reconfigured)",
        ] {
            assert!(is_unasked(&list(ready)), "{ready}");
        }
        for never in [
            "#0: stdout all=off uptime,level,tags",
            "#0: stdout all=warning,gc*=info uptime,level,tags",
            "#0: stdout all=warning,gc=error uptime,level,tags",
            "#0: stdout all=warning uptime",
            "",
        ] {
            assert!(!is_unasked(&list(never)), "{never}");
        }
    }
}
