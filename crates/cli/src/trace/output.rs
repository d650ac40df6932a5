//! Files that appear when they are complete, so that a file may be made of itself, and an old one stays until
//! the new one is whole.

use crate::error::CliError;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes that are collected before they are written.
const BUFFER: usize = 256 << 10;

/// A file that is being written beside its place, with `.part` at the end of its name. If it is never
/// complete, it is removed; if we are killed, it stays and can be read as far as it goes.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    part: PathBuf,
    /// Written in its place if that is no plain file, such as `/dev/null`.
    out: BufWriter<File>,
    whole: bool,
}

impl Output {
    pub(super) fn create(path: &Path) -> Result<Output, CliError> {
        let special = path.metadata().is_ok_and(|it| !it.is_file());
        let part = if special {
            path.to_owned()
        } else {
            let mut name = OsString::from(path.as_os_str());
            name.push(".part");
            PathBuf::from(name)
        };
        let file = File::create(&part).map_err(CliError::path(&part))?;
        Ok(Output {
            path: path.to_owned(),
            part,
            out: BufWriter::with_capacity(BUFFER, file),
            whole: special,
        })
    }

    /// Puts the file in its place.
    pub(super) fn complete(mut self) -> Result<(), CliError> {
        self.out.flush().map_err(CliError::path(&self.part))?;
        if self.part != self.path {
            std::fs::rename(&self.part, &self.path).map_err(CliError::path(&self.path))?;
        }
        self.whole = true;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.whole {
            // It is of no use to anybody, and nobody can be told.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}
