//! Which processes are meant.

use crate::args;
use crate::broker_connection::Control;
use crate::error::CliError;
use crate::group;
use crate::own_broker::Place;
use crate::rows::{Faults, Order, rows};
use crate::set::resolve;
use plimsoll_kernel::process::descendants;
use plimsoll_wire::messages::{Listing, Principal};
use std::path::Path;

/// Most processes of one call.
const MAX_PROCESSES: usize = 4096;

/// The processes that the arguments name, each once. `again`: they were found before. Then a group or
/// principal that is over leaves those beside it.
///
/// # Errors
/// When there is no such group, principal or broker, or no process in it.
pub(super) fn find(
    place: &dyn Fn() -> Place,
    args: &args::Map,
    again: bool,
) -> Result<Vec<i32>, CliError> {
    let mut pids = args.pids.clone();
    let group = args.cgroup.as_deref().map(of_group);
    let principal = args.principal.as_deref().map(|which| {
        let listing = Control::connect(&place().socket)?.list()?;
        of_principal(&listing, which)
    });
    let mut over = None;
    for found in [group, principal].into_iter().flatten() {
        match found {
            Ok(mut members) => pids.append(&mut members),
            Err(error) if again && is_over(&error) => over = Some(error),
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = over.filter(|_| pids.is_empty()) {
        return Err(error);
    }
    let mut seen = std::collections::HashSet::new();
    pids.retain(|&pid| seen.insert(pid));
    told_if_many(pids.len() <= MAX_PROCESSES);
    pids.truncate(MAX_PROCESSES);
    Ok(pids)
}

/// Whether those that were watched are no more. Any other error is a failure.
pub(super) fn is_over(error: &CliError) -> bool {
    matches!(
        error,
        CliError::NoProcesses(_) | CliError::NoSuchGroup(_) | CliError::NoSuchPrincipal(_)
    )
}

/// The processes of a group and of those below it.
fn of_group(path: &Path) -> Result<Vec<i32>, CliError> {
    let mut members = Vec::new();
    let complete = group::named(path)?
        .processes(MAX_PROCESSES, &mut members)
        .map_err(|error| group::failed(path, &error))?;
    told_if_many(complete);
    if members.is_empty() {
        Err(CliError::NoProcesses(path.display().to_string()))
    } else {
        Ok(members)
    }
}

fn told_if_many(complete: bool) {
    if !complete {
        crate::output::say(format_args!(
            "only the first {MAX_PROCESSES} processes are shown"
        ));
    }
}

/// The processes of a principal and of those below it, with their descendants.
fn of_principal(listing: &Listing, which: &str) -> Result<Vec<i32>, CliError> {
    let id = resolve(listing, which)?;
    let all = rows(listing, Order::Arrival, &Faults::new());
    let mut pids = Vec::new();
    if let Some(row) = all.iter().find(|row| row.principal.id == id) {
        add_processes(row.principal, 0, &mut pids);
    }
    if pids.is_empty() {
        Err(CliError::NoProcesses(which.to_owned()))
    } else {
        Ok(pids)
    }
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
