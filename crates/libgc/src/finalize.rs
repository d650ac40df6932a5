//! Finalizers: functions to call when an object has died, in the orders that libgc offers.

use crate::collect;
use crate::settings::{
    GC_finalize_on_demand, GC_finalizer_notifier, GC_java_finalization, await_finalize,
    bytes_per_finalizer,
};
use crate::state::{self, Locked, Program};
use crate::table::{self, Most, Table};
use crate::{leaks, report};
use libc::{c_int, c_void};
use plimsoll_heap::mark::{Dying, Marker};
use plimsoll_heap::{Central, Heap};
use std::cell::Cell;
use std::ptr::null_mut;

pub(crate) type Procedure = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

/// From where an object must be unreachable before its finalizer is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// From itself and from other objects with finalizers.
    Topological,
    /// From other objects with finalizers; it may be reachable from itself.
    IgnoreSelf,
    /// From roots only: it does not matter which other objects have finalizers.
    None,
    /// From itself and from everything that is kept for a finalizer.
    Unreachable,
}

#[derive(Clone, Copy)]
struct Finalizer {
    /// The procedure's address, and its order in the two highest bits, which no address has: a
    /// program may have many finalizers.
    tagged: usize,
    data: *mut c_void,
}

impl Finalizer {
    const SHIFT: u32 = usize::BITS - 2;

    fn new(procedure: Procedure, data: *mut c_void, order: Order) -> Finalizer {
        let tagged = procedure as usize | (order as usize) << Finalizer::SHIFT;
        Finalizer { tagged, data }
    }

    fn procedure(&self) -> Procedure {
        let address = self.tagged << 2 >> 2;
        // SAFETY: the address of a procedure, by `new`.
        unsafe { std::mem::transmute::<usize, Procedure>(address) }
    }

    fn is(&self, order: Order) -> bool {
        self.tagged >> Finalizer::SHIFT == order as usize
    }
}

/// Registered finalizers by object, and those that are due. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Finalization {
    /// The registered finalizers, by the address of the object.
    by_object: Table<Finalizer>,
    /// How many these may be before a collection.
    most: Most,
    /// `former_count`: how many were registered after the last collection. `finalized`: bytes of the
    /// objects that became due in the last two collections.
    former_count: usize,
    finalized: [usize; 2],
    /// Dead objects with their finalizers. They are kept until the finalizers have run.
    due: Vec<(usize, Finalizer)>,
    /// Whether the program was told about the due ones.
    told: bool,
    /// How many were due before the last collection.
    former: usize,
    /// Objects that died in the last collection, but cannot be finalized because of their
    /// finalizers' order (cycles).
    cycles: Vec<usize>,
}

// SAFETY: pointers of the program's, kept for it, used under the lock.
unsafe impl Send for Finalization {}

impl Finalization {
    /// Makes room before the world is stopped: all finalizers may become due at once.
    pub(crate) fn prepare(&mut self) {
        self.due.reserve(self.by_object.len());
        self.cycles.reserve(self.by_object.len());
        self.former = self.due.len();
        self.told = false;
    }

    /// Tells the program that finalizers are due after the last collection, and warns of objects
    /// that could not be finalized. The world runs, so the program's own allocator may run, too.
    pub(crate) fn announce(&mut self) {
        if let Some(callback) = await_finalize.get() {
            for (object, _) in &self.due[self.former..] {
                callback(*object as *mut c_void);
            }
        }
        for object in self.cycles.drain(..) {
            report::warn(c"Finalization cycle involving %p\n", object);
        }
    }

    /// Notes the end of a collection; returns the bytes of the objects that became due in it.
    pub(crate) fn note(&mut self, heap: &Heap) -> usize {
        let slots = self.due[self.former..].iter();
        let slots = slots.filter_map(|&(object, _)| heap.slot(object));
        let bytes = slots.map(|slot| heap.size(slot)).sum();
        self.finalized = [bytes, self.finalized[0]];
        self.former_count = self.by_object.len();
        if self.former_count < self.by_object.capacity() / 4 {
            self.by_object.shrink_to(2 * self.former_count);
        }
        bytes
    }

    /// Whether the program has objects finalized.
    pub(crate) fn is_busy(&self) -> bool {
        self.finalized != [0, 0]
    }

    /// Whether to collect rather than to let the heap grow, after `since` bytes were allocated: many
    /// finalizers are new. They may have memory released that the heap does not know of.
    pub(crate) fn is_crowded(&self, since: usize) -> bool {
        let new = self.by_object.len().saturating_sub(self.former_count);
        self.is_busy() && new.saturating_mul(bytes_per_finalizer.get()) > since
    }

    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.by_object.len()
    }

    /// Calls `root` with what the tables must keep alive: the data of finalizers, and objects whose
    /// finalizers are due.
    pub(crate) fn each_root(&self, mut root: impl FnMut(usize)) {
        for finalizer in self.by_object.values() {
            root(finalizer.data as usize);
        }
        for (object, finalizer) in &self.due {
            root(*object);
            root(finalizer.data as usize);
        }
    }
}

