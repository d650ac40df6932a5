//! Servers that keep a cache in their memory: Redis and Valkey, and memcached. Each is asked and told by
//! its own protocol, at a socket that the kernel shows: nothing has to be configured.
//!
//! No crate is used for the protocols. There are five commands, and each needs a bound of its time and of its
//! answer. The crate `redis` (1.8.1 without its features) brings 43 others, most of them for the parsing of
//! addresses, and takes replies of 512 MB.
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
use plimsoll_unit::{Bytes, KIB};
use std::ffi::OsString;

/// The variable by which glibc is told from which size on memory is mapped, and goes back when it is freed. A
/// number also keeps glibc from raising it (mallopt(3), `M_MMAP_THRESHOLD`).
const MMAP_THRESHOLD: &str = "MALLOC_MMAP_THRESHOLD_";
/// The size that glibc begins with.
const MMAPPED: Bytes = Bytes(128 * KIB);

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

    /// Without the variable, glibc takes pages from its heap once it has freed one, and gives those that are
    /// freed later back to nobody.
    fn prepare(&self, start: &Start<'_>) -> Addition {
        let is_given = (start.command.setting.variables)(MMAP_THRESHOLD).is_some();
        let variable = (!is_given).then(|| {
            let value = MMAPPED.0.to_string();
            (OsString::from(MMAP_THRESHOLD), OsString::from(value))
        });
        Addition {
            notes: variable
                .iter()
                .map(|_| format!("memcached: {MMAP_THRESHOLD}={}", MMAPPED.0))
                .collect(),
            environment: variable.into_iter().collect(),
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
