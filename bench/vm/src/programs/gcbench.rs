//! A benchmark after Ellis, Kovac and Boehm: trees of many sizes that die young, beside a tree and an
//! array that live.

use super::{NODE, Work, nodes, on_threads, tree};
use crate::object::Shape;
use crate::thread::Thread;
use mmtk::util::ObjectReference;

/// Depth of the smallest trees.
const SHALLOW: u32 = 4;
/// Words of the array that lives: 4 MB, a large object.
const ARRAY: u32 = 500_000;

/// Runs it `iterations` times on each thread, with a long-lived tree of this depth.
pub(crate) fn gcbench(threads: u32, depth: u32, iterations: u32) -> Work {
    on_threads(threads, |thread, _| run(thread, depth, iterations))
}

fn run(thread: &mut Thread, depth: u32, iterations: u32) -> Option<u64> {
    // Stretches the heap first, like the original.
    tree(thread, depth + 1)?;
    let living = thread.allocate(NODE)?;
    let living = thread.push(living);
    populate(thread, living, depth)?;
    let array = Shape {
        slots: 0,
        words: ARRAY,
    };
    let array = thread.allocate(array)?;
    let array = thread.push(array);
    let mut checked = 0;
    for _ in 0..iterations {
        for size in (SHALLOW..=depth).step_by(2) {
            // Trees of each size are of as many nodes together.
            let trees = (2u64 << (depth + 1)) / (2 << size);
            for _ in 0..trees.max(1) {
                checked += young(thread, size)?;
            }
        }
    }
    checked += nodes(thread, thread.root(living));
    checked += u64::from(Shape::of(thread.root(array)).words);
    thread.forget(0);
    Some(checked)
}

/// A tree made from the root down, and one made from the leaves up; both are dropped.
fn young(thread: &mut Thread, depth: u32) -> Option<u64> {
    let root = thread.allocate(NODE)?;
    let root = thread.push(root);
    populate(thread, root, depth)?;
    let down = nodes(thread, thread.root(root));
    thread.forget(root);
    let up = tree(thread, depth)?;
    Some(down + nodes(thread, up))
}

/// Gives the node in a root two children, and these theirs.
fn populate(thread: &mut Thread, root: usize, depth: u32) -> Option<()> {
    if depth == 0 {
        return Some(());
    }
    for index in 0..2 {
        let child: ObjectReference = thread.allocate(NODE)?;
        thread.write(thread.root(root), index, Some(child));
        let place = thread.push(child);
        populate(thread, place, depth - 1)?;
        thread.forget(place);
    }
    Some(())
}
