//! Which of the ready threads runs next, and for how long, so that more of what they allocated is dead when
//! the collector comes: round robin, LARF and MQRR of "Allocation-Phase Aware Thread Scheduling Policies to
//! Improve Garbage Collection Performance" (Xian, Srisa-an and Jiang, ISMM 2007, sections 3 and 6).
//!
//! | word | meaning |
//! |---|---|
//! | *allocation phase* | a thread allocates much, most of which dies in the computation that follows |
//! | *quantum* | how long a thread runs before another may: a time, allocated bytes, or both |
//! | *dispatch* | a thread is taken from the ready queue and given a processor |
//! | *patience* | how many rounds a ready thread is passed over before it is next, whatever its rank |
//! | *round* | as many dispatches as there are threads |
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `discipline` | the trait of all disciplines: a quantum and a rank |
//! | `round_robin`, `larf`, `mqrr` | the disciplines |
//! | `rule` | the disciplines by name, and their quanta |
//! | `queue` | the ready queue: order, priorities, and the bound on waiting |
//! | [`live`] | the disciplines on a real kernel: which threads are in front, and whether it is worth it |
//!
//! Threads block and wake outside: a blocked thread is simply not in the queue. The paper leaves three
//! problems open, which [`ReadyQueue`] and [`Quantum`] solve: a thread that allocates much starves under
//! LARF, a thread that allocates nothing keeps its processor forever under MQRR, and neither knows
//! priorities.

mod discipline;
mod larf;
pub mod live;
mod mqrr;
mod queue;
mod round_robin;
mod rule;
#[cfg(test)]
mod tests;

pub use discipline::{Discipline, Quantum, Ties, Used};
pub use larf::Larf;
pub use mqrr::Mqrr;
pub use queue::{Priority, ReadyQueue, Thread};
pub use round_robin::RoundRobin;
pub use rule::{Quanta, Rule};

use plimsoll_unit::{Bytes, Nanos};

/// Time quantum of the paper: how long threads ran on its platform before they were preempted (section 5).
pub const TIME_QUANTUM: Nanos = Nanos(1_140_000);
/// Memory quantum of the paper (section 5).
pub const MEMORY_QUANTUM: Bytes = Bytes(10 << 10);
/// The longest that a thread runs that allocates too little to use its memory quantum: the full
/// slice of the kernel that the paper names (section 5).
pub const TIME_BOUND: Nanos = Nanos::millis(100);
/// Rounds that a ready thread may be passed over. A thread that is always last in rank still gets a ninth of
/// what it would get in turn.
pub const PATIENCE: u32 = 8;
