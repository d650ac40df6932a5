//! Standard output and error, and files that appear when they are complete: a file may be made of itself, and
//! an old one stays until the new one is whole.

use crate::error::CliError;
use crate::terminal_text;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes that are collected before they are written.
const BUFFER: usize = 256 << 10;

/// A file that is being written beside its place, with `.part` at the end of its name. If it is never
/// complete, it is removed; if we are killed, it stays and can be read as far as it goes. Errors name the
/// file that was asked for.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    part: PathBuf,
    /// Written in its place if that is no plain file, such as `/dev/null`.
    out: BufWriter<File>,
    whole: bool,
}

impl Output {
    /// Begins a file at this place.
    ///
    /// # Errors
    /// When it cannot be made, as with all functions here: the file is named.
    pub fn create(path: &Path) -> Result<Output, CliError> {
        let special = path.metadata().is_ok_and(|it| !it.is_file());
        let part = if special {
            path.to_owned()
        } else {
            let mut name = OsString::from(path.as_os_str());
            name.push(".part");
            PathBuf::from(name)
        };
        let file = File::create(&part).map_err(CliError::path(path))?;
        Ok(Output {
            path: path.to_owned(),
            part,
            out: BufWriter::with_capacity(BUFFER, file),
            whole: special,
        })
    }

    /// Waits until what was written is on the disk, for files that hold the work of hours.
    pub fn sync(&mut self) -> Result<(), CliError> {
        let flushed = self.out.flush();
        let synced = flushed.and_then(|()| self.out.get_ref().sync_all());
        synced.map_err(CliError::path(&self.path))
    }

    /// Puts the file in its place.
    pub fn complete(mut self) -> Result<(), CliError> {
        self.out.flush().map_err(CliError::path(&self.path))?;
        if self.part != self.path {
            std::fs::rename(&self.part, &self.path).map_err(CliError::path(&self.path))?;
        }
        self.whole = true;
        Ok(())
    }

    /// Replaces a file by this text, at once, so that a reader sees a whole one.
    pub fn replace(path: &Path, text: &str) -> Result<(), CliError> {
        let mut output = Output::create(path)?;
        let written = output.write_all(text.as_bytes());
        written.map_err(CliError::path(path))?;
        output.complete()
    }
}

/// Writes to standard error. Ignores errors, because nobody may read it.
pub fn say(text: std::fmt::Arguments<'_>) {
    let text = terminal_text::plainly(&text.to_string());
    let _ = writeln!(io::stderr(), "plimsoll: {text}");
}

/// Prints to standard output. Ends quietly if the reader has gone.
pub fn print(text: &str) -> Result<u8, CliError> {
    printed(io::stdout().write_all(text.as_bytes()))
}

/// The result of printing to standard output. A reader that has gone is no error.
pub fn printed(outcome: io::Result<()>) -> Result<u8, CliError> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::system("standard output")(error))
        }
        _ => Ok(0),
    }
}

/// Writes a whole text to this file, or to standard output where that is `-`.
pub fn put(path: &Path, text: &str) -> Result<(), CliError> {
    if path == Path::new("-") {
        print(text).map(|_| ())
    } else {
        Output::replace(path, text)
    }
}

/// As [`put`], for what is written piece by piece.
pub fn write(
    path: &Path,
    writing: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    if path == Path::new("-") {
        return printed(writing(&mut io::stdout().lock())).map(|_| ());
    }
    let mut output = Output::create(path)?;
    writing(&mut output).map_err(CliError::path(path))?;
    output.complete()
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
