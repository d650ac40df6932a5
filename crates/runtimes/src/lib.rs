//! Adapters steer unmodified programs so that their memory follows the limits of the broker.
//!
//! | word | meaning |
//! |---|---|
//! | *runtime* | what manages the memory of a program: `HotSpot`, libgc, or something else |
//! | *adapter* | steers one kind of runtime; runs beside or inside the program, never in the broker |
//! | *link* | gives an adapter its limit and takes its reports: a client of the broker, or a script |
//! | *lever* | moves the memory of one running program ([`Lever`](lever::Lever)) |
//! | *uses* | the process's own memory: `RssAnon` + `RssShmem`, bytes |
//! | *native part* | what a managed program uses beside its heap |
//!
//! The trait [`Runtime`] describes a runtime, phase by phase. [`launch::prepare`] prepares a
//! program before it starts, and [`run`] steers it while it runs. Both go through the list [`ALL`].
//!
//! Rooms inside. Each imports only from those before it:
//!
//! - shared by all: [`process`] (what `/proc` tells, from the crate `kernel`), [`lever_options`] (what users
//!   choose of a lever), [`link`] (between adapter and broker), `own_libraries` (our libraries for programs),
//!   `suspended` (processes that stand still), [`adapter_lock`] (one adapter a process), [`family`] (the
//!   processes of a program), [`lever`] (the trait of a runtime that steers), [`runtime`] (the trait of each
//!   runtime), `steer` (the one loop);
//! - the runtimes, a folder or a file each: [`hotspot`], [`openj9`], [`native_image`], [`libgc`],
//!   [`cache_server`] (Redis and memcached), [`passive`] (anything else), and [`example`], which is not in
//!   the list;
//! - [`program_name`]: the name of a program that was given none;
//! - users of the list: [`list`] itself, [`launch`] (what to add before the start), [`adapter`]
//!   (which process is steered, by which runtime), [`client`] (the link to a broker).

pub mod adapter;
pub mod adapter_lock;
pub mod cache_server;
pub mod client;
pub mod example;
pub mod family;
pub mod hotspot;
pub mod launch;
pub mod lever;
pub mod lever_options;
pub mod libgc;
pub mod link;
pub mod list;
pub mod native_image;
pub mod openj9;
mod own_libraries;
pub mod passive;
pub mod program_name;
pub mod runtime;
mod steer;
mod suspended;
#[cfg(test)]
mod testing;

/// The facts that `/proc` tells about a process. Only [`Watched`](process::Watched) holds anything open.
pub mod process {
    pub use plimsoll_kernel::process::{Handle as Process, Image, Status, Watched, place};
}

pub use adapter::run;
pub use link::{Alone, Ended, Link, Options};
pub use list::Runtimes;
pub use runtime::Runtime;

/// The known runtimes, in the order in which they are asked.
pub const ALL: Runtimes = Runtimes(&[
    &openj9::OpenJ9,
    &hotspot::HotSpot,
    &native_image::NativeImage,
    &libgc::LibGc,
    &cache_server::Redis,
    &cache_server::Memcached,
]);
