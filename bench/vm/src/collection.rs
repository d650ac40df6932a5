//! The part of the binding that MMTk calls for a collection: stopping threads, finding roots and slots.

use crate::object::{Shape, simple_slot};
use crate::thread::{Thread, Tls};
use crate::vm::{Vm, mmtk};
use crate::{heap, injected_fault, world};
use mmtk::util::alloc::AllocationError;
use mmtk::util::heap::GCTriggerPolicy;
use mmtk::util::{
    Address, ObjectReference, OpaquePointer, VMMutatorThread, VMThread, VMWorkerThread,
};
use mmtk::vm::slot::SimpleSlot;
use mmtk::vm::{
    ActivePlan, Collection, GCThreadContext, ReferenceGlue, RootsWorkFactory, Scanning, SlotVisitor,
};
use mmtk::{Mutator, memory_manager};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests that failed because memory was out.
static OUT_OF_MEMORY: AtomicU64 = AtomicU64::new(0);

/// How often memory was out.
pub(crate) fn out_of_memory() -> u64 {
    OUT_OF_MEMORY.load(Ordering::Relaxed)
}

impl Collection<Vm> for Vm {
    fn stop_all_mutators<F: FnMut(&'static mut Mutator<Vm>)>(_: VMWorkerThread, mut visit: F) {
        let threads = world::stop();
        injected_fault::stopped();
        for name in threads {
            // SAFETY: the thread is stopped, so only collectors use it.
            visit(unsafe { (*thread(name)).mutator() });
        }
    }

    fn resume_mutators(_: VMWorkerThread) {
        world::resume();
    }

    fn block_for_gc(_: VMMutatorThread) {
        world::wait();
    }

    fn spawn_gc_thread(_: VMThread, context: GCThreadContext<Vm>) {
        let GCThreadContext::Worker(worker) = context;
        std::thread::spawn(move || {
            let tls = Box::leak(Box::new(Tls { is_mutator: false }));
            let address = Address::from_mut_ptr(tls);
            let tls = VMWorkerThread(VMThread(OpaquePointer::from_address(address)));
            // Without this thread every other one would wait for ever.
            let work = || memory_manager::start_worker(mmtk(), tls, worker);
            if std::panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
                std::process::abort();
            }
        });
    }

    /// The request fails; the program decides what that means.
    fn out_of_memory(_: VMThread, kind: AllocationError) {
        match kind {
            AllocationError::HeapOutOfMemory => {
                OUT_OF_MEMORY.fetch_add(1, Ordering::Relaxed);
            }
            AllocationError::MmapOutOfMemory => {
                eprintln!("plimsoll-bench-vm: the kernel gives no more memory");
                std::process::exit(3);
            }
        }
    }

    fn create_gc_trigger() -> Box<dyn GCTriggerPolicy<Vm>> {
        heap::create_gc_trigger()
    }
}

impl Scanning<Vm> for Vm {
    fn scan_object<V: SlotVisitor<SimpleSlot>>(
        _: VMWorkerThread,
        object: ObjectReference,
        visitor: &mut V,
    ) {
        for index in 0..Shape::of(object).slots {
            visitor.visit_slot(simple_slot(object, index));
        }
    }

    fn notify_initial_thread_scan_complete(_: bool, _: VMWorkerThread) {}

    fn scan_roots_in_mutator_thread(
        _: VMWorkerThread,
        mutator: &'static mut Mutator<Vm>,
        mut factory: impl RootsWorkFactory<SimpleSlot>,
    ) {
        let thread = thread(mutator.mutator_tls);
        // SAFETY: the thread is stopped, and scanned by this collector only.
        let slots = unsafe { (*thread).slots() };
        factory.create_process_roots_work(slots);
    }

    fn scan_vm_specific_roots(_: VMWorkerThread, _: impl RootsWorkFactory<SimpleSlot>) {}

    fn supports_return_barrier() -> bool {
        false
    }

    fn prepare_for_roots_re_scanning() {}
}

impl ActivePlan<Vm> for Vm {
    fn is_mutator(tls: VMThread) -> bool {
        let tls = tls.0.to_address().to_ptr::<Tls>();
        // SAFETY: what MMTk hands back is null, or a `Tls` that we gave it.
        !tls.is_null() && unsafe { (*tls).is_mutator }
    }

    fn mutator(tls: VMMutatorThread) -> &'static mut Mutator<Vm> {
        // SAFETY: MMTk asks for mutators only, as their own thread or while they are stopped.
        unsafe { (*thread(tls)).mutator() }
    }

    fn mutators<'a>() -> Box<dyn Iterator<Item = &'a mut Mutator<Vm>> + 'a> {
        // SAFETY: asked in pauses only.
        let mutator = |name| unsafe { (*thread(name)).mutator() };
        Box::new(world::threads().into_iter().map(mutator))
    }

    fn number_of_mutators() -> usize {
        world::threads().len()
    }
}

fn thread(tls: VMMutatorThread) -> *mut Thread {
    tls.0.0.to_address().to_mut_ptr()
}

/// This machine has no weak references and no finalizers: nothing of this is ever called.
impl ReferenceGlue<Vm> for Vm {
    type FinalizableType = ObjectReference;

    fn clear_referent(_: ObjectReference) {}

    fn get_referent(_: ObjectReference) -> Option<ObjectReference> {
        None
    }

    fn set_referent(_: ObjectReference, _: ObjectReference) {}

    fn enqueue_references(_: &[ObjectReference], _: VMWorkerThread) {}
}
