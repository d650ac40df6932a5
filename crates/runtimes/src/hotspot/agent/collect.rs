//! Has the agent in a machine collect the whole heap.
//!
//! The machine is told to load the agent's library once more. It has it already, so it only calls it again,
//! and the agent asks for a collection (JVMTI `ForceGarbageCollection`).

use super::install::LIBRARY;
use crate::hotspot::attach_protocol::Reply;
use crate::process::Process;
use plimsoll_kernel::smaps::each_mapping_of;

/// How the agent is called.
pub(crate) const LOAD: &str = "load";
/// The option that asks it for a collection, and its answer (`Agent_OnAttach` in `agents/jvm`).
const COLLECT: &str = "collect";
const COLLECTED: &str = "return code: 4";

/// The path of the agent's library in a machine. `None` where that could name another file: it was replaced
/// since, or the machine sees other files than we do. The machine would load that one, too.
pub(crate) fn loaded(process: &Process) -> Option<String> {
    let mut found = None;
    let name = format!("/{LIBRARY}");
    let looked = each_mapping_of(process.pid, &mut |area| {
        let is_it = area.executable && area.name.ends_with(&name);
        if is_it {
            found = Some(area.name.clone());
        }
        !is_it
    });
    found.filter(|_| looked.is_ok() && process.sees_our_files())
}

/// The arguments of [`LOAD`] for a library at this path.
pub(crate) fn arguments(library: &str) -> [&str; 3] {
    // "true": the path is absolute.
    [library, "true", COLLECT]
}

/// Whether a machine's answer says that the agent has asked for the collection, and waited for it. While a
/// thread is in a critical section of JNI, some machines put it off.
pub(crate) fn is_done(reply: &Reply) -> bool {
    reply.text.trim() == COLLECTED
}
