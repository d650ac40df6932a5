//! For authors of caches: calls a function with the memory that may be used now.

use crate::{Event, Principal, Reading, Result, thread};
use plimsoll_unit::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The pause between two calls without news while memory is owed.
const AGAIN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// Calls a function at each change, on a thread of its own. Dropping it ends the calls.
///
/// ```no_run
/// use plimsoll_client::{Adaptive, Principal};
/// # use plimsoll_client::Bytes;
/// # struct Cache; impl Cache { fn drop_bytes(&self, owed: Bytes) -> Bytes { owed } }
/// # let cache = Cache;
/// let principal = Principal::builder("my-cache").adapter("self").open()?;
/// let adaptive = Adaptive::on_change(principal, move |_limit, owed| cache.drop_bytes(owed))?;
/// // Before the cache grows by `bytes`:
/// # let bytes = 1;
/// let now = adaptive.principal().read();
/// let may_grow = now.uses + bytes <= now.limit;
/// # Ok::<(), plimsoll_client::Error>(())
/// ```
#[derive(Debug)]
pub struct Adaptive {
    /// Shared with the thread.
    principal: Arc<Principal>,
    /// Set when this is dropped; the thread ends then.
    stop: Arc<AtomicBool>,
    /// The thread that calls the function, until it is joined.
    thread: Option<JoinHandle<()>>,
}

impl Adaptive {
    /// Calls `change(limit, owed)` once at the start, at each change, and each
    /// second while memory is owed. `change` frees what is owed and nothing more: the limit is that of
    /// the whole program, and what is owed is already the part of its use that is above. It returns
    /// how much it freed; the broker is told, and they are not owed any more. A panic in it ends
    /// the calls and nothing else.
    ///
    /// # Errors
    /// [`crate::Error::Resource`] when the kernel gives no thread.
    pub fn on_change(
        principal: impl Into<Arc<Principal>>,
        change: impl FnMut(Bytes, Bytes) -> Bytes + Send + 'static,
    ) -> Result<Adaptive> {
        let principal = principal.into();
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, stopped) = (Arc::clone(&principal), Arc::clone(&stop));
        let thread = thread::spawn("plimsoll-adapt", move || run(&theirs, &stopped, change))?;
        Ok(Adaptive {
            principal,
            stop,
            thread: Some(thread),
        })
    }

    /// The principal, to report and to read.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }
}

impl Drop for Adaptive {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.principal.interrupt();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(principal: &Principal, stop: &AtomicBool, mut change: impl FnMut(Bytes, Bytes) -> Bytes) {
    let mut tell = |now: &Reading| {
        let released = change(Bytes(now.limit), Bytes(now.owed));
        if released > Bytes::ZERO {
            principal.released(released);
        }
    };
    tell(&principal.read());
    while !stop.load(Ordering::Acquire) {
        let owes = principal.read().owed > 0;
        let event = principal.wait(if owes { AGAIN } else { LONGEST });
        let quiet = matches!(event, Event::Timeout(_)) && !owes;
        if !quiet && !stop.load(Ordering::Acquire) {
            match event {
                // Memory was given back since the last event, so read again.
                Event::Timeout(_) => tell(&principal.read()),
                event => tell(event.reading()),
            }
        }
    }
}
