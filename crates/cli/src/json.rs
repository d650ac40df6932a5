//! JSON that is safe to print on a terminal. JSON itself escapes only up to U+001F. Control
//! characters beyond that and marks that reverse a line affect terminals too, so they are escaped
//! as well. Parsers get the same text.

use plimsoll_wire::checks::is_printable;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write};

/// A value as one line, without a line end.
pub fn line<T: Serialize>(value: &T) -> String {
    escape(&serde_json::to_string(value).unwrap_or_default())
}

/// A value as indented JSON, with a line end.
pub fn pretty<T: Serialize>(value: &T) -> String {
    let mut text = escape(&serde_json::to_string_pretty(value).unwrap_or_default());
    text.push('\n');
    text
}

/// Writes a value piece by piece, as [`pretty`] or [`line()`] and a line end, so that a large one is never
/// in memory as text.
///
/// # Errors
/// Those of the writer.
pub fn write<T: Serialize>(value: &T, indented: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut safe = Safe {
        out: io::BufWriter::with_capacity(64 << 10, out),
        broken: Vec::new(),
    };
    if indented {
        serde_json::to_writer_pretty(&mut safe, value)?;
    } else {
        serde_json::to_writer(&mut safe, value)?;
    }
    safe.write_all(b"\n")?;
    safe.flush()
}

/// Escapes what passes through it.
struct Safe<W: Write> {
    out: W,
    /// The beginning of a character whose rest was not written yet.
    broken: Vec<u8>,
}

impl<W: Write> Write for Safe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.broken.is_empty() && bytes.is_ascii() && !bytes.contains(&0x7f) {
            self.out.write_all(bytes)?;
            return Ok(bytes.len());
        }
        self.broken.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.broken) {
            Ok(_) => self.broken.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Err(io::ErrorKind::InvalidData.into()),
        };
        let text: Vec<u8> = self.broken.drain(..whole).collect();
        let text = String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData)?;
        self.out.write_all(escape(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Escapes all characters that are not ASCII. This is safe anywhere: outside strings JSON is ASCII,
/// and inside strings no backslash precedes such a character.
fn escape(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_printable(c) || c == '\n' {
            escaped.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNSAFE: &str = concat!(
        "a\u{7f}\u{80}\u{9b}2J\u{9f}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}",
        "\u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\\\u{85}\"\u{1b}\n\t"
    );
    const SAFE: &str = "caf\u{e9} \u{65e5}\u{672c} \u{1f600}";

    #[test]
    fn what_steers_a_terminal_is_escaped_and_reads_back() {
        for text in [line(&UNSAFE), pretty(&[UNSAFE]), line(&(SAFE, UNSAFE))] {
            assert!(text.chars().all(|c| is_printable(c) || c == '\n'), "{text}");
        }
        assert!(line(&UNSAFE).contains("\\u009b2J") && line(&UNSAFE).contains("\\u202e"));
        let back: String = serde_json::from_str(&line(&UNSAFE)).unwrap();
        assert_eq!(back, UNSAFE);
        let back: Vec<String> = serde_json::from_str(&pretty(&[SAFE, UNSAFE])).unwrap();
        assert_eq!(back, [SAFE, UNSAFE]);
        assert!(line(&SAFE).contains(SAFE), "other text stays as it is");
    }

    #[test]
    fn what_is_written_in_pieces_is_the_same() {
        let value = (SAFE, UNSAFE, vec![1.5; 3]);
        let written = |indented| {
            let mut out = Vec::new();
            write(&value, indented, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(true), pretty(&value));
        assert_eq!(written(false), line(&value) + "\n");
        // Characters in pieces, byte by byte.
        let mut safe = Safe {
            out: Vec::new(),
            broken: Vec::new(),
        };
        let json = serde_json::to_string(&value).unwrap();
        for byte in json.bytes() {
            safe.write_all(&[byte]).unwrap();
        }
        assert_eq!(String::from_utf8(safe.out).unwrap(), escape(&json));
        assert!(safe.broken.is_empty());
    }
}
