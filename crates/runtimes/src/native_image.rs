//! Java programs that were compiled ahead of time (GraalVM). They have no virtual machine to ask.

use crate::runtime::{Runtime, Steered};
pub use plimsoll_programs::native_image::NativeImage;

impl Runtime for NativeImage {
    fn steered(&self) -> Steered {
        Steered::LeftAlone(
            "it is a native image of GraalVM, which has no lever that is known: it is passive, and nothing \
             is added, sent or signalled to it",
        )
    }
}
