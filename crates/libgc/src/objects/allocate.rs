//! Allocating objects.

use super::kinds::{AUNCOLLECTABLE, UNCOLLECTABLE};
use crate::abi::variables::{
    EXECUTABLE, GC_all_interior_pointers, GC_non_gc_bytes, GC_oom_fn, finds_leaks,
};
use crate::finalization::invoke;
use crate::front_end::{Front, allowed, collect};
use crate::racy_cell::share;
use crate::state::{Locked, State};
use crate::thread::current;
use crate::thread::record::Thread;
use crate::thread::registered::running;
use crate::thread::registers::with_registers;
use crate::{diagnostics, leak_report, quantum, start, state, stress};
use libc::c_void;
use plimsoll_collector::Why;
use plimsoll_heap::{Bin, Class, Exhausted, KindId};
use plimsoll_kernel::overcommit::largest_mapping;
use rustix::mm::{MprotectFlags, mprotect};

/// One extra byte per object, so that a pointer just past its end still points into it; 0 if the
/// program switched that off.
#[inline(always)]
pub(crate) fn extra() -> usize {
    usize::from(GC_all_interior_pointers.get() != 0)
}

/// Allocates an object of a kind. Without memory, returns what the program's out-of-memory function
/// returns, by default null.
#[inline(always)]
pub(crate) fn allocate(bytes: usize, kind: KindId) -> *mut c_void {
    match take(current::quick(), bytes, kind) {
        Some((start, _)) => start as *mut c_void,
        None => allocate_slowly(bytes, kind, false),
    }
}

/// Allocates an object of a kind, and tells its first byte and the bytes of its slot. Without memory, or
/// if the program's out-of-memory function returns what is no object, they are 0.
#[inline(always)]
pub(crate) fn allocate_sized(bytes: usize, kind: KindId) -> (*mut c_void, usize) {
    match take(current::quick(), bytes, kind) {
        Some((start, class)) => (start as *mut c_void, class.bytes()),
        None => allocate_sized_slowly(bytes, kind),
    }
}

#[cold]
#[inline(never)]
fn allocate_sized_slowly(bytes: usize, kind: KindId) -> (*mut c_void, usize) {
    let object = allocate_slowly(bytes, kind, false);
    let heap = start::heap();
    let slot = heap.slot(object as usize);
    let own = slot.filter(|&slot| heap.kind_of(slot) == kind);
    (object, own.map_or(0, |slot| heap.size(slot)))
}

/// Takes a place for an object from the bins of this thread, whose state is at `thread`; null if it is not
/// registered, or must not use them. `None` if they have none.
#[inline(always)]
fn take(thread: *mut Thread, bytes: usize, kind: KindId) -> Option<(usize, Class)> {
    // SAFETY: this thread's own.
    let thread = unsafe { thread.as_mut() }?;
    let class = Class::of(bytes.saturating_add(extra()))?;
    thread.enter_bins();
    let taken = match thread.bins.bin(kind, class) {
        Some(bin) => match bin.take(class.bytes()) {
            None if next_hole(bin, kind, class) => bin.take(class.bytes()),
            taken => taken,
        },
        None => None,
    };
    thread.leave_bins();
    taken.map(|start| (start, class))
}

/// Opens the next hole of the superpage that belongs to the bin, or a freed slot.
#[inline(never)]
fn next_hole(bin: &mut Bin, kind: KindId, class: Class) -> bool {
    start::heap().next_hole(bin, kind, class)
}

/// Allocates with the lock; the object may be large. Only the program's registers lie in the part
/// of the stack that a collection scans, not the frames of this code: they may contain stale words
/// of earlier frames.
#[cold]
#[inline(never)]
pub(crate) fn allocate_slowly(bytes: usize, kind: KindId, first_only: bool) -> *mut c_void {
    if quantum::is_on()
        && let Some(start) = take_in_turn(bytes, kind)
    {
        return start as *mut c_void;
    }
    with_registers(|here| allocate_below(bytes, kind, first_only, here))
}

/// With a memory quantum: counts the object, which may end this thread's turn, and takes a place for it from
/// the thread's bins, if they may be used.
#[inline(never)]
fn take_in_turn(bytes: usize, kind: KindId) -> Option<usize> {
    let thread = current::get();
    // SAFETY: this thread's own; null if it is not registered.
    let turn = unsafe { &thread.as_ref()?.turn };
    if turn.is_over() {
        // The thread may be stopped while it waits, and then the frames below are scanned.
        clear_stack();
        turn.end(running());
    }
    turn.count(bytes.saturating_add(extra()));
    if finds_leaks() {
        None
    } else {
        take(thread, bytes, kind).map(|(start, _)| start)
    }
}

