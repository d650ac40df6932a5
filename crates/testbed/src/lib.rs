//! Support for tests and measurements: guards that clean up even on a panic (and sweep up after a
//! predecessor that was killed), programs that misbehave on purpose, and guests. Only tests and
//! `bench` import it, no room of the product.
//!
//! # Glossary
//! - *ground*: a cgroup, a swap file; gone when its guard is dropped.
//! - *program*: takes, touches or shares memory as its arguments say. It is `plimsoll-misbehave`,
//!   or a test's own binary, started again.
//! - *guest*: an emulated machine with cgroup version 2.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `cgroup`, `swap`, `tmpfs`, `disk`, `fuse` | grounds |
//! | [`programs`], `files`, `threads` | programs; those that read files; those whose threads end |
//! | `options`, `memory` | their arguments, the memory that they take |
//! | `child`, `progress` | a program that a test started, and its reports |
//! | [`children`] | children in a group of their own, gone with their parent |
//! | [`elf`], [`hsperfdata`] | files that are made up for readers: programs; counters of a JVM |
//! | [`cargo`], [`java`] | builds for a test by cargo; the JDKs that are here, and programs for them |
//! | [`cases`] | the part of a test's cases that `make test` runs |
//! | [`guest`] | a guest that boots into one of our programs |
//! | `python` | Python with our modules |
//! | [`counting`] | an allocator that counts |
//! | `leaderless` | a process whose first thread has ended |
//! | [`page`] | an availability page that a test writes |
//! | `refuse` | makes the kernel refuse some system calls to a program |
//! | `skip` | tests that cannot run here |

pub mod cargo;
pub mod cases;
mod cgroup;
mod child;
pub mod children;
pub mod counting;
mod disk;
pub mod elf;
mod files;
mod fuse;
pub mod guest;
pub mod hsperfdata;
pub mod java;
mod leaderless;
mod memory;
mod options;
pub mod page;
pub mod programs;
mod progress;
mod python;
mod refuse;
mod skip;
mod swap;
mod threads;
mod tmpfs;

pub use cgroup::TestCgroup;
pub use child::Child;
pub use disk::{Disk, Frozen};
pub use fuse::FuseServer;
pub use leaderless::Leaderless;
pub use progress::Progress;
pub use python::python;
pub use refuse::{Refused, allow_only, refuse};
pub use skip::skip;
pub use swap::SwapFile;
pub use tmpfs::Tmpfs;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// `<prefix><pid>-<n>`, different for every call.
fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{}-{n}", std::process::id())
}

/// Whether a name made by [`unique`] belongs to a process that is gone.
fn is_stale(name: &str) -> bool {
    let mut parts = name.rsplit('-');
    let (Some(_n), Some(pid)) = (parts.next(), parts.next()) else {
        return false;
    };
    match pid.parse::<u32>() {
        Ok(pid) => !Path::new("/proc").join(pid.to_string()).exists(),
        Err(_) => false,
    }
}

/// Calls `remove` with each entry of `directory` that a test left when it was killed.
fn sweep(directory: &Path, prefix: &str, remove: impl Fn(&Path)) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let stale = |name: &str| name.starts_with(prefix) && is_stale(name);
        if name.to_str().is_some_and(stale) {
            remove(&entry.path());
        }
    }
}
