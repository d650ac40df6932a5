//! A thread of the program: allocation, reads and writes of references, its roots.

use crate::object::{Shape, WORD_BYTES, format, simple_slot, slot};
use crate::vm::{Vm, mmtk};
use crate::world;
use mmtk::memory_manager as mm;
use mmtk::util::{Address, ObjectReference, OpaquePointer, VMMutatorThread, VMThread};
use mmtk::vm::slot::SimpleSlot;
use mmtk::{AllocationSemantics, BarrierSelector, Mutator};

/// Most roots of a thread: they must not move while they are scanned.
const MOST_ROOTS: usize = 1 << 16;

/// MMTk names a thread by a pointer to this. The first field, so that it has the same address.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Tls {
    /// Whether this is a thread of the program; false for those of the collector.
    pub(crate) is_mutator: bool,
}

/// A thread of the program. Only this thread uses it, and collectors while it is stopped.
#[repr(C)]
pub(crate) struct Thread {
    tls: Tls,
    mutator: Box<Mutator<Vm>>,
    /// Addresses of objects; 0 refers to nothing. A stack: [`Thread::push`], [`Thread::pop`].
    roots: Vec<usize>,
    barrier: BarrierSelector,
    /// Objects of more bytes go to the space of large objects.
    largest: usize,
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread")
            .field("roots", &self.roots.len())
            .finish_non_exhaustive()
    }
}

/// A thread while it runs the program.
#[derive(Debug)]
pub(crate) struct Attached(*mut Thread);

impl Attached {
    /// Makes the calling thread one of the program.
    pub(crate) fn new() -> Attached {
        let name = world::enter(|| {
            let constraints = mmtk().get_plan().constraints();
            let place: *mut std::mem::MaybeUninit<Thread> =
                Box::into_raw(Box::new(std::mem::MaybeUninit::uninit()));
            let tls = VMThread(OpaquePointer::from_address(Address::from_mut_ptr(place)));
            // SAFETY: the box is ours; the pointer is freed in `drop`.
            unsafe {
                // MMTk may ask whether this is a mutator before the rest is there.
                (&raw mut (*place.cast::<Thread>()).tls).write(Tls { is_mutator: true });
                (*place).write(Thread {
                    tls: Tls { is_mutator: true },
                    mutator: mm::bind_mutator(mmtk(), VMMutatorThread(tls)),
                    roots: Vec::with_capacity(MOST_ROOTS),
                    barrier: constraints.barrier,
                    largest: constraints.max_non_los_default_alloc_bytes,
                });
            }
            VMMutatorThread(tls)
        });
        Attached(name.0.0.to_address().to_mut_ptr())
    }
}

impl std::ops::Deref for Attached {
    type Target = Thread;

    fn deref(&self) -> &Thread {
        // SAFETY: it lives until `drop`, and only this thread or, while it is stopped, a collector
        // refers to it.
        unsafe { &*self.0 }
    }
}

impl std::ops::DerefMut for Attached {
    fn deref_mut(&mut self) -> &mut Thread {
        // SAFETY: as above.
        unsafe { &mut *self.0 }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        world::leave(self.name(), || {
            // SAFETY: no collection is under way, and nobody uses the thread after this.
            unsafe { mm::destroy_mutator(&mut (*self.0).mutator) }
        });
        // SAFETY: made by `Box` in `new`; it is in no list any more.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Thread {
    /// How MMTk calls this thread.
    pub(crate) fn name(&self) -> VMMutatorThread {
        VMMutatorThread(VMThread(OpaquePointer::from_address(Address::from_ref(
            self,
        ))))
    }

    /// A new object with empty slots. A collection may come before it: what is only in local variables
    /// is lost or moved then. `None` when memory is out.
    pub(crate) fn allocate(&mut self, shape: Shape) -> Option<ObjectReference> {
        world::safepoint();
        let bytes = shape.bytes();
        let semantics = if bytes > self.largest {
            AllocationSemantics::Los
        } else {
            AllocationSemantics::Default
        };
        let at = mm::alloc(&mut self.mutator, bytes, WORD_BYTES, 0, semantics);
        let object = format(at, shape)?;
        mm::post_alloc(&mut self.mutator, object, bytes, semantics);
        Some(object)
    }

    /// Writes a reference, with the barrier of the plan. Calling both halves of the barrier would be
    /// simpler, but in 0.33 the second half of the snapshot barrier is not implemented.
    pub(crate) fn write(
        &mut self,
        object: ObjectReference,
        index: u32,
        to: Option<ObjectReference>,
    ) {
        let at = simple_slot(object, index);
        if self.barrier == BarrierSelector::SATBBarrier {
            mm::object_reference_write_pre(&mut self.mutator, object, at, to);
        }
        let address = to.map_or(0, |to| to.to_raw_address().as_usize());
        // SAFETY: a slot of a live object of this thread's program; all reads are of whole words.
        unsafe { slot(object, index).store(address) };
        if self.barrier == BarrierSelector::ObjectBarrier {
            mm::object_reference_write_post(&mut self.mutator, object, at, to);
        }
    }

    /// Reads a reference.
    pub(crate) fn read(&self, object: ObjectReference, index: u32) -> Option<ObjectReference> {
        // SAFETY: as in `write`.
        let address = unsafe { slot(object, index).load() };
        ObjectReference::from_raw_address(address)
    }

    /// Keeps an object alive, and follows it when it moves. Returns its place.
    ///
    /// # Panics
    /// With more roots than a thread may have: a bug of the program.
    pub(crate) fn push(&mut self, object: ObjectReference) -> usize {
        assert!(self.roots.len() < MOST_ROOTS, "too many roots");
        self.roots.push(object.to_raw_address().as_usize());
        self.roots.len() - 1
    }

    /// The object in a place, where it is now.
    ///
    /// # Panics
    /// If the place is empty: a bug of the program.
    pub(crate) fn root(&self, place: usize) -> ObjectReference {
        reference(self.roots[place]).expect("a root in this place")
    }

    /// Takes the last root away, and returns it.
    ///
    /// # Panics
    /// Without roots: a bug of the program.
    pub(crate) fn pop(&mut self) -> ObjectReference {
        let last = self.roots.pop().expect("a root");
        reference(last).expect("a root that is not empty")
    }

    /// Forgets all roots from a place on.
    pub(crate) fn forget(&mut self, from: usize) {
        self.roots.truncate(from);
    }

    /// The slots of the roots, for a collector.
    pub(crate) fn slots(&mut self) -> Vec<SimpleSlot> {
        let slot = |root: &mut usize| SimpleSlot::from_address(Address::from_mut_ptr(root));
        self.roots.iter_mut().map(slot).collect()
    }

    /// MMTk's part of the thread.
    pub(crate) fn mutator(&mut self) -> &mut Mutator<Vm> {
        &mut self.mutator
    }
}

fn reference(address: usize) -> Option<ObjectReference> {
    // SAFETY: any number is an address; only whole objects are ever read through it.
    ObjectReference::from_raw_address(unsafe { Address::from_usize(address) })
}
