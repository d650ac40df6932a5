//! Where a program will start: what is looked for on its behalf is looked for from there.

use std::ffi::OsString;
use std::path::Path;

/// Where a program will start.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// Reads a variable of the environment that it will have.
    pub variables: &'a dyn Fn(&str) -> Option<OsString>,
    /// Its working directory; ours when empty.
    pub folder: &'a Path,
}

impl Setting<'_> {
    /// Where we are.
    pub fn ours() -> Setting<'static> {
        Setting {
            variables: &|name: &str| std::env::var_os(name),
            folder: Path::new(""),
        }
    }
}
