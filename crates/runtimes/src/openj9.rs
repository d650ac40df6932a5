//! `OpenJ9`: the other Java virtual machine. It has none of `HotSpot`'s flags, counters and
//! commands.

use crate::runtime::{Runtime, Steered};
pub use plimsoll_programs::openj9::OpenJ9;

impl Runtime for OpenJ9 {
    fn steered(&self) -> Steered {
        Steered::LeftAlone(
            "it is an OpenJ9 virtual machine, which has no lever that is known: it is passive, and nothing \
             is added, sent or signalled to it",
        )
    }
}
