//! Traces of one multi-threaded Java program: the allocations, locks and computing of each thread, and the
//! deaths of objects.
//!
//! A trace holds one stream of events for each thread. Only the order within a stream is fixed. The reader of
//! the streams decides how the threads interleave, and so a simulator can ask what another scheduler would
//! have done (Xian, Srisa-an and Jiang, "Allocation-Phase Aware Thread Scheduling Policies to Improve Garbage
//! Collection Performance", section 4).
//!
//! Rooms inside, each imports only from those before it:
//! - [`event`] (events of a thread, and the numbers of threads, objects and monitors), [`error`] (faults
//!   and their places in a trace);
//! - [`numbered`] (maps by number);
//! - `varint` (numbers as bytes), `codec` (events as columns), `block` (the head of a block and its
//!   checksums), [`header`] (the head of a trace), [`names`], [`index`] (its end);
//! - [`writer`], [`reader`];
//! - [`order`] (the streams merged as the program ran), `live` (the objects that live), [`check`] (whether
//!   a trace makes sense);
//! - [`merlin`] (when objects die, computed from reference stores);
//! - [`synth`] (programs made up from a seed);
//! - [`fields`] (events as named numbers), [`text`] (lines and CSV), [`merge`] (one trace of several files).
//!
//! The format is documented in the book, so that a reader can be written from there.

mod block;
pub mod check;
mod codec;
pub mod error;
pub mod event;
pub mod fields;
pub mod header;
pub mod index;
mod live;
pub mod merge;
pub mod merlin;
pub mod names;
pub mod numbered;
pub mod order;
pub mod reader;
pub mod synth;
pub mod text;
mod varint;
pub mod writer;

pub use codec::Position;
pub use error::{At, BlockFault, EventFault, TraceError};
pub use event::{ClassId, Event, MonitorId, ObjectId, SiteId, ThreadId, TimeUnit};
pub use header::{Deaths, Header};
pub use index::Totals;
pub use names::{Named, Names};
pub use reader::{Ending, Source, Stream, Trace};
pub use writer::Writer;
