//! Threads, a scheduler and a collector over the trace of one program: the simulator of "Allocation-Phase
//! Aware Thread Scheduling Policies to Improve Garbage Collection Performance" (Xian, Srisa-an and Jiang,
//! ISMM 2007, section 4).
//!
//! | word | meaning |
//! |---|---|
//! | *stream* | the events of one thread, in an order that no scheduler changes |
//! | *work* | bytes that collections mark or copy |
//! | *mark/cons* | work, divided by the bytes that were allocated |
//! | *pause* | the time for which a collection stops all threads; also its work divided by the heap's size |
//! | *contention* | a thread finds a monitor held by another one |
//! | *switch* | a processor is given to another thread than the one that ran on it before |
//! | *turnaround* | from the start of a thread until its end |
//!
//! The paper's challenges (section 4.1), and what is done about each:
//! 1. *When a thread is created*: where its creator stands on its own allocation clock
//!    ([`plimsoll_trace::Event::Start`]), so the time is the same under each scheduler.
//! 2. *When a quantum is used up*: computing is cut at the very nanosecond, and memory counted by allocation.
//! 3. *Which thread has which lock*: one monitor each, with its contenders in the order of their coming. A
//!    release makes all of them ready, and they compete again.
//!
//! Deterministic: virtual time in nanoseconds, no clock and no randomness. Memory is proportional to the live
//! objects and the threads, not to the events.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `program` | the streams that are simulated |
//! | `traced` | a trace as a program |
//! | `settings` | processors, discipline, heap, and what things cost |
//! | `machine` | processors and time: which threads run, and until when |
//! | `running` | a program that goes on as far as it is told, with a heap that is resized |
//! | `ready`, `directory` | parts of that: the ready queue; threads by their numbers |
//! | `stretch` | a time in which only one processor acts |
//! | `thread`, `reading` | what is known of one thread; how far it has come in its stream |
//! | `step` | what each event does |
//! | `waiting` | blocking and waking |
//! | `monitors` | which threads hold monitors, contend for them and wait in them |
//! | `ground` | the memory below a heap, and what says how large the heap may be |
//! | `objects` | the heap with its objects |
//! | [`heap`] | the collectors |
//! | `tally` | counting while the simulation runs |
//! | `outcome` | what the simulation shows: its quantities, each declared once |
//! | `log` | what happened, for whoever wants to know |
//! | `error` | why a simulation has no outcome |

mod directory;
mod error;
mod ground;
pub mod heap;
mod log;
mod machine;
mod monitors;
mod objects;
mod outcome;
mod program;
mod reading;
mod ready;
mod running;
mod settings;
mod step;
mod stretch;
mod tally;
mod thread;
mod traced;
mod waiting;

pub use error::{Position, SimError, Stuck};
pub use ground::{Collected, Ground, Told};
pub use log::{Log, What};
pub use outcome::{Outcome, QUANTITIES, Quantity, Quartiles, Unit};
pub use program::{Program, ReadError, Stream, Streams};
pub use running::Running;
pub use settings::{Costs, Settings};
pub use traced::{Survey, Traced};

/// Simulates a program.
///
/// # Errors
/// The trace is damaged or contradicts itself, threads wait for each other for ever, or the heap is too
/// small.
pub fn simulate(program: &mut dyn Program, settings: &Settings) -> Result<Outcome, SimError> {
    simulate_and_tell(program, settings, &mut ())
}

/// Simulates a program, and tells what happens while it does.
///
/// # Errors
/// As those of [`simulate`].
pub fn simulate_and_tell(
    program: &mut dyn Program,
    settings: &Settings,
    log: &mut impl Log,
) -> Result<Outcome, SimError> {
    machine::Machine::new(program, settings, log, ())?.run()
}