/// Handles dead objects after marking: clears links, makes finalizers due, and marks what these
/// need. The order is libgc's (finalize.c): short links, finalizers, long links.
pub(crate) fn after_marking(
    heap: &Heap,
    central: &Central,
    marker: &mut Marker<'_>,
    program: &mut Program,
) {
    let Program {
        finalization,
        links,
        toggles,
        disclaims,
        ..
    } = program;
    let dead = |object: usize| heap.slot(object).is_some_and(|slot| !heap.is_marked(slot));
    links.clear_short(&dead);
    let Finalization {
        by_object,
        due,
        cycles,
        former,
        ..
    } = finalization;
    let first = *former;
    mark_contents(heap, central, marker, by_object, due, cycles);
    let java = GC_java_finalization.get() != 0;
    // Objects of order `Unreachable` come last, because what the others need may reach them.
    let last = |finalizer: &Finalizer| java && finalizer.is(Order::Unreachable);
    by_object.retain(|&object, finalizer| {
        let keep = last(finalizer) || !dead(object);
        if !keep {
            due.push((object, *finalizer));
        }
        keep
    });
    mark_objects(heap, central, marker, &mut due[first..]);
    let ordered = due.len();
    by_object.retain(|&object, finalizer| {
        let keep = !dead(object);
        if !keep {
            due.push((object, *finalizer));
        }
        keep
    });
    mark_objects(heap, central, marker, &mut due[ordered..]);
    disclaims.mark(heap, central, marker);
    toggles.forget_dead(&dead);
    links.clear_long(&dead);
    links.forget_dead(&dead, heap);
}

/// Sorts by address, so that the order is the same in each run.
fn by_address(due: &mut [(usize, Finalizer)]) {
    due.sort_unstable_by_key(|&(object, _)| object);
}

/// Marks the objects that are due, and what they refer to.
fn mark_objects(
    heap: &Heap,
    central: &Central,
    marker: &mut Marker<'_>,
    due: &mut [(usize, Finalizer)],
) {
    by_address(due);
    let slots = due.iter().filter_map(|&(object, _)| heap.slot(object));
    marker.revive(central, slots);
}

/// Marks what the dead objects with ordered finalizers refer to. An object that gets marked by that
/// is not due.
///
/// The order of scanning does not matter, nor when objects in swap are scanned. An object that was
/// reached from another one before its turn is scanned nevertheless, because it is marked. So in
/// the end everything is marked that is reachable from the contents of any of these objects, and no
/// object's fate is decided before that. Only the warning about a cycle depends on the order: it
/// names the first object that was unmarked before its contents were scanned and marked after. A
/// cycle through swap shows only at the end, where it cannot be told from what other objects reach.
/// Then there is no warning, but its objects are kept as well.
fn mark_contents(
    heap: &Heap,
    central: &Central,
    marker: &mut Marker<'_>,
    by_object: &Table<Finalizer>,
    due: &mut Vec<(usize, Finalizer)>,
    cycles: &mut Vec<usize>,
) {
    // `due` has capacity for all of them.
    let first = due.len();
    let dead = |object: usize| heap.slot(object).is_some_and(|slot| !heap.is_marked(slot));
    let ordered = |finalizer: &Finalizer| !finalizer.is(Order::None);
    let all = by_object
        .iter()
        .map(|(&object, &finalizer)| (object, finalizer));
    due.extend(all.filter(|(object, finalizer)| ordered(finalizer) && dead(*object)));
    by_address(&mut due[first..]);
    let dying = due[first..].iter().filter_map(|&(object, finalizer)| {
        let slot = heap.slot(object)?;
        let itself = !finalizer.is(Order::IgnoreSelf);
        Some(Dying { slot, itself })
    });
    marker.contents(central, dying, |slot| cycles.push(heap.start(slot)));
    due.truncate(first);
}

