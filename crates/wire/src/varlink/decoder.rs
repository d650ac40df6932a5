//! Cuts a byte stream into messages.

use super::MAX_MESSAGE;

/// A larger buffer that is hardly used is given back. Bytes.
const KEEP: usize = 4096;

/// Why a stream cannot be cut any further; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// There is no NUL within the longest allowed length.
    #[error("a message is longer than {max} bytes: end each message with a NUL byte")]
    TooLong {
        /// Longest allowed message, bytes.
        max: usize,
    },
    /// Two NULs in a row.
    #[error("an empty message: send one JSON object before each NUL byte")]
    Empty,
}

/// Cuts a byte stream into messages, independent of how the bytes arrive.
///
/// Push the bytes that were read, then take messages until there is none. The rest (at most the
/// longest message) waits for the next push. The same bytes give the same messages and the same
/// error however they are cut. After an error the decoder stays in error.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Offset of the next message.
    start: usize,
    /// Offset up to which no NUL was found.
    scanned: usize,
    max: usize,
    failed: Option<FramingError>,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new(MAX_MESSAGE)
    }
}

impl Decoder {
    /// For messages of at most `max` bytes ([`MAX_MESSAGE`] in the broker, [`super::MAX_REPLY`] in
    /// a client).
    pub fn new(max: usize) -> Decoder {
        Decoder {
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            max,
            failed: None,
        }
    }

    /// Adds bytes. A caller that takes all messages out between two pushes never holds more than
    /// the longest message and one push.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        self.compact();
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message, without its NUL; `None` when it is not complete yet.
    ///
    /// # Errors
    /// When a message is too long or empty; all later calls return the same error.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, FramingError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let end = memchr_nul(&self.buffer[self.scanned..]).map(|at| self.scanned + at);
        let length = end.unwrap_or(self.buffer.len()) - self.start;
        if length > self.max {
            return self.fail(FramingError::TooLong { max: self.max });
        }
        let Some(end) = end else {
            self.scanned = self.buffer.len();
            self.compact();
            return Ok(None);
        };
        if length == 0 {
            return self.fail(FramingError::Empty);
        }
        let message = self.start..end;
        self.start = end + 1;
        self.scanned = self.start;
        Ok(Some(&self.buffer[message]))
    }

    /// Bytes that wait for the rest of their message (or to be taken out).
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Bytes of memory that it holds. When all messages were taken out, at most four times the
    /// unfinished bytes, or 4096.
    pub fn held(&self) -> usize {
        self.buffer.capacity()
    }

    fn fail(&mut self, error: FramingError) -> Result<Option<&[u8]>, FramingError> {
        self.failed = Some(error);
        self.buffer = Vec::new();
        self.start = 0;
        self.scanned = 0;
        Err(error)
    }

    fn compact(&mut self) {
        if self.start == 0 {
            return;
        }
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        let capacity = self.buffer.capacity();
        if capacity > KEEP && capacity / 4 > self.buffer.len() {
            self.buffer.shrink_to(KEEP);
        }
    }
}

fn memchr_nul(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == 0)
}
