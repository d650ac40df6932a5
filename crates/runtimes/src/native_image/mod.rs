//! Java programs that were compiled ahead of time (GraalVM). They have no virtual machine to ask.

use crate::detect::{Candidate, Command};
use crate::elf;
use crate::runtime::{Runtime, Steered};
use std::path::Path;

/// The section in which the compiler stores the objects that the program starts with.
const IMAGE_HEAP: &[u8] = b".svm_heap";

/// Native images of GraalVM, which are left alone.
#[derive(Clone, Copy, Debug)]
pub struct NativeImage;

impl Runtime for NativeImage {
    fn name(&self) -> &'static str {
        "native-image"
    }

    fn starts(&self, command: &Command<'_>) -> bool {
        command.executable().is_some_and(is_native_image)
    }

    fn runs(&self, process: &Candidate) -> bool {
        !process.is_closed() && is_native_image(&process.path("exe"))
    }

    fn steered(&self) -> Steered {
        Steered::LeftAlone(
            "it is a native image of GraalVM, which has no lever that is known: it is passive, and nothing \
             is added, sent or signalled to it",
        )
    }
}

fn is_native_image(executable: &Path) -> bool {
    elf::has_section(executable, IMAGE_HEAP)
}
