//! The programs that run on the machine, and what they share.

mod fork;
mod gcbench;
mod live;
pub(crate) mod traps;

pub(crate) use fork::fork;
pub(crate) use gcbench::gcbench;
pub(crate) use live::live;

use crate::object::Shape;
use crate::thread::{Attached, Thread};
use crate::world;
use mmtk::util::ObjectReference;
use std::sync::atomic::{AtomicU64, Ordering};

/// A node of a tree: two children, two words.
const NODE: Shape = Shape { slots: 2, words: 2 };

/// The work of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// A number that must be the same under every plan and size of heap.
    pub(crate) checked: u64,
    /// Allocations that failed because memory was out.
    pub(crate) failed: u64,
}

impl Work {
    /// The work of several threads, together.
    fn and(self, other: Work) -> Work {
        Work {
            checked: self.checked.wrapping_add(other.checked),
            failed: self.failed + other.failed,
        }
    }
}

/// Runs a program on several threads, and adds up what they did.
fn on_threads(threads: u32, program: impl Fn(&mut Thread, u32) -> Option<u64> + Sync) -> Work {
    let run = |index| {
        let mut thread = Attached::new();
        match program(&mut thread, index) {
            Some(checked) => Work { checked, failed: 0 },
            None => Work {
                checked: 0,
                failed: 1,
            },
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|index| scope.spawn(move || run(index)))
            .collect();
        let done = running
            .into_iter()
            .map(|one| one.join().unwrap_or_default());
        done.fold(Work::default(), Work::and)
    })
}

/// Keeps one object alive: MarkCompact of MMTk 0.33 miscounts a heap in which none is. A benchmark needs
/// it: one of its threads may end, and leave a full heap, before the next has made its first object.
#[derive(Debug)]
pub(crate) struct Keeper(Attached);

impl Keeper {
    /// A keeper of the calling thread, made before the heap can be full.
    pub(crate) fn new() -> Keeper {
        let mut thread = Attached::new();
        keep_one(&mut thread);
        Keeper(thread)
    }

    /// Runs a program whose threads are others.
    pub(crate) fn beside<T>(&self, program: impl FnOnce() -> T) -> T {
        world::outside(program)
    }

    /// Collects the whole heap, as often as asked.
    pub(crate) fn collect(&self, times: u32) {
        for _ in 0..times {
            crate::vm::mmtk().handle_user_collection_request(self.0.name(), true, true);
        }
    }
}

fn keep_one(thread: &mut Thread) {
    if let Some(object) = thread.allocate(NODE) {
        thread.push(object);
    }
}

/// A tree of this depth, made from its leaves up; not rooted. `None` when memory is out.
fn tree(thread: &mut Thread, depth: u32) -> Option<ObjectReference> {
    if depth == 0 {
        return thread.allocate(NODE);
    }
    let left = tree(thread, depth - 1)?;
    thread.push(left);
    let right = tree(thread, depth - 1)?;
    thread.push(right);
    let node = thread.allocate(NODE)?;
    let (right, left) = (thread.pop(), thread.pop());
    thread.write(node, 0, Some(left));
    thread.write(node, 1, Some(right));
    Some(node)
}

/// The nodes of a tree. Nothing is allocated, so nothing moves.
fn nodes(thread: &Thread, node: ObjectReference) -> u64 {
    let child = |index| {
        thread
            .read(node, index)
            .map_or(0, |child| nodes(thread, child))
    };
    1 + child(0) + child(1)
}

/// Sleeps while collections may run.
fn sleep(time: std::time::Duration) {
    world::outside(|| std::thread::sleep(time));
}

/// A generator of numbers that need not be good (xorshift of 64 bits).
#[derive(Debug)]
struct Numbers(u64);

impl Numbers {
    /// Below a bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}

/// Bytes allocated by [`churn`] so far.
static CHURNED: AtomicU64 = AtomicU64::new(0);

/// Allocates short-lived trees until `stop` says so; `None` when memory is out.
fn churn(thread: &mut Thread, mut stop: impl FnMut() -> bool) -> Option<()> {
    const DEPTH: u32 = 8;
    while !stop() {
        tree(thread, DEPTH)?;
        let bytes = ((2 << DEPTH) - 1) * NODE.bytes() as u64;
        CHURNED.fetch_add(bytes, Ordering::Relaxed);
    }
    Some(())
}
