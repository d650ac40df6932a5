//! When a collection is due, what it covers, how it is made and how large the heap is afterwards, for any
//! front end of [`plimsoll_heap`]. A front end implements [`FrontEnd`]; it owns one [`Collector`] for a heap.
//!
//! # Map
//!
//! | module | content |
//! |---|---|
//! | `front_end` | [`FrontEnd`], the half that differs between languages, and its settings ([`Conditions`]) |
//! | `driver` | [`Driver`]: the phases of a collection in their order, with the calls of the front end |
//! | `collector` | [`Collector`]: makes collections, and room for an allocation |
//! | `plan` | decides what a collection covers, and how it is made |
//! | `pace` | how much may be allocated until the next collection |
//! | `footprint` | how much memory there is around the heap |
//! | `settle` | the end of a collection: memory is given back or paged out, the next limit is set |
//! | `incremental` | incremental marking: one collection in several short pauses |
//! | `young` | collections of young objects |
//! | `workers` | mark workers: threads that help to mark |
//! | `cycle`, `statistics` | clocks, counters and the record of one collection; sums over all of them |
//! | `forecast` | how long the next collection would stop the world |
//!
//! # Invariants
//!
//! All state here is behind the lock of the front end, which the thread that collects holds from the
//! beginning to the end. Settings come as values: nothing here reads a variable of the program or of its
//! environment. While the world is stopped, nothing here allocates.

mod collector;
mod cycle;
mod driver;
mod footprint;
mod forecast;
mod front_end;
mod incremental;
mod pace;
mod plan;
mod settle;
mod statistics;
mod workers;
mod young;

pub use collector::{Collector, Settings, Usage};
pub use cycle::{Cycle, Record, Settled, Why, Work};
pub use driver::Driver;
pub use front_end::{Conditions, Event, FrontEnd, Scanned, Stress};
pub use statistics::Statistics;
pub use workers::Workers;
