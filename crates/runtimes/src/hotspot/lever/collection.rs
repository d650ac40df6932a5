//! Asks for collections: by the agent, or by a diagnostic command. Keeps a message of the machine that the
//! command causes out of the program's standard output.
//!
//! A machine that is asked for `GC.class_histogram` while a thread is in a critical section of JNI
//! (before 22 under G1, later only under Serial and Parallel) collects nothing, and logs "GC locker is held;
//! pre-dump GC was skipped" as a warning, which goes to standard output unless its user chose otherwise. So
//! warnings with exactly the tag `gc` are switched off for the time of our own request. Where the log was
//! configured by anybody, it stays as it is.

use super::{COLLECTION, COMMAND, Failed, HotSpotLever, Trigger};
use crate::hotspot::agent::request::{self, Request};
use tracing::debug;

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

impl HotSpotLever<'_> {
    /// Asks for a collection.
    pub(super) fn ask_for_collection(&mut self, trigger: Trigger) -> Result<(), Failed> {
        if trigger == Trigger::Histogram {
            if self.agent_collects()? {
                return Ok(());
            }
            // Each time: its user may have configured it since.
            if let Ok(listed) = self.attach.command("jcmd", &[LIST], COMMAND) {
                self.asking.hushed =
                    is_unasked(&listed.text) && self.ask("jcmd", &[OFF], COMMAND).is_ok();
            }
        }
        let done = self.ask("jcmd", &[trigger.command()], COLLECTION);
        self.speak();
        done.map(drop)
    }

    /// Has the agent collect the whole heap, if there is one. That takes half of the time of
    /// `GC.class_histogram`, which counts all objects, and Serial and Parallel tell the agent of it.
    fn agent_collects(&mut self) -> Result<bool, Failed> {
        let done = !self.asking.without_agent && self.request(Request::Collect)?;
        self.asking.without_agent |= !done;
        Ok(done)
    }

    /// Has the agent count what is allocated, once, so that it collects at its bound by itself.
    pub(super) fn have_counted(&mut self) -> Result<(), Failed> {
        if self.asking.counts.is_none() {
            self.asking.counts = Some(self.request(Request::Count)?);
        }
        Ok(())
    }

    /// Ends that. The machine may be gone.
    pub(super) fn leave_uncounted(&mut self) {
        if self.asking.counts.take() == Some(true) {
            let _ = self.request(Request::Uncount);
        }
    }

    /// Has the agent do something. Returns whether it did; false without one.
    fn request(&mut self, request: Request) -> Result<bool, Failed> {
        if self.agent.is_none() {
            return Ok(false);
        }
        let Some(library) = request::loaded(&self.target.process) else {
            return Ok(false);
        };
        let reply = self.ask(request::LOAD, &request.arguments(&library), COLLECTION)?;
        let done = request.is_done(&reply);
        if !done {
            let (pid, said) = (self.target.process.pid, reply.text.trim());
            debug!("process {pid}: the agent did not do this ({request:?}): {said}");
        }
        Ok(done)
    }

    /// Lets the machine log as it did, if we changed that.
    pub(super) fn speak(&mut self) {
        if self.asking.hushed && self.ask("jcmd", &[ON], COMMAND).is_ok() {
            self.asking.hushed = false;
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
