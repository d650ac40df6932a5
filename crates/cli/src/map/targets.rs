//! Which processes are meant.

use crate::args;
use crate::control::Control;
use crate::embed::Place;
use crate::error::CliError;
use crate::group;
use crate::rows::{Faults, Order, rows};
use crate::set::resolve;
use plimsoll_kernel::process::descendants;
use plimsoll_wire::messages::{Listing, Principal};

/// Most processes of one call.
const MAX_PROCESSES: usize = 4096;

/// The processes that the arguments name, each once.
///
/// # Errors
/// When there is no such group, principal or broker, or no process in it.
pub(super) fn find(place: &dyn Fn() -> Place, args: &args::Map) -> Result<Vec<i32>, CliError> {
    let mut pids = args.pids.clone();
    if let Some(path) = &args.cgroup {
        let mut members = Vec::new();
        let complete = group::named(path)?
            .processes(MAX_PROCESSES, &mut members)
            .map_err(|error| CliError::Kernel(error.to_string()))?;
        told_if_many(complete);
        if members.is_empty() {
            return Err(CliError::NoProcesses(path.display().to_string()));
        }
        pids.append(&mut members);
    }
    if let Some(which) = &args.principal {
        let listing = Control::connect(&place().socket)?.list()?;
        let mut members = of_principal(&listing, which)?;
        if members.is_empty() {
            return Err(CliError::NoProcesses(which.clone()));
        }
        pids.append(&mut members);
    }
    let mut seen = std::collections::HashSet::new();
    pids.retain(|&pid| seen.insert(pid));
    told_if_many(pids.len() <= MAX_PROCESSES);
    pids.truncate(MAX_PROCESSES);
    Ok(pids)
}

fn told_if_many(complete: bool) {
    if !complete {
        crate::say(format_args!(
            "only the first {MAX_PROCESSES} processes are shown"
        ));
    }
}

/// The processes of a principal and of those below it, with their descendants.
fn of_principal(listing: &Listing, which: &str) -> Result<Vec<i32>, CliError> {
    let id = resolve(listing, which)?;
    let all = rows(listing, Order::Arrival, &Faults::new());
    let mut pids = Vec::new();
    let Some(row) = all.iter().find(|row| row.principal.id == id) else {
        return Ok(pids);
    };
    add_processes(row.principal, 0, &mut pids);
    Ok(pids)
}

/// The broker allows 8 levels.
const DEEPEST: usize = 32;

fn add_processes(principal: &Principal, depth: usize, pids: &mut Vec<i32>) {
    if let Some(pid) = principal.pid.and_then(|pid| i32::try_from(pid).ok()) {
        pids.push(pid);
        // A process that exited meanwhile has none, and is told of when it is looked at.
        let _ = descendants(pid, MAX_PROCESSES, pids);
    }
    for child in principal.children.iter().filter(|_| depth < DEEPEST) {
        add_processes(child, depth + 1, pids);
    }
}
