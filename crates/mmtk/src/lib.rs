//! Heap sizing for [MMTk](https://www.mmtk.io): a trigger of collections that any binding of a virtual
//! machine can use. The heap's limit is the smaller of two: what a broker grants, and what Isla Vista
//! finds (Grzegorczyk, Soman, Krintz and Wolski), which shrinks the heap when the kernel makes the
//! program wait for memory. Either works without the other.
//!
//! A binding needs two lines: the option `gc_trigger` is `Delegated`, and
//!
//! ```no_run
//! use mmtk::util::heap::GCTriggerPolicy;
//! use mmtk::vm::VMBinding;
//! use plimsoll_mmtk::{Builder, Bytes, Trigger};
//!
//! // In `impl Collection<MyVm>`.
//! fn create_gc_trigger<MyVm: VMBinding>() -> Box<dyn GCTriggerPolicy<MyVm>> {
//!     let sizer = Builder::new().max(Bytes::mib(512)).open().expect("a heap of at least 8 MiB");
//!     Box::new(Trigger::new(sizer))
//! }
//! ```
//!
//! and [`Control::ready`] right after `initialize_collection`: until then no bound and no wish counts.
//!
//! `docs/src/mmtk.md` is the guide, and `bench/vm` a complete binding that uses it.
//!
//! # Glossary
//! - **limit**: bytes that the heap may reserve before MMTk collects.
//! - **reserved**: bytes that MMTk counts: in use, what a copying collection needs, an estimate of
//!   side metadata, and what the runtime reports by `vm_live_bytes`.
//! - **bound**: a broker's limit for the heap: what it grants the process, less what the process has
//!   beside the heap.
//! - **floor**: what the heap needs to go on; neither the bound nor the policy go below it.
//! - **maximum**: the largest limit ever. A heap that needs more is out of memory.
//! - **pending**: bytes for which threads of the program wait.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `sizer` | decides the limit of one heap; no type of MMTk |
//! | `control` | what the runtime may ask and do |
//! | `limits` | the arithmetic around a policy of `plimsoll_policy::sizing`; pure |
//! | `shared` | the numbers that hooks, companion and runtime share |
//! | `stall_signal` | the stalls of this process |
//! | `companion` | the thread that follows a broker |
//! | [`v0_33`] | the adapter for MMTk 0.33: another version of MMTk is another module |
//! | `error` | what can go wrong |

mod companion;
mod control;
mod error;
mod limits;
mod shared;
mod sizer;
mod stall_signal;
pub mod v0_33;

pub use control::{Control, Figures};
pub use error::{Error, Result};
pub use plimsoll_policy::sizing;
pub use plimsoll_unit::{Bytes, Nanos};
pub use sizer::{After, Builder, Decision, Free, Sizer};
pub use v0_33::Trigger;

/// When free memory of the heap is given back to the kernel. MMTk itself never gives any back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GiveBack {
    /// Never.
    Never,
    /// After a collection since whose predecessor the kernel made the program wait, or if the heap
    /// may have much more resident than its limit. Then free memory would only be written to swap. After a
    /// collection of a nursery, only spaces that are empty as a whole.
    #[default]
    WhenShort,
    /// After each collection of the whole heap: for runtimes that are mostly idle.
    AfterFull,
}
