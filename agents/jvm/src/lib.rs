//! An agent for HotSpot virtual machines. It tells, on a [page](plimsoll_wire::collections), of each
//! stop-the-world pause and of the allocation stalls within it, and gives free memory of Serial's,
//! Parallel's and G1's heaps back to the kernel when the adapter wishes it. The adapter decides; the agent
//! measures and obeys.
//!
//! It must leave its machine exactly as safe as it was. Where in doubt it does nothing, and says why on
//! the page. It calls nothing of Java, changes no class, writes to no memory of the machine, and a panic
//! in it ends nothing but itself, and is said on the page.
//!
//! # Glossary
//! - *machine*: the Java virtual machine in whose process this is loaded.
//! - *pause*: from `GarbageCollectionStart` to `GarbageCollectionFinish`, both at one safepoint. Those
//!   within another one are parts of it.
//! - *wish*: how much of the heap the adapter wants to stay resident, at most.
//! - *space*: a part of the heap with objects from its bottom to its top, and free memory up to its end.
//! - *region*: one of the many parts of equal size of a G1 heap.
//!
//! # What happens when
//! 1. `Agent_OnLoad` (`-agentpath:`, at start): events are asked for. `VMInit`: the rest, as in 2.
//! 2. `Agent_OnAttach` (in a running machine): unless this process has a page already, the machine's
//!    tables are read, the page is made, events begin.
//! 3. Each pause: the signal is read at its start and at its end, unless that is dear and was done just
//!    before; then free memory is given back if that is wished; then the page is written.
//! 4. `Agent_OnAttach` with the option `collect`: the whole heap is collected, at the adapter's wish.
//! 5. `Agent_OnAttach` with `count`: the bytes that are allocated are counted, and the heap is collected when
//!    they fill it to the adapter's bound; until `uncount`.
//! 6. `VMDeath`, `Agent_OnUnload`: nothing more is done.
//!
//! # Modules
//! [`callbacks`]: the functions that the machine calls. [`jvmti`]: its interface. [`panic_guard`]: panics
//! stay here, one thread at a time. [`nested_pauses`]: pauses within others. [`page`]: the memory file.
//! [`machine`]: the tables for debuggers. [`counters`]: the kinds of pauses. [`heap`]: giving back, and why
//! that is safe, for Serial and Parallel by [`spaces`], for G1 by [`regions`]; [`layout`]: where regions are
//! described; [`byte_trigger`]: collections at a bound; [`retained_free`]: how much is kept; [`ranges`]:
//! mappings and resident pages.
//! [`stall_signal`]: stalls and faults; [`time_budget`]: how often they are read. [`pauses`]: joins these
//! within a pause. [`polling_thread`]: a thread, for concurrent collectors. [`fuzz`]: for fuzzers.

pub mod byte_trigger;
pub mod callbacks;
pub mod counters;
#[cfg(test)]
mod fake_heap;
pub mod fuzz;
pub mod heap;
pub mod jvmti;
pub mod layout;
pub mod machine;
pub mod nested_pauses;
pub mod page;
pub mod panic_guard;
pub mod pauses;
pub mod polling_thread;
pub mod ranges;
pub mod regions;
pub mod retained_free;
pub mod spaces;
pub mod stall_signal;
pub mod time_budget;
