//! Adapter for programs that are linked with the Boehm collector (libgc), loaded with `LD_PRELOAD`.
//!
//! It never changes the collector: it uses libgc's public functions only, and decides *when* to
//! collect and when to give memory back, as section 5.1 of the Viengoos paper does: the heap may
//! grow to 15/16 of what is available without a collection, and when there is less, free memory is
//! discarded down to 7/8 of that threshold.
//!
//! # Glossary
//! - *limit*: bytes that the process (and its family) may use now, from the broker's page.
//! - *threshold*: 15/16 of the limit; above it the process collects. *Low water*: 7/8 of the threshold.
//! - *use*: anonymous resident bytes of the process, plus those of the rest of its family.
//! - *mapped*: heap bytes that libgc holds and has not unmapped, touched or not.
//! - *used*: mapped bytes in blocks that hold objects, dead or alive.
//! - *other*: use that is not heap: malloc, stacks, and libgc's own tables, measured.
//! - *extent*: heap that the program can fill without a collection: all but the ballast.
//! - *ballast*: free heap that the adapter keeps out of the program's reach, without memory behind it.
//! - *target*: what the heap may be: threshold - other. *Ceiling*: the target, or what the live data
//!   needs to make progress (used after a collection + *guard*), if that is more.
//! - *helper*: the adapter's thread.
//!
//! # How a collection comes about
//! libgc's own rule (collect when the bytes allocated since the last collection exceed a share of
//! the live data) is switched off by `GC_set_disable_automatic_collection`. Below the ceiling the
//! heap just grows. At the ceiling `GC_set_dont_expand` makes the program's own thread collect, at
//! the very allocation that would have needed a larger heap. When the limit shrinks, the helper
//! discards free heap, collects if that is not enough, and takes the surplus of libgc's address
//! range into [`ballast`]; when it rises, the program gets the ballast back first.
//!
//! # Rooms
//! [`schedule`] decides (pure), [`collector`] calls libgc ([`symbols`] finds it), [`interpose`] is
//! what the program's calls meet, [`hooks`] runs inside collections, [`helper`] is the thread,
//! [`release`] gives memory back, [`link`] brings the numbers and takes the reports, [`fork`] keeps
//! both sides of a fork sane, [`sense`] reads the process's own memory, [`settings`] reads the
//! environment.

pub mod ballast;
pub mod collector;
pub mod fork;
pub mod helper;
pub mod hooks;
pub mod interpose;
pub mod link;
pub mod release;
pub mod schedule;
pub mod sense;
pub mod settings;
pub mod symbols;
