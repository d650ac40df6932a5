//! Finalizers: functions to call when an object has died, in the orders that libgc offers.

use crate::abi::variables::{GC_java_finalization, await_finalize, bytes_per_finalizer};
use crate::diagnostics;
use crate::table::{self, Most, Table};
use libc::c_void;
use plimsoll_heap::mark::{Finalizable, Marker};
use plimsoll_heap::{Central, Heap};

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
pub(crate) struct Finalizers {
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
unsafe impl Send for Finalizers {}

impl Finalizers {
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
            diagnostics::warn(c"Finalization cycle involving %p\n", object);
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
        Some(Finalizable { slot, itself })
    });
    marker.contents(central, dying, |slot| cycles.push(heap.start(slot)));
    due.truncate(first);
}

/// The finalizers whose turn has come, and those that a program registers.
impl Finalizers {
    /// Whether a collection is due before there is another one.
    pub(crate) fn is_full(&self) -> bool {
        self.most.is_reached(self.by_object.len())
    }

    /// Lets the table grow, after such a collection.
    pub(crate) fn grow(&mut self) {
        self.most.grow(self.by_object.len());
    }

    /// Sets the finalizer of an object, and returns the one before, with its data.
    pub(crate) fn set(
        &mut self,
        object: usize,
        procedure: Procedure,
        data: *mut c_void,
        order: Order,
    ) -> Option<(Procedure, *mut c_void)> {
        table::make_room(&mut self.by_object);
        let finalizer = Finalizer::new(procedure, data, order);
        let old = self.by_object.insert(object, finalizer)?;
        Some((old.procedure(), old.data))
    }

    /// Removes the finalizer of an object, and returns it with its data.
    pub(crate) fn remove(&mut self, object: usize) -> Option<(Procedure, *mut c_void)> {
        let old = self.by_object.remove(&object)?;
        Some((old.procedure(), old.data))
    }

    /// Takes a due finalizer: the object, its procedure and its data. The last one's memory is freed:
    /// there is room for all that might be due.
    pub(crate) fn next_due(&mut self) -> Option<(*mut c_void, Procedure, *mut c_void)> {
        let Some((object, finalizer)) = self.due.pop() else {
            self.due.shrink_to_fit();
            return None;
        };
        Some((object as *mut c_void, finalizer.procedure(), finalizer.data))
    }

    /// Makes every finalizer due. False if there is none.
    pub(crate) fn make_all_due(&mut self) -> bool {
        self.due.extend(self.by_object.drain());
        !self.due.is_empty()
    }

    /// How many finalizers are due.
    pub(crate) fn due(&self) -> usize {
        self.due.len()
    }

    /// Whether finalizers are due and the program was not notified yet. It counts as notified from now on.
    pub(crate) fn is_news(&mut self) -> bool {
        self.is_due() && !std::mem::replace(&mut self.told, true)
    }

    /// Makes the finalizers of dead objects due, and marks what these need. Everything else is marked.
    pub(crate) fn after_marking(
        &mut self,
        heap: &Heap,
        central: &Central,
        marker: &mut Marker<'_>,
    ) {
        let Finalizers {
            by_object,
            due,
            cycles,
            former,
            ..
        } = self;
        let dead = |object: usize| heap.slot(object).is_some_and(|slot| !heap.is_marked(slot));
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
    }
}
