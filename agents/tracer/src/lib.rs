//! An agent for HotSpot virtual machines that records events of a program's threads: they allocate, store
//! references, use objects, lock, wait, start and end. Each thread writes a raw trace of its own
//! ([`plimsoll_trace`]) into a folder; `plimsoll trace` starts the machine with the agent, and computes
//! from these when objects die.
//!
//! # Glossary
//! - *machine*: the Java virtual machine in whose process this is loaded.
//! - *number* of an object: its identity hash. The machine is started so that it counts them up
//!   (`-XX:hashCode=3`), and each object gets its hash as it is allocated, one at a time.
//!
//! # Modules
//!
//! | module | is |
//! |---|---|
//! | [`entry`] | callbacks of the virtual machine |
//! | [`session`] | state that all threads share |
//! | [`recorder`], [`biased_lock`], [`flusher`] | events of one thread; its lock; writing events to disk |
//! | [`classes`], [`fields`] | classes that a thread has met; numbers of fields |
//! | [`collector`], [`counters`], [`sizes`] | the collector; counts of the machine; sizes of large objects |
//! | [`report`] | the report to `plimsoll trace` at the end |
//! | [`weave`], [`classfile`] | the code to insert, and its places; class files |
//! | [`recorder_class`], [`hooks`] | the class and the native methods that inserted code calls |
//! | [`function_table`], [`jvmti`], [`jni`] | interfaces of the virtual machine |
//! | [`panic_guard`] | keeps panics inside |

pub mod biased_lock;
pub mod classes;
pub mod classfile;
pub mod collector;
pub mod counters;
pub mod entry;
pub mod fields;
pub mod flusher;
pub mod function_table;
pub mod hooks;
pub mod jni;
pub mod jvmti;
pub mod panic_guard;
pub mod recorder;
pub mod recorder_class;
pub mod report;
pub mod session;
pub mod sizes;
pub mod weave;