/// Sets the finalizer of an object, or removes it if there is none. Stores the previous one at the
/// places given.
pub(crate) fn register(
    object: *mut c_void,
    procedure: Option<Procedure>,
    data: *mut c_void,
    former: (*mut Option<Procedure>, *mut *mut c_void),
    order: Order,
) {
    if leaks::wanted() {
        // As with libgc, the places for the previous one stay unchanged.
        return;
    }
    let mut gc = state::lock();
    let grows = gc
        .program
        .finalization
        .most
        .is_reached(gc.program.finalization.count());
    if grows {
        collect::before_growth(&mut gc);
        let finalization = &mut gc.program.finalization;
        finalization.most.grow(finalization.by_object.len());
    }
    let start = object as usize;
    let is_object = gc.heap.slot(start).is_some();
    let old = match procedure {
        Some(procedure) if is_object => {
            let all = &mut gc.program.finalization.by_object;
            table::make_room(all);
            all.insert(start, Finalizer::new(procedure, data, order))
        }
        _ => gc.program.finalization.by_object.remove(&start),
    };
    // SAFETY: the caller's, where they are not null.
    unsafe {
        if let Some(place) = former.0.as_mut() {
            *place = old.map(|old| old.procedure());
        }
        if let Some(place) = former.1.as_mut() {
            *place = old.map_or(null_mut(), |old| old.data);
        }
    }
    let due = grows && gc.program.finalization.is_due();
    drop(gc);
    if due {
        notify_or_invoke();
    }
}

macro_rules! registers {
    ($($name:ident => $order:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name(
            object: *mut c_void,
            procedure: Option<Procedure>,
            data: *mut c_void,
            former: *mut Option<Procedure>,
            former_data: *mut *mut c_void,
        ) {
            register(object, procedure, data, (former, former_data), $order);
        }
    )*};
}

registers! {
    GC_register_finalizer => Order::Topological;
    GC_register_finalizer_ignore_self => Order::IgnoreSelf;
    GC_register_finalizer_no_order => Order::None;
    GC_register_finalizer_unreachable => Order::Unreachable;
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_should_invoke_finalizers() -> c_int {
    c_int::from(state::is_ready() && state::either().program.finalization.is_due())
}

/// Takes a due finalizer. The last one's memory is freed: there is room for all that might be due.
fn next_due(gc: &mut Locked) -> Option<(usize, Finalizer)> {
    let due = &mut gc.program.finalization.due;
    let next = due.pop();
    if next.is_none() {
        due.shrink_to_fit();
    }
    next
}

/// Calls the due finalizers and returns how many there were.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_invoke_finalizers() -> c_int {
    let mut count = 0;
    if !state::is_ready() {
        return count;
    }
    loop {
        let Some((object, finalizer)) = next_due(&mut state::lock()) else {
            return count;
        };
        // The object's address is on this stack, so the object stays alive.
        // SAFETY: the program's procedure, for the object and the data that it was registered with.
        unsafe { (finalizer.procedure())(object as *mut c_void, finalizer.data) };
        std::hint::black_box(object);
        count += 1;
    }
}

thread_local! {
    /// How many finalizers called from [`notify_or_invoke`] this thread is inside of, as far as is
    /// known: a jump or an exception may have left one. And how often finalizers were not called
    /// since then for that reason.
    static INSIDE: Cell<(u8, u32)> = const { Cell::new((0, 0)) };
}

/// Whether to call finalizers now. Inside n finalizers, only every 2^n-th time does so, as with
/// libgc. So they do not nest without end, and if one never returns, others are still called.
fn goes_inside() -> bool {
    let (level, skipped) = INSIDE.get();
    let skipped = skipped.saturating_add(1);
    let goes = level == 0 || skipped >= 1u32.checked_shl(level.into()).unwrap_or(u32::MAX);
    INSIDE.set(match goes {
        true => (level.saturating_add(1), 0),
        false => (level, skipped),
    });
    goes
}

/// Calls the due finalizers, or notifies the program of them, once per collection. The lock must
/// not be held.
pub(crate) fn notify_or_invoke() {
    if GC_finalize_on_demand.get() == 0 {
        if goes_inside() {
            GC_invoke_finalizers();
            // As with libgc: none is due any more on any level. A finalizer that does not return
            // here leaves its level behind.
            INSIDE.set((0, 0));
        }
        return;
    }
    // The lock is released before the program is called.
    let notify = first_time(&mut state::lock());
    if let Some(notify) = notify {
        notify();
    }
}

/// The program's notifier, if it has not been called since the last collection.
fn first_time(gc: &mut Locked) -> Option<extern "C-unwind" fn()> {
    let notify = GC_finalizer_notifier.get()?;
    let due = gc.program.finalization.is_due()
        && !std::mem::replace(&mut gc.program.finalization.told, true);
    due.then_some(notify)
}

/// Makes every finalizer due and calls it, even for live objects. For the end of a program.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_finalize_all() {
    while state::is_ready() {
        let mut gc = state::lock();
        let Finalization { by_object, due, .. } = &mut gc.program.finalization;
        if by_object.is_empty() && due.is_empty() {
            return;
        }
        due.extend(by_object.drain());
        drop(gc);
        GC_invoke_finalizers();
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_dump_finalization() {
    let gc = state::either();
    report::print(&format!(
        "{} finalizers, {} due\n",
        gc.program.finalization.count(),
        gc.program.finalization.due.len()
    ));
}
