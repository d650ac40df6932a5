//! Where a server takes connections, as the kernel tells, and why we cannot reach it.

use super::connection::{Connection, Failed};
use crate::lever::Refusal;
use crate::process::Process;
use crate::suspended;
use plimsoll_kernel::sockets::{Listens, listening, shares_network};
use std::io::ErrorKind;

/// The most places of a server that are tried: a port for each address, one for TLS, one of a cluster.
const MAX_PLACES: usize = 8;

/// A refusal that asking again may end.
pub(super) fn not_yet(why: impl Into<String>) -> Refusal {
    Refusal::NotYet {
        why: why.into(),
        early: false,
        still: false,
        signalled: false,
    }
}

/// The same while the server may just be starting.
pub(super) fn early(why: impl Into<String>) -> Refusal {
    Refusal::NotYet {
        why: why.into(),
        early: true,
        still: false,
        signalled: false,
    }
}

/// The places where a process takes connections and that we can reach, UNIX sockets first.
fn places(process: &Process) -> Result<Vec<Listens>, Refusal> {
    let pid = process.pid;
    if let Some(how) = process
        .status()
        .ok()
        .and_then(|it| suspended::how(pid, &it))
    {
        return Err(Refusal::NotYet {
            why: format!("process {pid} {how}"),
            early: false,
            still: true,
            signalled: false,
        });
    }
    let found = match listening(pid) {
        Ok(found) => found,
        Err(_) if !process.alive() => return Err(Refusal::Gone),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(not_yet(format!(
                "the sockets of process {pid} are hidden from us: run plimsoll as its user or as root"
            )));
        }
        Err(error) => return Err(not_yet(format!("its sockets cannot be listed: {error}"))),
    };
    let is_near = shares_network(pid);
    let is_reached = |place: &Listens| is_near || matches!(place, Listens::Path(_));
    let reached: Vec<Listens> = found.iter().filter(|it| is_reached(it)).cloned().collect();
    match (reached.is_empty(), found.is_empty()) {
        (true, true) => Err(early(format!(
            "process {pid} does not listen on any socket yet"
        ))),
        (true, false) => Err(not_yet(format!(
            "process {pid} listens in another network namespace, a container's, where we cannot connect: \
             let it listen on a UNIX socket, too, or run plimsoll in that container"
        ))),
        (false, _) => Ok(reached),
    }
}

/// Tries each place of a process until `ask` returns something there. Places that answer no such question, as
/// a port for TLS does, are passed over; if there is no other, the last of their reasons counts.
pub(super) fn at_first<T>(
    process: &Process,
    hint: &str,
    mut ask: impl FnMut(&mut Connection) -> Result<T, Failed>,
) -> Result<(T, Listens, Connection), Refusal> {
    let mut why = None;
    for place in places(process)?.into_iter().take(MAX_PLACES) {
        let asked = Connection::open(process, &place).and_then(|mut connection| {
            let answer = ask(&mut connection)?;
            Ok((answer, connection))
        });
        match asked {
            Ok((answer, connection)) => return Ok((answer, place, connection)),
            Err(failed) => why = Some(failed),
        }
    }
    if !process.alive() {
        return Err(Refusal::Gone);
    }
    let why = why.map_or_else(String::new, |failed| failed.to_string());
    Err(not_yet(format!(
        "process {} cannot be asked for its memory: {why} ({hint})",
        process.pid
    )))
}
