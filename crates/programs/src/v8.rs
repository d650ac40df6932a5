//! Programs that run V8, as Node does.

use crate::candidate::Candidate;
use crate::elf::Image;
use crate::recognise::Recognise;
use std::path::Path;

/// The variable that holds the first number of the version.
pub const VERSION: &str = "_ZN2v88internal7Version6major_E";

/// Programs that run V8.
#[derive(Clone, Copy, Debug)]
pub struct V8;

impl Recognise for V8 {
    fn name(&self) -> &'static str {
        "v8"
    }

    fn runs(&self, process: &Candidate<'_>) -> bool {
        self.image(process).is_some()
    }
}

impl V8 {
    /// The file of a process that V8 is in.
    pub fn image(self, process: &Candidate<'_>) -> Option<Image> {
        let is_v8 = |image: &Image| image.exported(VERSION).is_some();
        let is_library = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("libnode.so") || name.starts_with("libv8.so"))
        };
        Image::of_executable(process)
            .filter(is_v8)
            .or_else(|| Image::of(process, is_library).filter(is_v8))
    }
}
