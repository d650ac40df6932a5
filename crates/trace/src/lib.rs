//! Traces of one multi-threaded Java program: what each thread allocates, locks and computes, and where
//! objects die.
//!
//! A trace holds one stream of events for each thread. Only the order within a stream is fixed. Who reads the
//! streams decides how the threads interleave, and so a simulator can ask what another scheduler would have
//! done (Xian, Srisa-an and Jiang, "Allocation-Phase Aware Thread Scheduling Policies to Improve Garbage
//! Collection Performance", section 4).
//!
//! | module | is |
//! |---|---|
//! | [`event`] | what happens in a thread, and the numbers of threads, objects and monitors |

pub mod event;

pub use event::{ClassId, Event, MonitorId, ObjectId, SiteId, ThreadId};
