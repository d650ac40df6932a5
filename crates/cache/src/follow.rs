//! The size that a cache may have now, and the thread that sets it.

use crate::entries::Resizable;
use plimsoll_client::{Bytes, Numbers, Principal, Result, messages, spawn_quiet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks, where nothing happens.
const PACE: Duration = Duration::from_millis(100);
/// Time between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// One part in this many of the memory that the program may still use is left to the rest of it.
const LEFT: u64 = 8;

/// Bytes that a cache of `size` bytes may have by these numbers of its program, at most `most`.
fn capacity(now: &Numbers, size: u64, most: u64) -> u64 {
    let wanted = if now.owed > 0 {
        size.saturating_sub(now.owed)
    } else {
        let room = now.limit.saturating_sub(now.uses);
        size.saturating_add(room - room / LEFT)
    };
    wanted.min(most)
}

/// Resizes a cache until it is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    /// Shared with the thread.
    principal: Arc<Principal>,
    /// Set when this is dropped; the thread ends then.
    stop: Arc<AtomicBool>,
    /// The thread, until it is joined.
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub(crate) fn start(
        principal: Arc<Principal>,
        most: u64,
        cache: Arc<impl Resizable + 'static>,
    ) -> Result<Follower> {
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, stopped) = (Arc::clone(&principal), Arc::clone(&stop));
        let run = move || run(&theirs, &stopped, most, &*cache);
        Ok(Follower {
            thread: Some(spawn_quiet("plimsoll-cache", run)?),
            principal,
            stop,
        })
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.principal.interrupt();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(principal: &Principal, stop: &AtomicBool, most: u64, cache: &impl Resizable) {
    let mut reported: Option<Instant> = None;
    while !stop.load(Ordering::Acquire) {
        let now = principal.read().numbers;
        let before = cache.size();
        cache.resize(capacity(&now, before, most));
        if now.owed > 0 {
            give_back();
            let freed = before.saturating_sub(cache.size());
            principal.released(Bytes(freed));
        }
        if reported.is_none_or(|last| last.elapsed() >= REPORT_EVERY) {
            reported = Some(Instant::now());
            principal.report(&report(&now, cache, most));
        }
        principal.wait(PACE);
    }
}

/// The report to the broker. If the cache is empty, the rest of the program stays: that is its floor.
fn report(now: &Numbers, cache: &impl Resizable, most: u64) -> messages::Report {
    let beside = now.uses.saturating_sub(cache.size());
    messages::Report {
        demand: (most < u64::MAX).then(|| beside.saturating_add(most)),
        floor: Some(beside),
        worth: cache.worth(),
        ..messages::Report::default()
    }
}

/// Has the allocator give freed memory back to the kernel.
fn give_back() {
    // SAFETY: the function takes the allocator's own locks, and may be called on any thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(limit: u64, uses: u64, owed: u64) -> Numbers {
        Numbers {
            limit,
            uses,
            owed,
            ..Numbers::default()
        }
    }

    #[test]
    fn it_grows_by_what_is_granted_and_gives_back_what_is_owed() {
        assert_eq!(capacity(&numbers(1000, 200, 0), 100, u64::MAX), 800);
        assert_eq!(capacity(&numbers(1000, 1000, 0), 100, u64::MAX), 100);
        assert_eq!(capacity(&numbers(1000, 1300, 300), 500, u64::MAX), 200);
        assert_eq!(capacity(&numbers(1000, 2000, 1000), 500, u64::MAX), 0);
        assert_eq!(
            capacity(&numbers(1000, 0, 0), 0, 64),
            64,
            "no more than that"
        );
        assert_eq!(
            capacity(&numbers(u64::MAX, 0, 0), u64::MAX, u64::MAX),
            u64::MAX
        );
    }
}
