//! Adapters: what steers an unmodified program so that its memory follows the limit it is given.
//!
//! | word | meaning |
//! |---|---|
//! | *runtime* | what manages the memory of a program: `HotSpot`, libgc, or something else |
//! | *adapter* | what steers one kind of runtime; runs beside the program or in it, never in the broker |
//! | *link* | where an adapter reads its limit and leaves its reports: a broker's client, or a script |
//! | *lever* | something that moves a running program's memory: a manageable flag, a collection |
//! | *uses* | the process's own memory: `RssAnon` + `RssShmem`, bytes |
//! | *native part* | what a managed program uses beside its heap |
//!
//! [`Runtime`] says what a runtime is to us, phase by phase. [`launch::prepare`] is asked before a program
//! starts, [`run`] steers it while it runs; both go through [`ALL`].
//!
//! Rooms inside, each importing only from those before it:
//!
//! - what all use: [`setting`] (where a program starts), [`process`] (what `/proc` tells; it stands in
//!   `kernel`), [`link`] (what adapter and surroundings tell each other), `elf` and `privileges`
//!   (executables), `regular` (files that others keep), `still` (processes that stand still), [`family`] (a
//!   program's processes), [`detect`] (what a runtime is recognised by), [`runtime`] (the trait), `java`
//!   (installations of Java);
//! - the runtimes, a folder each: [`hotspot`], [`openj9`], [`native_image`], [`libgc`], [`passive`] (anything
//!   else), and [`example`], which is not in the list;
//! - what goes through them: [`list`], [`launch`] (what to add at the start), [`adapter`] (who steers what),
//!   [`client`] (the link to a broker).

pub mod adapter;
pub mod client;
pub mod detect;
mod elf;
pub mod example;
pub mod family;
pub mod hotspot;
mod java;
pub mod launch;
pub mod libgc;
pub mod link;
pub mod list;
pub mod native_image;
pub mod openj9;
pub mod passive;
mod privileges;
mod regular;
pub mod runtime;
pub mod setting;
mod still;

/// What `/proc` tells of a process, as adapters need it: nothing is held open.
pub mod process {
    pub use plimsoll_kernel::process::{Handle as Process, Status, maps};
}

pub use adapter::run;
pub use link::{Ended, Link, Options};
pub use list::Runtimes;
pub use runtime::Runtime;

/// The runtimes that are known, in the order in which they are asked.
pub const ALL: Runtimes = Runtimes(&[
    &openj9::OpenJ9,
    &hotspot::HotSpot,
    &native_image::NativeImage,
    &libgc::LibGc,
]);
