//! Deterministic models of programs in too little memory. They run the very code of
//! `plimsoll_policy` and `plimsoll_decide`, with virtual time: no clock, no I/O, no randomness.
//!
//! | module | models |
//! |---|---|
//! | [`paging`] | heaps with a sizing policy each, in a memory whose pages are replaced by age |
//! | [`threads`] | the threads of one program under a scheduler and a collector, over its trace |
//! | [`together`] | several such programs in one memory, under a broker or a heap policy each |

pub mod paging;
pub mod threads;
pub mod together;
