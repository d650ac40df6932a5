//! Sense: reads the memory of the domain and the principals. The readers of each tick keep their
//! files open and do not allocate. Expensive readings (working sets, shared memory) are sampled by
//! a separate thread, and another thread searches for descendants.
//!
//! # Glossary
//! - *tree*: the process of a principal and its descendants, without those that are principals
//!   themselves, and without descendants of those.
//! - *figures*: bytes that a tree or a cgroup holds.
//! - *segment*: shared memory that several principals may map.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `domain` | a domain: its capacity and its use |
//! | `process_facts` | what rules match of a process, and the cgroup that binds it |
//! | `tree` | the processes of one principal |
//! | `descendants` | the thread that searches for descendants |
//! | `sampler` | the thread that samples working sets and shared memory |
//! | `file_window` | what a process uses of each file that it maps |
//! | `files` | divides what several principals use of a file |
//! | `samples` | what is sampled, and how it is exchanged |
//! | `shared` | divides what several principals map |

mod descendants;
mod domain;
mod file_window;
mod files;
mod process_facts;
mod sampler;
mod samples;
mod shared;
mod tree;

pub use descendants::{Request, Scanner};
pub use domain::RootDomain;
pub use process_facts::{facts_of, limiting_group};
pub use sampler::Sampler;
pub use samples::{Portion, Sampled, Subject};
pub(crate) use samples::{WORTHWHILE, changed};
pub use tree::{Figures, Found, Instance, Tree, open};
