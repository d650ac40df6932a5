//! The memory that every program has, found in this one.

use crate::common::alone;
use plimsoll_map::{Kind, Look, Options, look};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Addresses in a thread: on its stack, in a small block of malloc, in a large one.
type Places = [u64; 3];

/// A thread that holds memory until the other end of the channel is dropped.
fn hold(tell: &Sender<Places>, end: &Receiver<()>) {
    let small: Vec<Box<[u8; 1000]>> = (0..1000).map(|_| Box::new([7; 1000])).collect();
    let large = vec![7u8; 1 << 20];
    let local = 7u8;
    let places = [
        &raw const local as u64,
        small[500].as_ptr() as u64,
        large.as_ptr() as u64,
    ];
    tell.send(places).unwrap();
    // Returns an error, once the test is over.
    let _ = end.recv();
    assert_eq!(
        small.len() + large.len() + usize::from(local),
        1000 + (1 << 20) + 7
    );
}

fn kind_at(look: &Look, address: u64) -> Kind {
    let mut parts = look.parts.iter();
    let part = parts.find(|part| (part.start..part.end).contains(&address));
    part.expect("it is mapped").kind
}

#[test]
fn stacks_and_malloc_of_threads_are_found() {
    let _one = alone();
    let (tell, told) = channel();
    let mut ends = Vec::new();
    let mut threads = Vec::new();
    for _ in 0..4 {
        let ((end, ended), tell) = (channel(), tell.clone());
        ends.push(end);
        threads.push(std::thread::spawn(move || hold(&tell, &ended)));
    }
    let places: Vec<Places> = (0..4).map(|_| told.recv().unwrap()).collect();
    let options = Options {
        addresses: true,
        ..Options::default()
    };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let seen = look(own, &options);
    drop(ends);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let seen = seen.unwrap();
    for [local, small, large] in places {
        assert_eq!(kind_at(&seen, local), Kind::Stacks);
        assert_eq!(kind_at(&seen, small), Kind::Malloc);
        assert_eq!(kind_at(&seen, large), Kind::Malloc, "{:?}", seen.notes);
    }
    let code = stacks_and_malloc_of_threads_are_found as fn() as usize as u64;
    assert_eq!(kind_at(&seen, code), Kind::Executable);
    // A variable that begins as zeros is in no file.
    static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    assert_eq!(
        ZEROS[COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) as usize],
        0
    );
    assert_eq!(kind_at(&seen, COUNT.as_ptr() as u64), Kind::Executable);
    assert_eq!(
        kind_at(&seen, libc::malloc as *const () as u64),
        Kind::Libraries
    );
}

/// A full heap of an arena has nothing reserved behind it, and the kernel joins it with its neighbours.
#[test]
fn all_of_what_a_thread_takes_in_small_blocks_is_malloc() {
    const BYTES: usize = 200 << 20;
    let _one = alone();
    let (tell, told) = channel();
    let (end, ended) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let blocks = (0..BYTES / 1000).map(|_| Box::new([7u8; 1000]));
        let blocks: Vec<Box<[u8; 1000]>> = blocks.collect();
        let places: Vec<u64> = blocks.iter().map(|block| block.as_ptr() as u64).collect();
        tell.send(places).unwrap();
        // Returns an error, once the test is over.
        let _ = ended.recv();
        assert_eq!(blocks.len(), BYTES / 1000);
    });
    let mut places = told.recv().unwrap();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let options = Options {
        addresses: true,
        ..Options::default()
    };
    let seen = look(own, &options);
    drop(end);
    thread.join().unwrap();
    let seen = seen.unwrap();
    places.sort_unstable();
    let mut malloc = seen.parts.iter().filter(|part| part.kind == Kind::Malloc);
    let mut part = malloc.next();
    let elsewhere = places.iter().filter(|place| {
        while part.is_some_and(|part| part.end <= **place) {
            part = malloc.next();
        }
        part.is_none_or(|part| **place < part.start)
    });
    assert_eq!(
        elsewhere.count(),
        0,
        "of {}: {:?}",
        places.len(),
        seen.notes
    );
}
