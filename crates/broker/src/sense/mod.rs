//! Sense: what the domain and the principals hold. The readers of each tick keep their files open
//! and allocate nothing; what is dear (working sets, shared memory) is sampled by a thread of its
//! own, and another one looks for descendants.
//!
//! # Glossary
//! - *tree*: the process of a principal and its descendants, without those that are principals of
//!   their own (and what descends from them).
//! - *figures*: bytes that a tree or a cgroup holds.
//! - *segment*: shared memory that several principals may map.

mod place;
mod root;
mod sampler;
mod scan;
mod shared;
mod tree;

pub use place::{facts_of, limiting_group};
pub use root::RootDomain;
pub use sampler::{Portion, Sampled, Sampler, Subject};
pub use scan::{Request, Scanner};
pub use tree::{Figures, Found, Instance, Tree, open};
