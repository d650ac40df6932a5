//! What tests and measurements stand on: guards that clean up even on panic (and sweep up after a
//! predecessor that was killed), programs that misbehave on purpose, and guests. No room of the
//! product imports it; tests do, and `bench`.
//!
//! # Glossary
//! - *ground*: a cgroup, a swap file; gone when its guard is dropped.
//! - *program*: one that takes, touches or shares memory as it is told: `plimsoll-misbehave`, or a
//!   test's own binary, started again.
//! - *guest*: an emulated machine with cgroup version 2.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `cgroup`, `swap` | grounds |
//! | [`programs`], `options`, `memory` | programs: what each does, its arguments, the memory that it takes |
//! | `child`, `progress` | a program that a test started, and what it tells of itself |
//! | [`children`] | children in a group of their own, gone with their parent |
//! | [`guest`] | a guest that boots into a program of ours |
//! | [`page`] | an availability page that says what a test says |
//! | `refuse` | a program that the kernel refuses what others would do for it |
//! | `skip` | tests that cannot run here |

mod cgroup;
mod child;
pub mod children;
pub mod guest;
mod memory;
mod options;
pub mod page;
pub mod programs;
mod progress;
mod refuse;
mod skip;
mod swap;

pub use cgroup::TestCgroup;
pub use child::Child;
pub use progress::Progress;
pub use refuse::{Refused, allow_only, refuse};
pub use skip::skip;
pub use swap::SwapFile;

use std::sync::atomic::{AtomicU32, Ordering};

/// `<prefix><pid>-<n>`, different for every call.
fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{}-{n}", std::process::id())
}

/// Whether a name made by [`unique`] belongs to a process that is no more.
fn is_stale(name: &str) -> bool {
    let mut parts = name.rsplit('-');
    let (Some(_n), Some(pid)) = (parts.next(), parts.next()) else {
        return false;
    };
    match pid.parse::<u32>() {
        Ok(pid) => !std::path::Path::new("/proc").join(pid.to_string()).exists(),
        Err(_) => false,
    }
}
