//! Objects: a header word, slots that refer to other objects, words without references.

use crate::vm::Vm;
use mmtk::util::copy::{CopySemantics, GCWorkerCopyContext};
use mmtk::util::{Address, ObjectReference};
use mmtk::vm::slot::SimpleSlot;
use mmtk::vm::{
    ObjectModel, VMGlobalLogBitSpec, VMLocalForwardingBitsSpec, VMLocalForwardingPointerSpec,
    VMLocalLOSMarkNurserySpec, VMLocalMarkBitSpec,
};

/// Bytes of a word.
pub(crate) const WORD_BYTES: usize = 8;

/// The shape of an object. The header holds it: slots in the lower half, words in the upper one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Words that refer to objects; they follow the header.
    pub(crate) slots: u32,
    /// Words without references; they come last.
    pub(crate) words: u32,
}

impl Shape {
    /// All bytes, header included.
    pub(crate) fn bytes(self) -> usize {
        (1 + self.slots as usize + self.words as usize) * WORD_BYTES
    }

    fn to_header(self) -> u64 {
        u64::from(self.slots) | u64::from(self.words) << 32
    }

    /// Reads the shape of an object.
    pub(crate) fn of(object: ObjectReference) -> Shape {
        // SAFETY: every object of this machine begins with its header, which only a copying
        // collection overwrites, in the old copy, that nobody reads any more.
        let header: u64 = unsafe { object.to_raw_address().load() };
        Shape {
            slots: header as u32,
            words: (header >> 32) as u32,
        }
    }
}

/// The address of a slot.
pub(crate) fn slot(object: ObjectReference, index: u32) -> Address {
    object.to_raw_address() + (1 + index as usize) * WORD_BYTES
}

/// The slot itself, as MMTk sees it.
pub(crate) fn simple_slot(object: ObjectReference, index: u32) -> SimpleSlot {
    SimpleSlot::from_address(slot(object, index))
}

/// Makes an object of fresh memory: the header, and slots that refer to nothing. Free lists hand out
/// memory that was used before.
pub(crate) fn format(at: Address, shape: Shape) -> Option<ObjectReference> {
    let object = ObjectReference::from_raw_address(at)?;
    // SAFETY: MMTk handed out these bytes for this object, and nobody else knows them yet.
    unsafe {
        at.store(shape.to_header());
        let slots = slot(object, 0).to_mut_ptr::<u8>();
        slots.write_bytes(0, shape.slots as usize * WORD_BYTES);
    }
    Some(object)
}

impl ObjectModel<Vm> for Vm {
    const GLOBAL_LOG_BIT_SPEC: VMGlobalLogBitSpec = VMGlobalLogBitSpec::side_first();
    const LOCAL_FORWARDING_POINTER_SPEC: VMLocalForwardingPointerSpec =
        VMLocalForwardingPointerSpec::in_header(0);
    const LOCAL_FORWARDING_BITS_SPEC: VMLocalForwardingBitsSpec =
        VMLocalForwardingBitsSpec::side_first();
    const LOCAL_MARK_BIT_SPEC: VMLocalMarkBitSpec =
        VMLocalMarkBitSpec::side_after(Self::LOCAL_FORWARDING_BITS_SPEC.as_spec());
    const LOCAL_LOS_MARK_NURSERY_SPEC: VMLocalLOSMarkNurserySpec =
        VMLocalLOSMarkNurserySpec::side_after(Self::LOCAL_MARK_BIT_SPEC.as_spec());
    const UNIFIED_OBJECT_REFERENCE_ADDRESS: bool = true;
    const OBJECT_REF_OFFSET_LOWER_BOUND: isize = 0;

    fn copy(
        from: ObjectReference,
        semantics: CopySemantics,
        context: &mut GCWorkerCopyContext<Vm>,
    ) -> ObjectReference {
        let bytes = Shape::of(from).bytes();
        let at = context.alloc_copy(from, bytes, WORD_BYTES, 0, semantics);
        copy_bytes(from.to_raw_address(), at, bytes);
        let to = Self::get_reference_when_copied_to(from, at);
        context.post_copy(to, bytes, semantics);
        to
    }

    fn copy_to(from: ObjectReference, to: ObjectReference, _region: Address) -> Address {
        let bytes = Shape::of(from).bytes();
        copy_bytes(from.to_raw_address(), to.to_raw_address(), bytes);
        to.to_raw_address() + bytes
    }

    fn get_reference_when_copied_to(_from: ObjectReference, to: Address) -> ObjectReference {
        // SAFETY: MMTk gives the address of memory for a copy, which is aligned and not zero.
        unsafe { ObjectReference::from_raw_address_unchecked(to) }
    }

    fn get_current_size(object: ObjectReference) -> usize {
        Shape::of(object).bytes()
    }

    fn get_size_when_copied(object: ObjectReference) -> usize {
        Shape::of(object).bytes()
    }

    fn get_align_when_copied(_object: ObjectReference) -> usize {
        WORD_BYTES
    }

    fn get_align_offset_when_copied(_object: ObjectReference) -> usize {
        0
    }

    fn get_type_descriptor(_object: ObjectReference) -> &'static [i8] {
        &[]
    }

    fn ref_to_object_start(object: ObjectReference) -> Address {
        object.to_raw_address()
    }

    fn ref_to_header(object: ObjectReference) -> Address {
        object.to_raw_address()
    }

    fn dump_object(object: ObjectReference) {
        eprintln!("{object}: {:?}", Shape::of(object));
    }
}

/// Compacting collections move objects by less than their size, so the ranges may overlap.
fn copy_bytes(from: Address, to: Address, bytes: usize) {
    // SAFETY: both are whole objects of `bytes` bytes, as MMTk says.
    unsafe { std::ptr::copy(from.to_ptr::<u8>(), to.to_mut_ptr::<u8>(), bytes) };
}
