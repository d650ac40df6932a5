//! Numbers of a class file, most significant byte first.

use super::Fault;

/// Reads from the front.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// From the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// [`Fault::Damaged`] if there are fewer.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(length).ok_or(Fault::Damaged)?;
        let taken = self.bytes.get(self.at..end).ok_or(Fault::Damaged)?;
        self.at = end;
        Ok(taken)
    }

    /// One byte.
    ///
    /// # Errors
    /// As [`Reader::take`].
    pub fn u1(&mut self) -> Result<u8, Fault> {
        self.take(1).map(|it| it[0])
    }

    /// Two bytes.
    ///
    /// # Errors
    /// As [`Reader::take`].
    pub fn u2(&mut self) -> Result<u16, Fault> {
        self.take(2).map(|it| u16::from_be_bytes([it[0], it[1]]))
    }

    /// Four bytes.
    ///
    /// # Errors
    /// As [`Reader::take`].
    pub fn u4(&mut self) -> Result<u32, Fault> {
        self.take(4)
            .map(|it| u32::from_be_bytes([it[0], it[1], it[2], it[3]]))
    }
}

/// Appends two bytes.
pub fn put2(into: &mut Vec<u8>, number: u16) {
    into.extend_from_slice(&number.to_be_bytes());
}

/// Appends four bytes.
pub fn put4(into: &mut Vec<u8>, number: u32) {
    into.extend_from_slice(&number.to_be_bytes());
}

/// A length as two bytes.
///
/// # Errors
/// [`Fault::Long`] if it does not fit.
pub fn short(number: usize) -> Result<u16, Fault> {
    u16::try_from(number).map_err(|_| Fault::Long)
}
