//! Java virtual machines of OpenJDK (`HotSpot`), JDK 11 to 25, seen from outside: the process is not
//! attached to, nothing is loaded into it, and it does not stop.
//!
//! `libjvm.so` tells debuggers where the fields of its objects are, by the names of their types. Every
//! field is found by those names and never by a number of ours, so that other builds and versions are
//! read right or not at all. Only memory that is resident is read. Values may change while they are
//! read, and are not trusted: addresses must be mapped, sizes and lists have bounds.
//!
//! | module | is |
//! |---|---|
//! | `library` | `libjvm.so`: its file, and its variables in the process |
//! | `initialiser` | numbers that it sets with its first instructions |
//! | `fields` | fields by name |
//! | `heap` | the Java heap: which collector, which part is what |
//! | `spaces` | the heaps of Serial, Parallel, Epsilon and CMS |
//! | `regions`, `zgc` | the heaps of G1 and Shenandoah; of ZGC |
//! | `collector` | what the collector keeps about the heap |
//! | `code`, `metaspace`, `threads` | the code cache; metadata of classes; stacks |
//! | [`allocation`] | what each Java thread has allocated, read again and again |

pub mod allocation;
mod code;
mod collector;
mod fields;
mod heap;
mod initialiser;
mod library;
mod metaspace;
mod regions;
mod spaces;
#[cfg(test)]
mod tests;
mod threads;
mod zgc;

use crate::labels::{Labeller, Labels};
use crate::memory::{Memory, Unread};
use crate::snapshot::Snapshot;
use fields::{Known, Machine};
use library::Library;
pub use plimsoll_programs::hotspot::HotSpot;
use plimsoll_programs::hotspot::tables::{self, Place, Source as _, Tables};

impl Labeller for HotSpot {
    fn title(&self) -> &'static str {
        "HotSpot"
    }

    fn label(&self, snapshot: &Snapshot, memory: &dyn Memory, labels: &mut Labels) {
        match tables(snapshot, memory) {
            Ok(tables) => label(&tables, snapshot, memory, labels),
            Err(why) => label_without(snapshot, why, labels),
        }
    }
}

/// Reads what the machine of a process tells debuggers.
///
/// # Errors
/// Why not, for the person who asked.
pub fn tables(snapshot: &Snapshot, memory: &dyn Memory) -> Result<Tables, &'static str> {
    let mut library = Library::open(snapshot, memory).ok_or(
        "its libjvm.so cannot be opened: it was deleted or replaced, or is not readable for us",
    )?;
    if library.exported(tables::FIRST).is_none() {
        return Err(
            "its libjvm.so was built without the tables for debuggers (gHotSpotVMStructs): jstat -gc and \
             jcmd VM.native_memory tell what the JVM itself knows",
        );
    }
    let missing = "the tables for debuggers of its libjvm.so are not in memory";
    let tables = Tables::read(&mut library).ok_or(missing)?;
    if !has_heap(&tables, memory) {
        return Err("the JVM is just starting and has no heap yet");
    }
    // Its first instructions set the numbers in the tables, and its heap comes later. Tables that were read
    // before the heap was seen may be half set.
    library.forget_memory();
    Tables::read(&mut library).ok_or(missing)
}

/// Whether a machine has a heap. Where its address was written to swap meanwhile, it has one.
fn has_heap(tables: &Tables, memory: &dyn Memory) -> bool {
    let key = ("Universe".to_owned(), "_collectedHeap".to_owned());
    match tables.fields.get(&key).map(|field| field.place) {
        Some(Place::Static(at)) => !matches!(memory.word(at), Ok(0) | Err(Unread::Absent)),
        _ => true,
    }
}

fn label(tables: &Tables, snapshot: &Snapshot, memory: &dyn Memory, labels: &mut Labels) {
    let mapped = fields::mapped(snapshot);
    let machine = Machine::new(tables, snapshot, memory, &mapped);
    if let Err(why) = heap::label(&machine, snapshot, labels) {
        heap::label_by_mappings(snapshot, labels);
        labels.note(format!(
            "the Java heap is shown as a whole, and what the collector keeps about it as other or malloc, \
             because {why}"
        ));
    }
    tell("the code cache", code::label(&machine, labels), labels);
    let metaspace = metaspace::label(&machine, snapshot, labels);
    tell("some of the metadata of classes", metaspace, labels);
    tell(
        "stacks of Java threads",
        threads::label(&machine, labels),
        labels,
    );
}

/// Labels what can be told without the machine's own data.
fn label_without(snapshot: &Snapshot, why: &str, labels: &mut Labels) {
    heap::label_by_mappings(snapshot, labels);
    labels.note(format!(
        "the parts of the Java heap, the collector's structures, the code cache and metaspace are not told \
         apart, because {why}"
    ));
}

fn tell(what: &str, outcome: Known<()>, labels: &mut Labels) {
    if let Err(why) = outcome {
        labels.note(format!(
            "{what} could not be told from other memory, because {why}"
        ));
    }
}
