//! The code cache: one heap of code or three, each with a map of its segments.

use super::fields::{Known, Machine, Name, Unknown};
use crate::area::Kind;
use crate::labels::Labels;

/// Most heaps of code. There are three.
const MAX_HEAPS: u32 = 16;
const WHAT: &str = "the code cache";
const LENGTH: [Name; 2] = [
    ("GrowableArrayBase", "_len"),
    ("GenericGrowableArray", "_len"),
];
/// The table names the elements' place for one type only; it is the same for all.
const DATA: Name = ("GrowableArray<int>", "_data");

/// Labels the code cache.
pub(super) fn label(machine: &Machine<'_>, labels: &mut Labels) -> Known<()> {
    let array = machine.static_pointer(("CodeCache", "_heaps"))?;
    let length = machine.half(machine.at_any(array, &LENGTH)?)?;
    if length == 0 || length > MAX_HEAPS {
        return Err(Unknown::Odd(WHAT));
    }
    let data = machine.pointer(array, DATA)?;
    for index in 0..u64::from(length) {
        let heap = machine.word(data + index * 8)?;
        for name in ["_memory", "_segmap"] {
            let space = machine.at(heap, ("CodeHeap", name))?;
            labels.add(machine.virtual_space(space, WHAT)?, Kind::CodeCache);
        }
    }
    Ok(())
}
