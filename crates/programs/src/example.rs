//! A runtime without practical use: the recogniser of the worked example of `docs/src/adding-a-runtime.md`.
//! It knows programs called `plimsoll-example`.

use crate::candidate::Candidate;
use crate::command::Command;
use crate::recognise::Recognise;

/// The file name of programs of this runtime.
const PROGRAM: &str = "plimsoll-example";

/// Programs that are called `plimsoll-example`.
#[derive(Clone, Copy, Debug)]
pub struct Example;

impl Recognise for Example {
    fn name(&self) -> &'static str {
        "example"
    }

    /// Goes by the name of the file. Other runtimes look at what lies beside the file (`java`) or
    /// inside it (`elf`).
    fn starts(&self, command: &Command<'_>) -> bool {
        let file = command.executable().and_then(|file| file.file_name());
        file.is_some_and(|name| name == PROGRAM)
    }

    /// Goes by the mapped files, because the executable is one of them. Other runtimes look into
    /// the executable (`native_image`, `go`).
    fn runs(&self, process: &Candidate<'_>) -> bool {
        process.names().any(|name| name == PROGRAM)
    }
}
