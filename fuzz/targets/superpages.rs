//! Reads bytes as a sequence of actions of a program and of the kernel on a heap, and compares the heap with
//! the model of its own tests.

#![no_main]
#![allow(dead_code, reason = "the model has more than is used here")]

#[path = "../../crates/heap/tests/heap/kernel.rs"]
mod kernel;
#[path = "../../crates/heap/tests/heap/world.rs"]
mod world;

use plimsoll_unit::index::MIB;
use kernel::{Fake, Pages};
use plimsoll_heap::mark::{Marker, NoTracer};
use plimsoll_heap::os::{Call, FaultInjection};
use plimsoll_heap::{Exhausted, LARGEST_SMALL, SUPERPAGE};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use world::World;

/// Size of the heap's address range, bytes.
const MOST: usize = 16 * MIB;
/// Most actions from one input: longer sequences take long and find nothing more.
const STEPS: usize = 200;

/// The bytes of an input, followed by zeros without end.
struct Input<'a>(std::slice::Iter<'a, u8>);

impl Input<'_> {
    fn byte(&mut self) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0))
    }

    fn word(&mut self) -> usize {
        self.byte() << 8 | self.byte()
    }

    fn pick(&mut self, world: &World) -> Option<usize> {
        let count = world.objects.len().max(1);
        world.objects.keys().nth(self.word() % count).copied()
    }
}

fn allocate(world: &mut World, input: &mut Input<'_>) {
    let how = input.byte();
    let kind = [world.words, world.words, world.opaque, world.kept][how % 4];
    let bytes = match how / 4 % 8 {
        0..6 => input.byte(),
        6 => input.word() % (LARGEST_SMALL + 1),
        _ => LARGEST_SMALL + input.byte() * 300,
    };
    match world.allocate(kind, bytes) {
        Ok(start) if how & 64 == 0 => world.roots.push(start),
        Ok(_) | Err(Exhausted::Limit | Exhausted::Memory) => {}
    }
}

fn evict(world: &World, pages: &Pages, pattern: usize) {
    let range = world.heap.range();
    for at in (0..range.len() / SUPERPAGE).filter(|at| pattern >> (at % 16) & 1 != 0) {
        let start = range.start + at * SUPERPAGE;
        pages.evict(start..start + SUPERPAGE);
    }
}

fn step(
    world: &mut World,
    marker: &mut Marker<'_>,
    pages: &Pages,
    refused: &AtomicU32,
    input: &mut Input<'_>,
) {
    match input.byte() % 16 {
        0..6 => allocate(world, input),
        6..10 => {
            if let (Some(from), Some(to)) = (input.pick(world), input.pick(world))
                && world.objects[&from].kind != world.opaque
            {
                world.write(from, input.byte() % 32, to);
            }
        }
        10 if !world.roots.is_empty() => {
            let at = input.word() % world.roots.len();
            world.roots.swap_remove(at);
        }
        11 => {
            if let Some(start) = input.pick(world) {
                world.free(start);
            }
        }
        12 => evict(world, pages, input.word()),
        13 => refused.store(input.word() as u32, SeqCst),
        14 => {
            world.central.give_back(world.heap, input.byte());
            world.heap.cool(&world.central);
        }
        _ => {
            let how = input.byte();
            world.complete = how.is_multiple_of(8);
            match how % 8 {
                1 => world.young = !world.young,
                2 | 3 => return world.step(marker),
                4 => world.give_up(),
                5 => world.page_out = how / 8,
                _ => {}
            }
            world.collect(marker);
        }
    }
}

fn run(bytes: &[u8]) {
    let mut input = Input(bytes.iter());
    let (fake, pages) = Fake::new(MOST);
    // A bit for each kind of call that the kernel refuses now.
    let refused = Arc::new(AtomicU32::new(0));
    let ours = refused.clone();
    let refuses = move |call: Call| ours.load(SeqCst) >> call as u32 & 1 != 0;
    let mut world = World::over(Box::new(FaultInjection::new(fake, refuses)), MOST);
    let room = 1 + input.byte() % 64;
    let mut marker = Marker::with_room(world.heap, &NoTracer, room).expect("addresses");
    let mut left = STEPS;
    while left > 0 && input.0.len() > 0 {
        step(&mut world, &mut marker, &pages, &refused, &mut input);
        left -= 1;
    }
    world.collect(&mut marker);
    drop(marker);
    // SAFETY: neither heap nor marker are used any more.
    unsafe { pages.unmap() };
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes));
