//! The file with the limit of one program. It lies where the program looks for it, which may be in a
//! container, and belongs to the program's user.

use crate::process::Process;
use plimsoll_kernel::mapped::Named;
use plimsoll_unit::Bytes;
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// No file of ours is longer, bytes.
const LONGEST: u64 = 32;

/// The file of one program, whether it is there or not.
pub(super) struct LimitFile {
    /// The program's `/tmp`. It stays open, so that the file can be removed when the program has ended.
    folder: OwnedFd,
    /// Its name there.
    name: String,
    /// User and group of the program.
    owner: (u32, u32),
}

impl LimitFile {
    /// The file that this process reads. Nothing is done to it yet.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn of(process: &Process) -> io::Result<LimitFile> {
        let status = process.status()?;
        Ok(LimitFile {
            folder: process.tmp()?,
            // A program in a container knows itself by another number than we do.
            name: format!("plimsoll-example-{}.limit", status.inner_pid),
            owner: (status.euid, status.egid),
        })
    }

    /// Tells the program this limit.
    ///
    /// # Errors
    /// The system's error; that of [`Named::checked`] if somebody else put something there.
    pub(super) fn write(&self, limit: Bytes) -> io::Result<()> {
        let file = match Named::within(&self.folder, &self.name) {
            Ok(found) => found.checked(self.owner.0, LONGEST)?.open_to_write()?,
            Err(Errno::NOENT) => Named::make(&self.folder, &self.name, self.owner)?,
            Err(error) => return Err(error.into()),
        };
        let file = File::from(file);
        let text = format!("{}\n", limit.0);
        // First the line as a whole, then what is behind it: the program reads the first line.
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)
    }

    /// Removes the file, so that the program has no limit. It may be gone already.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn remove(&self) -> io::Result<()> {
        match unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
