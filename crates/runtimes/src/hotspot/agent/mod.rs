//! The agent inside a machine (`agents/jvm`), seen from outside: its library, how it gets into a
//! machine, and its page of collections.
//!
//! | module | is |
//! |---|---|
//! | `page` | finds and maps the page of a machine that has the agent |
//! | `install` | puts the library where the machine can read it |
//! | `load` | loads it into a running machine |
//! | `request` | has it collect the whole heap, or count what is allocated |
//! | `refuse` | machines that it is not loaded into |
//! | `retry` | when loading is tried again after a failure |
//! | `messages` | what the user is told of it |
//!
//! The agent is loaded when the machine starts (`-agentpath:`, see `start`), or later through the
//! attach socket. Either way it is found by its page: a sealed memory file among the descriptors of
//! the process. A machine that has one is never loaded into again.

mod install;
mod load;
mod messages;
mod page;
mod refuse;
pub mod request;
mod retry;

pub use install::LIBRARY;
pub use load::{AgentError, load};
pub(super) use messages::Told;
pub use page::{Page, PageError};
pub use refuse::{refused_at_start, refused_version};
pub(super) use retry::Tries;

use super::attach::Attach;
use super::collector::Collector;
use super::machine::Machine;
use super::options::{Loading, Policy};
use crate::lever::Target;
use crate::lever_options::Chosen;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tracing::{debug, info};

/// Whether the agent may be loaded into a machine, and helps there: it gives memory of these collectors back,
/// and sees the stalls by which a policy decides.
pub(super) fn helps(collector: Collector, chosen: &Chosen) -> bool {
    let gives_back = [Collector::Serial, Collector::Parallel, Collector::G1];
    Loading::of(chosen) != Loading::Never
        && (gives_back.contains(&collector) || Policy::of(chosen).is_by_stalls())
}

/// The agent's library beside `program`, which is ours (in a build tree), or in the place of
/// installation.
pub fn library(program: &Path) -> Option<PathBuf> {
    crate::own_libraries::library(program, LIBRARY, LIBRARY)
}

/// The page of the agent in the machine, which is loaded into it if it is not there. `None` where the user
/// does not want it, or it would not help, or it cannot be had; `retry` says when to ask again.
pub(super) fn in_machine(
    target: &Target<'_>,
    attach: &Attach,
    machine: &Machine,
    tries: &mut Tries,
) -> Option<Page> {
    let (process, options) = (&target.process, target.options);
    tries.end();
    if !helps(machine.collector, &options.chosen) {
        return None;
    }
    let page = match Page::of(process) {
        Ok(page) => Ok(page),
        Err(_) if Loading::of(&options.chosen) == Loading::AtStart => {
            // A machine that is starting may not have made it yet.
            tries.failed(true, Instant::now());
            return None;
        }
        Err(_) => {
            let library = options.own.as_deref().and_then(library)?;
            load(process, attach, machine, &library)
        }
    };
    match page {
        Ok(page) => Some(page),
        Err(error) => {
            let again = tries.failed(retry::may_pass(&error), Instant::now());
            match again {
                None => info!("{error}; it is steered from outside only"),
                Some(_) if tries.is_first() => info!(
                    "{error}; it is steered from outside until the agent can be loaded, which is tried again"
                ),
                Some(pause) => debug!("{error}; tried again in {} s", pause.as_secs()),
            }
            None
        }
    }
}
