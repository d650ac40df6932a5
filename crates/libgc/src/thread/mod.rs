//! Registered threads: their stacks are roots, and collections stop them.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `local` | words in thread-local storage |
//! | `record`, `registered` | the state of one registered thread; all of them |
//! | `current` | the current thread |
//! | `pthreads`, `exit` | threads that are created through the collector; the end of any thread |
//! | `unregistered` | threads that are not registered |
//! | `stack` | the bounds of a thread's stack |
//! | `scan` | which parts of a stack are roots |
//! | `stop`, `handshake` | stops the world |
//! | `suspend` | what programs may do to threads themselves |
//! | `blocking`, `registers` | regions in which a thread does not touch objects; its registers on its stack |
//! | `cancel` | keeps cancellation out of code that holds the lock |
//! | `floats` | keeps the program's floating-point environment out of it |

pub(crate) mod blocking;
pub(crate) mod cancel;
pub(crate) mod current;
pub(crate) mod exit;
pub(crate) mod floats;
mod handshake;
pub(crate) mod local;
pub(crate) mod pthreads;
pub(crate) mod record;
pub(crate) mod registered;
pub(crate) mod registers;
mod scan;
pub(crate) mod stack;
pub(crate) mod stop;
pub(crate) mod suspend;
pub(crate) mod unregistered;
