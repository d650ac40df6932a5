//! Servers that keep a cache in their memory: Redis and Valkey, and memcached. Each is asked and told by
//! its own protocol, at a socket that the kernel shows: nothing has to be configured.
//!
//! No crate is used for the protocols. We need five commands, and for each a bound of its time and of its
//! answer. The crate `redis` (1.0 without its features) brings the parser of URLs and 20 crates more, and
//! takes replies of 512 MB.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `connection`, `session` | a connection with bounds; questions, one after another |
//! | `reach` | where a process takes connections |
//! | `resp`, `text` | the protocols of Redis and of memcached |
//! | `effort`, `reaction` | whether dropped data come back as memory, and how fast |
//! | `maxmemory`, `slabs` | the decisions for Redis and for memcached, without clock and without I/O |
//! | `info`, `password`, `client`, `note`, `redis` | Redis: its account of itself, and its lever |
//! | `memcached` | the lever of memcached |

mod client;
mod connection;
mod effort;
mod info;
mod maxmemory;
mod memcached;
mod note;
mod password;
mod reach;
mod reaction;
mod redis;
mod resp;
mod session;
mod slabs;
#[cfg(test)]
mod tests;
mod text;

use crate::adapter_lock::AdapterLock;
use crate::lever_options::{Choice, LeverOption};
use crate::process::Process;
use crate::runtime::{Addition, Runtime, Start, Steered};
pub use plimsoll_programs::cache_server::{Memcached, Redis};

impl Runtime for Redis {
    fn choices(&self) -> &'static [Choice] {
        &[Choice {
            name: "redis",
            help: "A Redis or Valkey server that is a cache: its maxmemory follows the limit",
        }]
    }

    fn options(&self) -> &'static [LeverOption] {
        &[password::PASSWORD_FILE]
    }

    /// Nothing is added: all is done while it runs.
    fn prepare(&self, _start: &Start<'_>) -> Addition {
        Addition {
            steered: true,
            ..Addition::default()
        }
    }

    fn steered(&self) -> Steered {
        Steered::Outside(redis::begin)
    }

    /// Another adapter may steer the program by now; that one has the lock.
    fn put_back(&self, process: Process, note: &str) -> bool {
        let lock = AdapterLock::of(&process);
        lock.is_ok() && redis::put_back(process, note)
    }
}

impl Runtime for Memcached {
    fn choices(&self) -> &'static [Choice] {
        &[Choice {
            name: "memcached",
            help: "A memcached: its limit follows, and pages of its slabs are freed",
        }]
    }

    fn prepare(&self, _start: &Start<'_>) -> Addition {
        Addition {
            steered: true,
            ..Addition::default()
        }
    }

    fn steered(&self) -> Steered {
        Steered::Outside(memcached::begin)
    }

    /// As that of Redis.
    fn put_back(&self, process: Process, note: &str) -> bool {
        let lock = AdapterLock::of(&process);
        lock.is_ok() && memcached::put_back(process, note)
    }
}
