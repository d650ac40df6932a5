//! The client: what a program (or its adapter) uses to live by the broker's numbers.
//!
//! ```no_run
//! use plimsoll_client::{Event, Principal};
//! use std::time::Duration;
//!
//! let principal = Principal::builder("my-cache").weight(20).adapter("self").open()?;
//! let mut cache: Vec<Vec<u8>> = Vec::new();
//! loop {
//!     match principal.wait(Duration::from_secs(60)) {
//!         Event::Owed(now) => {
//!             let before = cache.len();
//!             cache.truncate(before / 2);
//!             principal.released(now.owed);
//!         }
//!         event => println!("may use {} bytes now", event.reading().limit),
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), plimsoll_client::Error>(())
//! ```
//!
//! Reading the numbers ([`Principal::read`]) is a handful of loads and cannot fail. Where no broker
//! runs, or when it dies, the numbers come from local sensing at once ([`Source::Local`]), and from
//! the broker again when it is back. Nothing here waits for a broker without a bound.
//!
//! # Glossary
//! - **principal**: whoever memory is accounted to: a process with its descendants, or a group.
//! - **window**: the one address at which a principal's numbers are read.
//! - **control**: the connection that registered a principal; its end is the principal's end.
//! - **stream**: a second connection on which the broker tells of changes.
//! - **joined**: a broker knows the principal; the opposite is **alone**.
//! - **watcher**: the one thread of a principal: keeps the connections, senses when alone, rejoins.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `principal` | a principal: registered with a broker, or on its own |
//! | `adaptive` | one function that is called with what may be used now |
//! | `follow` | the principal that the environment names, for adapters inside of a program |
//! | `reading`, `window` | what is read, and the address at which it is read |
//! | `connection`, `socket` | calls with deadlines; where a broker's socket can be |
//! | `local` | what a program may use when nobody tells it |
//! | `guard`, `thread` | the handler of SIGBUS; threads that a host does not notice |
//! | `error` | what can go wrong |
//!
//! # What it does to a program
//! Nothing when it is loaded. A joined principal has one thread (256 KiB of stack, all signals
//! blocked but faults), at most five descriptors (all closed on exec), and two pages. The only signal
//! disposition that it touches is SIGBUS's, while a broker's page is mapped, and what is not ours goes
//! to the handler that was there ([`Builder::guard`] turns it off).

mod adaptive;
mod connection;
mod error;
mod follow;
mod guard;
mod local;
mod principal;
mod reading;
mod socket;
mod thread;
mod window;

pub use adaptive::Adaptive;
pub use connection::{Connection, Stream, TIMEOUT};
pub use error::{Error, Result};
pub use follow::{Follower, Granted};
pub use plimsoll_wire::messages;
pub use plimsoll_wire::page::{Level, Numbers};
pub use plimsoll_wire::varlink::{ErrorName, WireError};
pub use principal::{Builder, Principal};
pub use reading::{Event, Reading, Source};
pub use socket::{SYSTEM, Socket, Surroundings};
