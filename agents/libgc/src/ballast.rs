//! Ballast: free heap that the adapter takes as pointer-free, uncollectable objects of its own, so
//! that the program cannot use it, and whose pages it gives back to the kernel. libgc never shrinks
//! its address range, prefers discarded blocks to resident ones, and unmaps a block only after it
//! was free for several collections. With the surplus in ballast none of that matters: the program
//! has exactly the heap that it should have, and only pages of the adapter's own objects are
//! discarded.
//!
//! Only the helper calls this, as an active thread, while no fork is under way.

use crate::collector::Libgc;
use plimsoll_unit::Bytes;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest and the smallest piece. A piece that fits nowhere costs its size in
/// address space, but never memory; then the next smaller size is tried.
const LARGEST: Bytes = Bytes::mib(4);
const SMALLEST: Bytes = Bytes(4 << 10);
/// The most pieces held at a time.
const MOST: usize = 1 << 18;

#[derive(Clone, Copy, Debug)]
struct Piece {
    at: usize,
    bytes: Bytes,
}

static PIECES: Mutex<Vec<Piece>> = Mutex::new(Vec::new());
/// The largest size that was found to fit. The next search starts at four times that size.
static FITTING: AtomicU64 = AtomicU64::new(LARGEST.0);
static HELD: AtomicU64 = AtomicU64::new(0);
static EVER: AtomicU64 = AtomicU64::new(0);

/// The part of the heap in ballast.
pub fn held() -> Bytes {
    Bytes(HELD.load(Ordering::Acquire))
}

/// All that was ever taken as ballast: libgc counts it as allocated.
pub fn ever() -> Bytes {
    Bytes(EVER.load(Ordering::Acquire))
}

/// Takes up to `bytes` of free heap out of the program's reach and discards it. Returns how
/// much of that was free heap before. `lend(n)` lets the heap grow by n, for a piece that
/// may not fit; `lend` of nothing ends that.
pub fn take(gc: &Libgc, bytes: Bytes, lend: impl Fn(Bytes)) -> Bytes {
    let Ok(mut pieces) = PIECES.lock() else {
        return Bytes::ZERO;
    };
    let mut size = (Bytes(FITTING.load(Ordering::Relaxed)) * 4).min(LARGEST);
    let mut taken = Bytes::ZERO;
    while size >= SMALLEST && taken < bytes && pieces.len() < MOST {
        if size > (bytes - taken).max(SMALLEST) || gc.read().free_blocks() < size {
            size = size / 2;
            continue;
        }
        let before = gc.read().heap;
        lend(size + LARGEST);
        let piece = allocate(gc, size);
        lend(Bytes::ZERO);
        let Some(piece) = piece else { break };
        discard(piece);
        HELD.fetch_add(piece.bytes.0, Ordering::AcqRel);
        EVER.fetch_add(piece.bytes.0, Ordering::AcqRel);
        pieces.push(piece);
        if gc.read().heap > before {
            size = size / 2;
            FITTING.store(size.max(SMALLEST).0, Ordering::Relaxed);
        } else {
            taken += piece.bytes;
            FITTING.fetch_max(size.0, Ordering::Relaxed);
        }
    }
    taken
}

/// Gives up to `bytes` of ballast back to the program, large pieces first.
pub fn give(gc: &Libgc, bytes: Bytes) {
    let Ok(mut pieces) = PIECES.lock() else {
        return;
    };
    let mut left = bytes;
    pieces.sort_unstable_by_key(|piece| std::cmp::Reverse(piece.bytes));
    pieces.retain(|piece| {
        let keep = piece.bytes > left;
        if !keep {
            left -= piece.bytes;
            HELD.fetch_sub(piece.bytes.0, Ordering::AcqRel);
            // SAFETY: allocated by `allocate`; leaves the list here, so it is freed once.
            unsafe { (gc.free)(piece.at as *mut c_void) };
        }
        keep
    });
}

fn allocate(gc: &Libgc, size: Bytes) -> Option<Piece> {
    // libgc adds a byte to objects if pointers past the end keep them alive.
    // SAFETY: a plain getter.
    let past_end = unsafe { (gc.all_interior_pointers)() } != 0;
    let request = size.length() - usize::from(past_end);
    // SAFETY: the thread is registered and active.
    let object = unsafe { (gc.malloc_atomic_uncollectable)(request) };
    if object.is_null() {
        return None;
    }
    // SAFETY: the start of an object that was just allocated.
    let bytes = unsafe { (gc.size)(object) }.into();
    Some(Piece {
        at: object as usize,
        bytes,
    })
}

fn discard(piece: Piece) {
    let page = 4096;
    let start = piece.at.next_multiple_of(page);
    let end = (piece.at + piece.bytes.length()) / page * page;
    if start < end {
        // SAFETY: the pages lie inside an object of ours, which holds nothing; libgc reads none of it.
        unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED) };
    }
}
