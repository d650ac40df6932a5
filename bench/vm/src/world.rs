//! Stopping and resuming the threads of the program.
//!
//! The order, held by one lock:
//! 1. A thread [`enter`]s, and counts as running from then on.
//! 2. A collector [`stop`]s the world: sets the flag, and waits until none runs.
//! 3. A running thread sees the flag at its next [`safepoint`], or waits for a collection itself
//!    ([`wait`]): it counts as stopped until the *epoch* has changed and the flag is down. A flag
//!    alone would not do: the next collection may raise it before the thread has seen it fall.
//! 4. The collector [`resume`]s: a new epoch, flag down.
//! 5. A thread [`leave`]s, while the world is not stopped.

use mmtk::util::VMMutatorThread;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct World {
    /// Threads that may touch the heap.
    running: usize,
    /// Counts resumes.
    epoch: u64,
    /// Whether a collector wants the world stopped, or has it stopped.
    stopping: bool,
    /// As MMTk calls them. A thread stays until it leaves.
    threads: Vec<VMMutatorThread>,
}

static WORLD: Mutex<World> = Mutex::new(World {
    running: 0,
    epoch: 0,
    stopping: false,
    threads: Vec::new(),
});
/// The same as `World::stopping`, to be read at each safepoint without the lock.
static STOPPING: AtomicBool = AtomicBool::new(false);
/// Told when a thread stops, and when the world is resumed.
static STOPPED: Condvar = Condvar::new();
static RESUMED: Condvar = Condvar::new();

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sleep<'a>(on: &Condvar, world: MutexGuard<'a, World>) -> MutexGuard<'a, World> {
    on.wait(world).unwrap_or_else(PoisonError::into_inner)
}

/// A thread comes in. `make` makes it, while no collection is under way.
pub(crate) fn enter(make: impl FnOnce() -> VMMutatorThread) -> VMMutatorThread {
    let mut world = world();
    while world.stopping {
        world = sleep(&RESUMED, world);
    }
    world.running += 1;
    let thread = make();
    world.threads.push(thread);
    thread
}

/// A thread goes. `end` ends it, while no collection is under way.
pub(crate) fn leave(thread: VMMutatorThread, end: impl FnOnce()) {
    safepoint();
    let mut world = world();
    // As a running thread it holds up every collection, so none is under way.
    end();
    world.threads.retain(|&one| one != thread);
    world.running -= 1;
    STOPPED.notify_all();
}

/// Stops here if a collector wants it.
#[inline]
pub(crate) fn safepoint() {
    if STOPPING.load(Ordering::Relaxed) {
        pause(false);
    }
}

/// Waits for a collection that was requested.
pub(crate) fn wait() {
    pause(true);
}

fn pause(requested: bool) {
    let mut world = world();
    if !requested && !world.stopping {
        return;
    }
    let epoch = world.epoch;
    world.running -= 1;
    STOPPED.notify_all();
    while world.epoch == epoch || world.stopping {
        world = sleep(&RESUMED, world);
    }
    world.running += 1;
}

/// Does something outside of the heap, for example waits, while collections may run. `act` must not
/// touch objects.
pub(crate) fn outside<T>(act: impl FnOnce() -> T) -> T {
    {
        let mut world = world();
        world.running -= 1;
        STOPPED.notify_all();
    }
    let result = act();
    let mut world = world();
    while world.stopping {
        world = sleep(&RESUMED, world);
    }
    world.running += 1;
    result
}

/// Stops all threads, then returns them.
pub(crate) fn stop() -> Vec<VMMutatorThread> {
    let mut world = world();
    world.stopping = true;
    STOPPING.store(true, Ordering::Relaxed);
    while world.running > 0 {
        world = sleep(&STOPPED, world);
    }
    world.threads.clone()
}

/// Lets all threads go on.
pub(crate) fn resume() {
    let mut world = world();
    world.epoch += 1;
    world.stopping = false;
    STOPPING.store(false, Ordering::Relaxed);
    RESUMED.notify_all();
}

/// The threads. Called by collectors while the world is stopped.
pub(crate) fn threads() -> Vec<VMMutatorThread> {
    world().threads.clone()
}

/// How often the world was resumed.
pub(crate) fn pauses() -> u64 {
    world().epoch
}
