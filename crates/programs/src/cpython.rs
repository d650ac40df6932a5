//! Programs of Python that run in its standard interpreter.

use crate::candidate::Candidate;
use crate::elf::Image;
use crate::recognise::Recognise;
use std::path::Path;

/// The standard interpreter.
#[derive(Clone, Copy, Debug)]
pub struct CPython;

impl Recognise for CPython {
    fn name(&self) -> &'static str {
        "cpython"
    }

    fn runs(&self, process: &Candidate<'_>) -> bool {
        self.image(process).is_some()
    }
}

impl CPython {
    /// The file of a process that the interpreter is in.
    pub fn image(self, process: &Candidate<'_>) -> Option<Image> {
        // `libpython3.so` holds nothing itself.
        let is_library = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| {
                (name.starts_with("libpython2.") || name.starts_with("libpython3."))
                    && !name.starts_with("libpython3.so")
            })
        };
        let has_it = |image: &Image| image.exported("Py_GetVersion").is_some();
        Image::of(process, is_library)
            .filter(has_it)
            .or_else(|| Image::of_executable(process).filter(has_it))
    }
}
