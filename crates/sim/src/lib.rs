//! Deterministic models of programs in too little memory. They run the very code of
//! `plimsoll_policy`, with virtual time: no clock, no I/O, no randomness.
//!
//! | module | models |
//! |---|---|
//! | [`paging`] | heaps with a sizing policy each, in a memory whose pages are replaced by age |
//! | [`threads`] | the threads of one program under a scheduler and a collector, over its trace |

pub mod paging;
pub mod threads;
