//! Requests to the agent in a machine: to collect the whole heap (JVMTI `ForceGarbageCollection`), or to
//! count what is allocated (`SampledObjectAlloc`), so that it collects by itself at a bound.
//!
//! The machine is told to load the agent's library once more. It has it already, so it only calls it again.

use super::install::LIBRARY;
use crate::hotspot::attach_protocol::Reply;
use crate::process::Process;
use plimsoll_kernel::smaps::each_mapping_of;

/// How the agent is called.
pub const LOAD: &str = "load";

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Collects now.
    Collect,
    /// Counts the bytes that are allocated, from now on. Another agent may do so already, which forbids it.
    Count,
    /// Counts them no more.
    Uncount,
}

impl Request {
    /// The option that stands for it, and the answer that says that it was done (`Agent_OnAttach` in
    /// `agents/jvm`).
    fn words(self) -> [&'static str; 2] {
        match self {
            Request::Collect => ["collect", "return code: 4"],
            Request::Count => ["count", "return code: 6"],
            Request::Uncount => ["uncount", "return code: 7"],
        }
    }

    /// The arguments of [`LOAD`] for a library at this path.
    pub fn arguments(self, library: &str) -> [&str; 3] {
        // "true": the path is absolute.
        [library, "true", self.words()[0]]
    }

    /// Whether a machine's answer says that it was done. A collection has ended by then; while a thread is
    /// in a critical section of JNI, some machines put it off.
    pub fn is_done(self, reply: &Reply) -> bool {
        reply.text.trim() == self.words()[1]
    }
}

/// The path of the agent's library in a machine. `None` where that could name another file: it was replaced
/// since, or the machine sees other files than we do. The machine would load that one, too.
pub fn loaded(process: &Process) -> Option<String> {
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
