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
//! [`flags`] before the start; then [`attach`] (commands), `quit` (who may be signalled for it),
//! [`hsperfdata`] and [`snapshot`] (reading), [`machine`] (what it is), [`levers`] (what moves it),
//! [`footprint`] (what it uses), [`control`] (what to do), `release` (what a machine gets back), `silence`
//! (when it does not answer), `greet` and `steer`, which join them. [`HotSpot`] is what the list of runtimes
//! knows: `recognise` tells it from others, `start` says what is added before the start.

pub mod attach;
pub mod control;
pub mod flags;
pub mod footprint;
mod greet;
pub mod hsperfdata;
pub mod levers;
pub mod machine;
mod quit;
mod recognise;
mod release;
pub mod reply;
mod runtime;
mod silence;
pub mod snapshot;
mod start;
mod steer;
mod surprise;
mod trigger;

pub use recognise::is_machine;
pub use runtime::HotSpot;

/// The name of the adapter.
const NAME: &str = "hotspot";
