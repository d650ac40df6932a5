//! The tables of a collector about its heap, as far as the machine exports them: the card table, and
//! where objects begin (the block offset table). A note names the rest.

use super::fields::{Known, Machine, Name};
use super::heap::Collector;
use super::{spaces, tell};
use crate::area::Kind;
use crate::labels::Labels;

const WHAT: &str = "the card table";
/// The block offset table of the old generation.
const BLOCKS: [Name; 2] = [("TenuredGeneration", "_bts"), ("CardGeneration", "_bts")];
const SPACE_OF_BLOCKS: [Name; 2] = [
    ("SerialBlockOffsetTable", "_vs"),
    ("BlockOffsetSharedArray", "_vs"),
];

/// Labels the structures of a collector, and says which are not told apart.
pub(super) fn label(machine: &Machine<'_>, collector: Collector, heap: u64, labels: &mut Labels) {
    let labelled = label_exported(machine, collector, heap, labels);
    tell("the collector's own tables", labelled, labels);
    if let Some(structures) = not_exported(collector) {
        labels.note(format!(
            "the collector's {structures} are shown as other or malloc: the JVM does not tell where they are"
        ));
    }
}

/// The tables of a collector about its heap that the machine does not export. Serial marks in the
/// objects themselves, and Epsilon does not collect.
fn not_exported(collector: Collector) -> Option<&'static str> {
    match collector {
        Collector::Serial | Collector::Epsilon => None,
        Collector::Parallel => Some("mark bits, block offsets and tables of regions"),
        Collector::G1 => Some("mark bits, block offsets and remembered sets"),
        Collector::Shenandoah | Collector::Z => Some("mark bits and other tables"),
        Collector::Cms => Some("mark bits and block offsets"),
    }
}

fn label_exported(
    machine: &Machine<'_>,
    collector: Collector,
    heap: u64,
    labels: &mut Labels,
) -> Known<()> {
    let with_cards = [
        Collector::Serial,
        Collector::Parallel,
        Collector::G1,
        Collector::Cms,
    ];
    if with_cards.contains(&collector) {
        let barriers = machine.static_pointer(("BarrierSet", "_barrier_set"))?;
        let table = machine.pointer(barriers, ("CardTableBarrierSet", "_card_table"))?;
        let start = machine.get(table, ("CardTable", "_byte_map"))?;
        let size = machine.get(table, ("CardTable", "_byte_map_size"))?;
        labels.add(
            machine.range(start, start.saturating_add(size), WHAT)?,
            Kind::Collector,
        );
    }
    if collector == Collector::Serial {
        let old = spaces::old_generation(machine, heap)?;
        let table = machine.get_any(old, &BLOCKS)?;
        let space = machine.at_any(table, &SPACE_OF_BLOCKS)?;
        labels.add(
            machine.virtual_space(space, "the block offset table")?,
            Kind::Collector,
        );
    }
    Ok(())
}
