//! The place where a program will start. Files and variables are looked up from there.

use std::ffi::OsString;
use std::path::Path;

/// The environment and the folder in which a program will start.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// Reads a variable of the program's environment.
    pub variables: &'a dyn Fn(&str) -> Option<OsString>,
    /// The program's working directory; ours if empty.
    pub folder: &'a Path,
}

impl Setting<'_> {
    /// Our own environment and folder.
    pub fn ours() -> Setting<'static> {
        Setting {
            variables: &|name: &str| std::env::var_os(name),
            folder: Path::new(""),
        }
    }
}
