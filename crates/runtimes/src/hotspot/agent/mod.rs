//! The agent inside a machine (`agents/jvm`), seen from outside: its library, how it gets into a
//! machine, and its page of collections.
//!
//! | module | is |
//! |---|---|
//! | `page` | finds and maps the page of a machine that has the agent |
//! | `place` | puts the library where the machine can read it |
//! | `load` | loads it into a running machine |
//! | `refuse` | machines that it is not loaded into |
//!
//! The agent is loaded when the machine starts (`-agentpath:`, see `start`), or later through the
//! attach socket. Either way it is found by its page: a sealed memory file among the descriptors of
//! the process. A machine that has one is never loaded into again.

mod load;
mod page;
mod place;
mod refuse;

pub use load::{AgentError, load};
pub use page::{Page, PageError};
pub use refuse::{refused_at_start, refused_version};

use super::attach::Attach;
use super::machine::{Collector, Machine};
use crate::link::{Policy, Use};
use crate::runtime::Target;
use std::path::{Path, PathBuf};
use tracing::info;

/// The agent's file, in a build tree and where it is installed.
pub const LIBRARY: &str = "libplimsoll_jvm.so";

/// Whether the agent helps in a machine: it gives memory of these collectors back, and sees the stalls by
/// which a policy decides.
pub fn helps(collector: Collector, policy: Policy) -> bool {
    let gives_back = [Collector::Serial, Collector::Parallel, Collector::G1];
    gives_back.contains(&collector) || policy.is_by_stalls()
}

/// The agent's library beside `program`, which is ours (in a build tree), or in the place of
/// installation.
pub fn library(program: &Path) -> Option<PathBuf> {
    crate::ours::library(program, LIBRARY, LIBRARY)
}

/// The page of the agent in the machine, which is loaded into it if it is not there. `None` where the user
/// does not want it, or it would not help, or it cannot be had.
pub fn in_machine(target: &Target<'_>, attach: &Attach, machine: &Machine) -> Option<Page> {
    let (process, options) = (&target.process, target.options);
    if options.agent == Use::Never || !helps(machine.collector, options.policy) {
        return None;
    }
    let page = match Page::of(process) {
        Ok(page) => Ok(page),
        Err(_) => {
            let library = options.own.as_deref().and_then(library)?;
            load(process, attach, machine, &library)
        }
    };
    let pid = process.pid;
    match page {
        Ok(page) => {
            let view = page.view().ok();
            let about = view.map(|view| (view.about(), view.refusal()));
            if let Some((about, refusal)) = about {
                let back = refusal.map_or("free heap is given back".to_owned(), |why| {
                    format!("free heap is not given back: {why}")
                });
                info!(
                    "process {pid} has the agent; stalls by {}; {back}",
                    about.signal_text
                );
            }
            Some(page)
        }
        Err(error) => {
            info!("{error}; it is steered from outside only");
            None
        }
    }
}
