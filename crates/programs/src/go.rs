//! Programs that were compiled by Go's own compiler.

use crate::candidate::Candidate;
use crate::elf::Image;
use crate::recognise::Recognise;

/// Programs of Go, with or without cgo, stripped or not.
#[derive(Clone, Copy, Debug)]
pub struct Go;

impl Recognise for Go {
    fn name(&self) -> &'static str {
        "go"
    }

    fn runs(&self, process: &Candidate<'_>) -> bool {
        self.image(process).is_some()
    }
}

impl Go {
    /// The executable of a process, if Go built it.
    pub fn image(self, process: &Candidate<'_>) -> Option<Image> {
        let is_built_by_go = |image: &Image| image.section(".go.buildinfo").is_some();
        Image::of_executable(process).filter(is_built_by_go)
    }
}
