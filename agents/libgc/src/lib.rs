//! Adapter for programs that are linked with the Boehm collector (libgc), loaded with `LD_PRELOAD`.
//!
//! It never changes the collector. It uses libgc's public functions only, and decides *when* to
//! collect and when to give memory back, like section 5.1 of the Viengoos paper: the heap may grow
//! to 15/16 of the available memory without a collection; when less than that is available, free
//! memory is discarded down to 7/8 of that threshold.
//!
//! # Glossary
//! - *limit*: bytes that the process and its family may use now, from the broker's page.
//! - *threshold*: 15/16 of the limit; above it the process collects. *Low water*: 7/8 of the threshold.
//! - *use*: anonymous resident bytes of the process and of the rest of its family.
//! - *mapped*: heap bytes that libgc holds and has not unmapped, touched or not.
//! - *used*: mapped bytes in blocks that hold objects, dead or alive.
//! - *other*: the part of the use that is not heap: malloc, stacks, and libgc's own tables;
//!   measured.
//! - *extent*: the heap that the program can fill without a collection: everything but the ballast.
//! - *ballast*: free heap that the adapter holds so that the program cannot use it; without memory
//!   behind it.
//! - *target*: the heap size to aim for: threshold - other. *Ceiling*: the larger of the target and
//!   of what the live data need to make progress (used after a collection + *guard*).
//! - *helper*: the adapter's thread ([`adapter_thread`]).
//!
//! # How a collection comes about
//! libgc's own rule is to collect when the bytes allocated since the last collection exceed a share
//! of the live data. The adapter switches it off with `GC_set_disable_automatic_collection`. Below
//! the ceiling the heap just grows. At the ceiling `GC_set_dont_expand` makes the program's own
//! thread collect, at the very allocation that would have needed a larger heap. When the limit
//! shrinks, the helper discards free heap, collects if that is not enough, and takes the surplus of
//! libgc's address range into [`ballast`]. When the limit rises, the program first gets the ballast
//! back.
//!
//! # Modules
//! In this order: each imports only from those before it.
//!
//! | module | is |
//! |---|---|
//! | [`symbols`], [`collector`] | libgc's functions: found, and called |
//! | [`settings`], [`own_memory`] | the environment; the process's own memory |
//! | [`schedule`] | the decisions, as pure functions |
//! | [`ballast`], [`heap`] | free heap that the program cannot use; libgc's counters without it |
//! | [`orders`], [`published`] | from the helper to the hooks; from the hooks to the helper |
//! | [`program_settings`], [`apply_schedule`] | the program's own settings; puts these or others in force |
//! | [`fork`] | keeps both sides of a fork sane |
//! | [`release`] | gives memory back |
//! | [`link`] | receives the numbers and sends the reports |
//! | [`adapter_thread`] | the thread |
//! | [`hooks`] | runs inside collections |
//! | [`interpose`] | intercepts the program's calls |

pub mod adapter_thread;
pub mod apply_schedule;
pub mod ballast;
pub mod collector;
pub mod fork;
pub mod heap;
pub mod hooks;
pub mod interpose;
pub mod link;
pub mod orders;
pub mod own_memory;
pub mod program_settings;
pub mod published;
pub mod release;
pub mod schedule;
pub mod settings;
pub mod symbols;
