//! Registered threads: their stacks are roots, and collections stop them.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `local` | words in thread-local storage |
//! | `record`, `registered` | the state of one registered thread; all of them |
//! | `deferral`, `joining`, `stack_use` | parts of it: stops that are put off, the result, the stacks |
//! | `current` | the current thread |
//! | `pthreads`, `exit` | threads that are created through the collector; the end of any thread |
//! | `unregistered` | threads that are not registered |
//! | `stack` | the bounds of a thread's stack |
//! | `scan` | the roots of all threads |
//! | `stop`, `handshake` | stops the world |
//! | `suspend` | threads that the program suspends |
//! | `blocking`, `registers` | regions in which a thread does not touch objects; its registers on its stack |
//! | `cancel` | keeps cancellation out of code that holds the lock |
//! | `float_environment` | keeps the program's floating-point environment out of it |

pub(crate) mod blocking;
pub(crate) mod cancel;
pub(crate) mod current;
mod deferral;
pub(crate) mod exit;
pub(crate) mod float_environment;
mod handshake;
mod joining;
pub(crate) mod local;
pub(crate) mod pthreads;
pub(crate) mod record;
pub(crate) mod registered;
pub(crate) mod registers;
mod scan;
pub(crate) mod stack;
pub(crate) mod stack_use;
pub(crate) mod stop;
pub(crate) mod suspend;
pub(crate) mod unregistered;
