//! Class files, read and written again with code inserted. Source: "The Java Virtual Machine Specification",
//! chapters 4 and 6.
//!
//! Inserted code has no branches and leaves the stack as it was. So no frame has to be computed: existing
//! frames move with the code.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | [`bytes`] | numbers, most significant byte first |
//! | [`pool`] | constants, to which some are added |
//! | [`instructions`] | instructions: lengths, targets, what they take from and put on the stack |
//! | [`frames`] | the types that a method's code has at its targets |
//! | [`method`] | one method's code with snippets in it |
//! | [`stack_check`] | whether a method keeps to the places that it has |
//! | [`verify_indices`] | whether the constants that are named are there |
//! | `file` | a whole class file, method by method |
//!
//! A class that the machine refuses must stay refused: a class that is not as it should be stays as it is.

pub mod bytes;
pub mod file;
pub mod frames;
pub mod instructions;
pub mod method;
pub mod pool;
pub mod stack_check;
pub mod verify_indices;

/// Why a class stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It ends too early, or refers to what is not there.
    #[error("the class file is damaged")]
    Damaged,
    /// A method does what is allowed, but what no compiler writes.
    #[error("a method is of no usual form")]
    Unusual,
    /// A method or the constants are longer than a class file can have.
    #[error("it is too long with what would be inserted")]
    Long,
}
