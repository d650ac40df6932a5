//! Words of another process's memory, read only where it is resident.

use thiserror::Error;

/// Why memory was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unread {
    /// Reading it would bring it back from swap or from a file.
    #[error("it is not in memory")]
    NotResident,
    /// The kernel refuses to let us read this process's memory (`ptrace(2)`, access mode checks).
    #[error(
        "reading its memory needs the rights of a debugger (CAP_SYS_PTRACE, or kernel.yama.ptrace_scope 0)"
    )]
    Denied,
    /// Nothing is mapped there, or the process exited.
    #[error("nothing is mapped there")]
    Unmapped,
}

/// The memory of a process. A script in tests.
pub trait Memory {
    /// Fills `into` from address `at`.
    ///
    /// # Errors
    /// [`Unread`]; then `into` may be filled in part.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unread>;

    /// The 64-bit word at an address.
    ///
    /// # Errors
    /// [`Unread`].
    fn word(&self, at: u64) -> Result<u64, Unread> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// The 32-bit word at an address.
    ///
    /// # Errors
    /// [`Unread`].
    fn half_word(&self, at: u64) -> Result<u32, Unread> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }
}
