//! `HotSpot` Java virtual machines. They are steered from outside; where the user allows it, an agent in
//! them helps.
//!
//! | word | meaning |
//! |---|---|
//! | *machine* | a running Java virtual machine |
//! | *counters* | the values that a machine publishes in its `hsperfdata` file |
//! | *snapshot* | the counters of one moment, in the same form for every collector |
//! | *lever* | a manageable flag or a collection that moves a machine's memory |
//! | *live* | bytes that survived the last collection of the whole heap |
//!
//! Rooms inside: `runtime` (what the list of runtimes sees: [`HotSpot`]), [`options`] (what users choose),
//! [`flags`] and `start` (what is added before the start); then [`attach`] (commands), `attach_file` and
//! `sigquit` (how a machine is made to listen, and which machine may be signalled for that),
//! [`attach_protocol`] (the bytes of the protocol), [`snapshot`] (reading counters), [`machine`] (version
//! and flags), [`collector`] (the collectors), [`sizing_flags`] (what moves the heap), [`footprint`] (what
//! a machine uses), `concurrent_work` (the work that a collector does beside the program), `native_growth`
//! (sudden growth of native memory), [`control`] (what to do), [`release`] (restores the flags), `stalls`
//! and `isla_vista` (a limit from the kernel's stalls), [`agent`] (what is loaded into a machine),
//! `resident_target` (what that one is asked to keep), [`tracing`](mod@tracing) (what is added so that a
//! program can be recorded) and `lever`, which joins them.

pub mod agent;
pub mod attach;
mod attach_file;
pub mod attach_protocol;
pub mod collector;
mod concurrent_work;
pub mod control;
pub mod flags;
pub mod footprint;
mod isla_vista;
mod lever;
pub mod machine;
mod native_growth;
pub mod options;
pub mod release;
mod resident_target;
mod runtime;
mod sigquit;
pub mod sizing_flags;
pub mod snapshot;
mod stalls;
mod start;
pub mod tracing;

pub use plimsoll_programs::hotspot::HotSpot;

/// The name of the adapter.
const NAME: &str = "hotspot";
/// Its name while the agent in the machine helps.
const NAME_WITH_AGENT: &str = "hotspot-agent";
