//! An agent for HotSpot virtual machines that records what the threads of a program do: allocate, store
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
//! [`entry`]: what the machine calls. [`session`]: what all threads have in common; [`recorder`]: what one
//! thread records; [`met`]: the classes that it has met; [`biased`]: its lock; [`keeper`]: writes it now and
//! then. [`collector`]: the machine's collector; [`counters`]: its own count; [`sizes`]: those of very large
//! objects; [`report`]: what is told at the end. [`weave`]: what is inserted into code, [`helper`] and
//! [`hooks`]: what that calls, [`fields`]: numbers of fields, [`classfile`]: how it is inserted. [`table`],
//! [`jvmti`], [`jni`]: the machine's interfaces. [`guard`]:
//! panics stay here.

pub mod biased;
pub mod classfile;
pub mod collector;
pub mod counters;
pub mod entry;
pub mod fields;
pub mod guard;
pub mod helper;
pub mod hooks;
pub mod jni;
pub mod jvmti;
pub mod keeper;
pub mod met;
pub mod recorder;
pub mod report;
pub mod session;
pub mod sizes;
pub mod table;
pub mod weave;
