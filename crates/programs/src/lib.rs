//! Recognises programs from outside: which runtime manages a program's memory, and where its files and tables
//! are. Nothing of a program is touched.
//!
//! | word | meaning |
//! |---|---|
//! | *runtime* | the manager of a program's memory: `HotSpot`, libgc, or something else |
//! | *evidence* | a command line before the start ([`Command`]), a process after it ([`Candidate`]) |
//! | *recogniser* | tells one runtime by evidence ([`Recognise`]); each runtime has one |
//! | *launcher* | the file that starts a Java virtual machine: `bin/java` |
//!
//! A crate that does something with a runtime implements a trait of its own for the recogniser: the crate
//! `runtimes` steers, the crate `map` labels memory.
//!
//! # Map
//! Each imports only from those before it.
//!
//! | module | is |
//! |---|---|
//! | [`start_environment`] | where a program starts |
//! | [`foreign_files`], [`privileges`] | files that others own; programs with more rights than their user |
//! | [`mapped`] | opens the file of a mapping |
//! | [`command`], [`candidate`] | the evidence |
//! | [`elf`] | programs and libraries: as files, and as a process has mapped them |
//! | [`recognise`] | the trait |
//! | [`java`] | installations of Java |
//! | [`hotspot`], [`openj9`], [`native_image`], [`libgc`], [`go`], [`cpython`], [`v8`] | the runtimes |
//! | [`cache_server`] | servers with a cache in memory: Redis, Valkey, memcached |
//! | [`example`] | the worked one, of no use |

pub mod cache_server;
pub mod candidate;
pub mod command;
pub mod cpython;
pub mod elf;
pub mod example;
pub mod foreign_files;
pub mod go;
pub mod hotspot;
pub mod java;
pub mod libgc;
pub mod mapped;
pub mod native_image;
pub mod openj9;
pub mod privileges;
pub mod recognise;
pub mod start_environment;
pub mod v8;

pub use candidate::Candidate;
pub use command::Command;
pub use recognise::Recognise;
pub use start_environment::Setting;

/// The runtimes that an adapter of ours steers: a rule of the broker may name them. The crate `runtimes` has
/// their adapters.
pub const STEERED: &[&dyn Recognise] = &[
    &hotspot::HotSpot,
    &libgc::LibGc,
    &cache_server::Redis,
    &cache_server::Memcached,
];
