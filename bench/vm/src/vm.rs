//! The binding: the type that stands for this virtual machine, and the one instance of MMTk.

use mmtk::MMTK;
use mmtk::vm::VMBinding;
use mmtk::vm::slot::{SimpleSlot, UnimplementedMemorySlice};
use std::sync::OnceLock;

/// The virtual machine. It implements what MMTk asks for: [`crate::object`] has the layout of objects,
/// [`crate::collection`] the rest.
#[derive(Debug, Default)]
pub(crate) struct Vm;

static MMTK_INSTANCE: OnceLock<&'static MMTK<Vm>> = OnceLock::new();

/// The one instance of this process.
///
/// # Panics
/// Before [`hold`].
pub(crate) fn mmtk() -> &'static MMTK<Vm> {
    MMTK_INSTANCE.get().expect("the machine was started")
}

/// `instance` was built of options: objects can be allocated from now on, and nothing is collected.
pub(crate) fn hold(instance: MMTK<Vm>) {
    let _ = MMTK_INSTANCE.set(Box::leak(Box::new(instance)));
}

impl VMBinding for Vm {
    type VMObjectModel = Vm;
    type VMScanning = Vm;
    type VMCollection = Vm;
    type VMActivePlan = Vm;
    type VMReferenceGlue = Vm;
    type VMSlot = SimpleSlot;
    type VMMemorySlice = UnimplementedMemorySlice;

    const MIN_ALIGNMENT: usize = 8;
    const MAX_ALIGNMENT: usize = 8;
    const USE_ALLOCATION_OFFSET: bool = false;
}
