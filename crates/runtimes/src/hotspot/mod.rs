//! `HotSpot` Java virtual machines, steered from outside: nothing is loaded into them.
//!
//! | word | meaning |
//! |---|---|
//! | *machine* | a running Java virtual machine |
//! | *counters* | what it publishes in its `hsperfdata` file |
//! | *snapshot* | the counters of one moment, in the same form for every collector |
//! | *lever* | a manageable flag or a collection that moves its memory |
//! | *live* | bytes that survived the last collection of the whole heap |
//!
//! Rooms inside: [`flags`] before the start; then [`attach`] (commands), `trigger` and `quit` (how a machine
//! is made to listen, and which may be signalled for it), [`reply`] (the protocol's bytes), [`hsperfdata`]
//! and [`snapshot`] (reading), [`machine`] (what it is), [`levers`] (what moves it), [`footprint`] (what it
//! uses), `surprise` (native memory that grows at once), [`control`] (what to do), `release` (what a machine
//! gets back), `silence` (when it does not answer), and `steer`, the adapter [`HotSpot`], which joins them.

pub mod attach;
pub mod control;
pub mod flags;
pub mod footprint;
pub mod hsperfdata;
pub mod levers;
pub mod machine;
mod quit;
mod release;
pub mod reply;
mod silence;
pub mod snapshot;
mod steer;
mod surprise;
mod trigger;

pub use steer::HotSpot;