/// Repeats until there is a place, or nothing more to try.
fn find_place(
    gc: &mut Locked,
    bytes: usize,
    kind: KindId,
    first_only: bool,
    here: usize,
) -> Option<usize> {
    let mut tried = 0;
    if stress::is_due() && allowed() {
        collect(gc, Why::Allocation, here);
    }
    let whole = bytes.saturating_add(extra());
    loop {
        match place(gc, whole, kind, first_only) {
            Ok(start) => return Some(start),
            Err(why) => {
                let State { collector, program } = &mut **gc;
                let mut front = Front::new(program, here);
                if !collector.make_room(&mut front, whole, why, &mut tried) {
                    return None;
                }
            }
        }
    }
}

#[inline(never)]
fn allocate_below(bytes: usize, kind: KindId, first_only: bool, here: usize) -> *mut c_void {
    let lent = state::is_lent();
    let mut gc = if lent { start::held() } else { start::lock() };
    let before = gc.collector.bounds();
    let found = find_place(&mut gc, bytes, kind, first_only, here);
    if found.is_none() {
        // Room that was made for this object but did not suffice must not be used by others.
        gc.collector.lower(before);
    }
    if finds_leaks()
        && let Some(start) = found
    {
        current::no_quick();
        gc.program.leaks.add(start);
    }
    if let Some(start) = found
        && kind != UNCOLLECTABLE
        && kind != AUNCOLLECTABLE
    {
        gc.program.unknown.note(start);
    }
    if EXECUTABLE.get() != 0 {
        make_executable(&mut gc);
    }
    let due = gc.program.finalization.is_due();
    let is_blocked = gc.collector.central.is_blocked();
    drop(gc);
    clear_stack();
    if !lent {
        leak_report::report();
        if due {
            invoke::notify_or_invoke();
        }
    }
    match found {
        Some(start) => start as *mut c_void,
        None => {
            if is_blocked {
                let start = start::heap().range().start;
                diagnostics::warn(
                    c"The program has a mapping where the heap at %p would grow\n",
                    start,
                );
            }
            diagnostics::warn(
                c"Out of Memory! Returning NULL for an allocation of %lu bytes\n",
                bytes,
            );
            // SAFETY: this thread's own error number.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            (GC_oom_fn.get())(bytes)
        }
    }
}

/// Makes the part of the heap executable that was added since the last call.
#[cold]
fn make_executable(gc: &mut Locked) {
    let range = gc.heap.range();
    let start = range.start + gc.program.executable;
    if start < range.end {
        let all = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
        // SAFETY: memory of the heap, which stays readable and writable.
        if unsafe { mprotect(start as *mut c_void, range.end - start, all) }.is_err() {
            diagnostics::abort(c"The kernel does not let objects be executed");
        }
        gc.program.executable = range.len();
    }
}

/// Overwrites the stack below this thread's frames. Otherwise, stale references there may end up in
/// new frames that do not initialise all of their words.
#[inline(never)]
fn clear_stack() {
    let mut words = [0usize; 256];
    std::hint::black_box(&mut words);
}

/// For a smaller object it is not worth asking how much memory there is.
const HUGE: usize = 1 << 30;

/// Whether the kernel would refuse to map that many bytes at once, as libgc asks it to. Here the
/// heap has its addresses already, so the kernel does not see the size. And metadata for all of the
/// object takes memory, whether the object is used or not.
fn is_hopeless(bytes: usize) -> bool {
    bytes >= HUGE && bytes as u64 > largest_mapping().0
}

/// Takes a place for an object from what the heap has.
fn place(
    gc: &mut Locked,
    bytes: usize,
    kind: KindId,
    first_only: bool,
) -> Result<usize, Exhausted> {
    let heap = gc.heap;
    let Some(class) = Class::of(bytes) else {
        if is_hopeless(bytes) {
            return Err(Exhausted::Memory);
        }
        return heap.allocate_large(&mut gc.collector.central, kind, bytes, first_only);
    };
    // SAFETY: this thread's own.
    let thread: Option<&mut Thread> = unsafe { current::get().as_mut() };
    let State { collector, program } = &mut **gc;
    let bins = match thread {
        Some(thread) => &mut thread.bins,
        // libgc allows unregistered threads to allocate.
        None => {
            share();
            program.unknown.own_bins()
        }
    };
    let bin = bins.bin_to_refill(kind, class);
    if let Some(start) = bin.take(class.bytes()) {
        return Ok(start);
    }
    heap.refill(&mut collector.central, bin, kind, class)?;
    bin.take(class.bytes()).ok_or(Exhausted::Memory)
}

/// Allocates an uncollectable object, and counts its bytes.
#[inline(always)]
pub(crate) fn allocate_held(bytes: usize, kind: KindId) -> *mut c_void {
    let (object, size) = allocate_sized(bytes, kind);
    GC_non_gc_bytes.add(size);
    object
}
