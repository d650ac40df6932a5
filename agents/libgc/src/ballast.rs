//! Ballast: free heap that the adapter takes as pointer-free, uncollectable objects of its own, so
//! that the program cannot use it, and whose pages it gives back to the kernel. libgc never shrinks
//! its address range, prefers discarded blocks to resident ones, and unmaps a block only after it
//! was free for several collections. With the surplus in ballast none of that matters: the program
//! has exactly the heap that it should have, and only pages of the adapter's own objects are
//! discarded.
//!
//! Only the helper calls this, as an active thread, while no fork is under way.

use crate::collector::Libgc;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest and the smallest piece, in bytes. A piece that fits nowhere costs its size in
/// address space, but never memory; then the next smaller size is tried.
const LARGEST: u64 = 4 << 20;
const SMALLEST: u64 = 4 << 10;
/// The most pieces held at a time.
const MOST: usize = 1 << 18;

#[derive(Clone, Copy, Debug)]
struct Piece {
    at: usize,
    bytes: u64,
}

static PIECES: Mutex<Vec<Piece>> = Mutex::new(Vec::new());
/// The largest size that was found to fit. The next search starts at four times that size.
static FITTING: AtomicU64 = AtomicU64::new(LARGEST);
static HELD: AtomicU64 = AtomicU64::new(0);
static EVER: AtomicU64 = AtomicU64::new(0);

/// Heap bytes in ballast.
pub fn held() -> u64 {
    HELD.load(Ordering::Acquire)
}

/// Bytes ever taken as ballast: libgc counts them as allocated.
pub fn ever() -> u64 {
    EVER.load(Ordering::Acquire)
}

/// Takes up to `bytes` bytes of free heap out of the program's reach and discards them. Returns how
/// many of them were free heap before. `lend(n)` lets the heap grow by n bytes, for a piece that
/// may not fit; `lend(0)` ends that.
pub fn take(gc: &Libgc, bytes: u64, lend: impl Fn(u64)) -> u64 {
    let Ok(mut pieces) = PIECES.lock() else {
        return 0;
    };
    let mut size = FITTING
        .load(Ordering::Relaxed)
        .saturating_mul(4)
        .min(LARGEST);
    let mut taken = 0;
    while size >= SMALLEST && taken < bytes && pieces.len() < MOST {
        if size > (bytes - taken).max(SMALLEST) || gc.read().free_bytes() < size {
            size /= 2;
            continue;
        }
        let before = gc.read().heap;
        lend(size + LARGEST);
        let piece = allocate(gc, size);
        lend(0);
        let Some(piece) = piece else { break };
        discard(piece);
        HELD.fetch_add(piece.bytes, Ordering::AcqRel);
        EVER.fetch_add(piece.bytes, Ordering::AcqRel);
        pieces.push(piece);
        if gc.read().heap > before {
            size /= 2;
            FITTING.store(size.max(SMALLEST), Ordering::Relaxed);
        } else {
            taken += piece.bytes;
            FITTING.fetch_max(size, Ordering::Relaxed);
        }
    }
    taken
}

/// Gives up to `bytes` bytes of ballast back to the program, large pieces first.
pub fn give(gc: &Libgc, bytes: u64) {
    let Ok(mut pieces) = PIECES.lock() else {
        return;
    };
    let mut left = bytes;
    pieces.sort_unstable_by_key(|piece| std::cmp::Reverse(piece.bytes));
    pieces.retain(|piece| {
        let keep = piece.bytes > left;
        if !keep {
            left -= piece.bytes;
            HELD.fetch_sub(piece.bytes, Ordering::AcqRel);
            // SAFETY: allocated by `allocate`; leaves the list here, so it is freed once.
            unsafe { (gc.free)(piece.at as *mut c_void) };
        }
        keep
    });
}

fn allocate(gc: &Libgc, size: u64) -> Option<Piece> {
    // libgc adds a byte to objects if pointers past the end keep them alive.
    // SAFETY: a plain getter.
    let past_end = unsafe { (gc.all_interior_pointers)() } != 0;
    let request = usize::try_from(size).ok()? - usize::from(past_end);
    // SAFETY: the thread is registered and active.
    let object = unsafe { (gc.malloc_atomic_uncollectable)(request) };
    if object.is_null() {
        return None;
    }
    // SAFETY: the start of an object that was just allocated.
    let bytes = unsafe { (gc.size)(object) } as u64;
    Some(Piece {
        at: object as usize,
        bytes,
    })
}

fn discard(piece: Piece) {
    let page = 4096;
    let start = piece.at.next_multiple_of(page);
    let end = (piece.at + piece.bytes as usize) / page * page;
    if start < end {
        // SAFETY: the pages lie inside an object of ours, which holds nothing; libgc reads none of it.
        unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED) };
    }
}
