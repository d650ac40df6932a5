//! The client library, with which a program (or its adapter) follows the broker's numbers.
//!
//! ```no_run
//! use plimsoll_client::{Bytes, Event, Principal};
//! use std::time::Duration;
//!
//! let principal = Principal::builder("my-cache").weight(50).adapter("self").open()?;
//! let mut cache: Vec<Vec<u8>> = Vec::new();
//! loop {
//!     match principal.wait(Duration::from_secs(60)) {
//!         Event::Owed(now) => {
//!             let mut freed = 0;
//!             while freed < now.owed
//!                 && let Some(entry) = cache.pop()
//!             {
//!                 freed += entry.capacity() as u64;
//!             }
//!             principal.released(Bytes(freed));
//!         }
//!         event => println!("may use {} bytes now", event.reading().limit),
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), plimsoll_client::Error>(())
//! ```
//!
//! Reading the numbers ([`Principal::read`]) takes a few loads and cannot fail. While no broker
//! runs the numbers come from local sensing ([`Source::Local`]), and from the broker again once it
//! is back. Every wait for a broker is bounded.
//!
//! # Glossary
//! - **principal**: the unit to which memory is accounted: a process with its descendants, or a
//!   group.
//! - **window**: the one address at which a principal's numbers are read.
//! - **control**: the connection that registered a principal. The principal ends with it.
//! - **stream**: a second connection on which the broker tells of changes.
//! - **joined**: a broker knows the principal; the opposite is **alone**.
//! - **watcher**: the one thread of a principal. It keeps the connections, senses when alone, and
//!   rejoins.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `principal` | a principal: registered with a broker, or on its own |
//! | `adaptive` | calls a function with the bytes that may be used now |
//! | `adapter_link` | the principal that the environment names, for adapters inside of a program |
//! | [`govern`] | what a limit means inside a program: heap, releases, reports |
//! | `ghost` | what more memory would be worth to a cache |
//! | `reading`, `page_mapping` | the numbers, and the address at which they are read |
//! | `connection`, `socket` | calls with deadlines; the places of a broker's socket |
//! | `local` | what a program may use while it has no broker |
//! | `sigbus`, `thread` | the handler of SIGBUS; threads that do not disturb the host program |
//! | `error` | what can go wrong |
//!
//! # What it does to a program
//! Loading it does nothing. A joined principal has one thread (256 KiB of stack, all signals
//! blocked but faults), at most five descriptors (all closed on exec), and two pages. It changes
//! the disposition of one signal, SIGBUS, while a broker's page is mapped. Faults outside that page
//! go to the previous handler. [`Builder::guard`] turns this off.

mod adapter_link;
mod adaptive;
mod connection;
mod error;
mod ghost;
pub mod govern;
mod local;
mod page_mapping;
mod principal;
mod reading;
mod sigbus;
mod socket;
mod thread;

pub use adapter_link::{Follower, Granted};
pub use adaptive::Adaptive;
pub use connection::{Connection, Stream, TIMEOUT};
pub use error::{Error, Result};
pub use ghost::Ghost;
pub use plimsoll_unit::{Bytes, Nanos};
pub use plimsoll_wire::messages;
pub use plimsoll_wire::page::{Level, Numbers};
pub use plimsoll_wire::varlink::{ErrorName, WireError};
pub use principal::{Builder, Principal};
pub use reading::{Event, Reading, Source};
pub use socket::{SYSTEM, Socket, Surroundings};
pub use thread::spawn as spawn_quiet;
