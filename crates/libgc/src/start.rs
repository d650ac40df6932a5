//! The collector is made when the program first needs it. Functions that a program may call first take
//! the lock here; all others take it from [`state`].

use crate::abi::heap_map;
use crate::abi::variables::{
    GC_greatest_plausible_heap_addr, GC_least_plausible_heap_addr, GC_stackbottom, finds_leaks,
};
use crate::lock;
use crate::objects::kinds::{self, Descriptors};
use crate::roots::Roots;
use crate::state::{self, Locked, Program, State};
use crate::thread::stop::signals;
use crate::thread::{exit, stack, unregistered};
use crate::unwind::{Whole, end_where_we_panic};
use crate::{collect, diagnostics, environ, fork, heap, stress};
use plimsoll_collector::Collector;
use plimsoll_heap::Heap;
use plimsoll_heap::mark::Marker;

/// The most bytes of addresses to reserve for objects; far above any machine's memory.
const MOST: usize = 1 << 40;

/// Takes the lock. The first call makes the collector.
pub(crate) fn lock() -> Locked {
    state::lock_with(held)
}

/// The state, when the program holds the lock already (`GC_call_with_alloc_lock`, callbacks).
pub(crate) fn held() -> Locked {
    if let Some(made) = state::made() {
        return made;
    }
    make();
    state::held()
}

/// The state, for functions that a program may call with the lock or without it.
pub(crate) fn either() -> Locked {
    if lock::is_mine() { held() } else { lock() }
}

/// The heap.
#[inline(always)]
pub(crate) fn heap() -> &'static Heap {
    match heap::made() {
        Some(heap) => heap,
        None => new_heap(),
    }
}

#[cold]
#[inline(never)]
fn new_heap() -> &'static Heap {
    lock().heap
}

/// Makes the collector, unless there is one.
pub(crate) fn ensure() {
    if !heap::is_ready() {
        drop(lock());
    }
}

#[cold]
fn make() {
    end_where_we_panic();
    let Ok((heap, central)) = Heap::new(stress::os(), MOST) else {
        diagnostics::abort(c"No room for a heap: is there a limit on addresses (ulimit -v)?");
    };
    let whole = Whole::begin();
    kinds::add_first(&heap);
    let heap = heap::set(heap);
    heap_map::tell(heap);
    let range = heap.reserved();
    // One word less than the heap's start, as in libgc: a program that refers to this variable has
    // its value in static data, which would keep the first object alive.
    GC_least_plausible_heap_addr.set(range.start - size_of::<usize>());
    GC_greatest_plausible_heap_addr.set(range.end);
    let Ok(marker) = Marker::new(heap, &Descriptors) else {
        diagnostics::abort(c"No room for a mark stack");
    };
    let asked = environ::read(heap);
    stress::begin(heap);
    let state = state::set(State {
        collector: Collector::new(heap, central, marker, &asked.settings),
        program: Program {
            roots: Roots::begin(),
            markers: asked.markers,
            logs: asked.logs,
            ..Program::default()
        },
    });
    signals::install();
    register_first(&mut state.program);
    fork::watch();
    if finds_leaks() {
        look_for_leaks_at_exit();
    }
    if environ::wants_incremental() {
        collect::turn_incremental_on(&mut state.collector);
    }
    heap::set_ready();
    whole.end();
}

/// Registers the thread that uses the collector first. Like libgc, this takes it for the program's
/// main thread.
fn register_first(program: &mut Program) {
    let told = GC_stackbottom.get();
    let base = if told != 0 {
        told
    } else {
        // With any other end, the frames above it would not be scanned.
        stack::base().unwrap_or_else(|| diagnostics::abort(c"Nobody tells where the stack begins"))
    };
    GC_stackbottom.set(base);
    program.threads.register_first(base);
    // The main thread may end before the others (`pthread_exit`).
    exit::watch();
}

/// Collects at the end of the program, to find what was lost since the last collection.
fn look_for_leaks_at_exit() {
    extern "C" fn at_exit() {
        if finds_leaks() {
            unregistered::let_anybody(collect::by_request);
        }
    }
    // SAFETY: a function that lives as long as the library.
    unsafe { libc::atexit(at_exit) };
}
