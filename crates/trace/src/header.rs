//! The head of a trace: its program and its units.

use crate::error::TraceError;
use crate::event::TimeUnit;
use crate::varint;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first bytes. The first one is no text, and the line ends show what copying as text damages.
pub const MAGIC: [u8; 8] = *b"\x89PLT\r\n\x1a\n";
/// The format that this version writes, and the newest that it reads.
pub const VERSION: u16 = 1;
/// Bytes before the facts.
pub(crate) const FIXED: usize = 40;
/// The most bytes of all facts.
pub const MAX_FACTS: usize = 64 << 10;

/// How exact the deaths of objects are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deaths {
    /// Each death stands right after the event that made the object unreachable.
    #[default]
    Exact,
    /// An object died at some time before the collection that found it; its death stands there.
    AtCollections,
    /// Objects whose deaths were not looked for.
    Unknown,
}

/// The description of a trace, before its first event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Which recording it is from; files of one recording can be merged.
    pub identity: [u8; 16],
    /// The unit of the times of [`Event::Compute`](crate::Event::Compute).
    pub unit: TimeUnit,
    /// How exact the deaths are.
    pub deaths: Deaths,
    /// Whether it is raw: with reference stores, and before exact deaths are computed.
    pub raw: bool,
    /// Further facts for a person: `program`, `machine`, `recorder` … At most [`MAX_FACTS`] bytes.
    pub facts: BTreeMap<String, String>,
}

impl Header {
    /// The header's bytes. Facts that do not fit any more are left out.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut facts = Vec::new();
        for (key, value) in &self.facts {
            if facts.len() + key.len() + value.len() + 2 * varint::LONGEST <= MAX_FACTS {
                for text in [key, value] {
                    varint::put(&mut facts, text.len() as u64);
                    facts.extend_from_slice(text.as_bytes());
                }
            }
        }
        let mut bytes = Vec::with_capacity(FIXED + facts.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0, 0]);
        let unit = match self.unit {
            TimeUnit::Nanoseconds => 0,
            TimeUnit::Instructions => 1,
        };
        let deaths = match self.deaths {
            Deaths::Exact => 0,
            Deaths::AtCollections => 1,
            Deaths::Unknown => 2,
        };
        bytes.extend_from_slice(&[unit, deaths, u8::from(self.raw), 0]);
        bytes.extend_from_slice(&self.identity);
        bytes.extend_from_slice(&(facts.len() as u32).to_le_bytes());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&bytes);
        sum.update(&facts);
        bytes.extend_from_slice(&sum.finalize().to_le_bytes());
        bytes.extend_from_slice(&facts);
        bytes
    }

    /// Reads a header, and how many bytes it has. `bytes` is the beginning of the file, of at least
    /// [`FIXED`] + [`MAX_FACTS`] bytes or the whole file.
    pub(crate) fn from_bytes(
        bytes: &[u8],
        trace: &Arc<str>,
    ) -> Result<(Header, usize), TraceError> {
        if !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) || bytes.is_empty() {
            return Err(TraceError::Foreign {
                trace: trace.clone(),
                hint: hint(bytes),
            });
        }
        let damaged = |length: usize, why| TraceError::Head {
            trace: trace.clone(),
            length: length as u64,
            why,
        };
        let fixed: &[u8; FIXED] = bytes
            .first_chunk()
            .ok_or_else(|| damaged(FIXED, "the file is shorter"))?;
        let version = u16::from_le_bytes([fixed[8], fixed[9]]);
        if version > VERSION {
            return Err(TraceError::Newer {
                trace: trace.clone(),
                version,
                known: VERSION,
            });
        }
        let facts_length =
            u32::from_le_bytes([fixed[32], fixed[33], fixed[34], fixed[35]]) as usize;
        let length = FIXED + facts_length.min(MAX_FACTS);
        let facts = bytes
            .get(FIXED..length)
            .filter(|_| facts_length <= MAX_FACTS)
            .ok_or_else(|| damaged(length, "the file ends before its facts do"))?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&fixed[..FIXED - 4]);
        sum.update(facts);
        if sum.finalize().to_le_bytes() != fixed[FIXED - 4..] {
            return Err(damaged(length, "the checksum is wrong"));
        }
        let unit = match fixed[12] {
            0 => TimeUnit::Nanoseconds,
            1 => TimeUnit::Instructions,
            _ => return Err(damaged(length, "the unit of time is unknown")),
        };
        let deaths = match fixed[13] {
            0 => Deaths::Exact,
            1 => Deaths::AtCollections,
            2 => Deaths::Unknown,
            _ => return Err(damaged(length, "how exact the deaths are is unknown")),
        };
        let mut identity = [0; 16];
        identity.copy_from_slice(&fixed[16..32]);
        let header = Header {
            identity,
            unit,
            deaths,
            raw: fixed[14] & 1 != 0,
            facts: read_facts(facts).ok_or_else(|| damaged(length, "a fact is no text"))?,
        };
        Ok((header, length))
    }
}

/// Guesses what a file is if it is no trace.
fn hint(bytes: &[u8]) -> &'static str {
    match bytes {
        [] => "it is empty",
        [b't', b'r', b'a', b'c', b'e', ..] | [b't', b'h', b'r', b'e', b'a', b'd', b',', ..] => {
            "it looks like text: `plimsoll trace convert` makes a trace of it"
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "the whole file is compressed: decompress it with zstd",
        [0x1f, 0x8b, ..] => "the whole file is compressed: decompress it with gunzip",
        [0x89, b'P', b'L', b'T', ..] => "it was copied as text, which changed its line ends",
        _ => "traces are written by `plimsoll trace`",
    }
}

fn read_facts(bytes: &[u8]) -> Option<BTreeMap<String, String>> {
    let mut at = 0;
    let mut facts = BTreeMap::new();
    while at < bytes.len() {
        let mut text = || {
            let length = usize::try_from(varint::take(bytes, &mut at).ok()?).ok()?;
            let text = bytes.get(at..at.checked_add(length)?)?;
            at += length;
            Some(std::str::from_utf8(text).ok()?.to_owned())
        };
        let (key, value) = (text()?, text()?);
        facts.insert(key, value);
    }
    Some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_a_wrong_one_is_told_apart() {
        let name: Arc<str> = "t".into();
        let header = Header {
            identity: [7; 16],
            unit: TimeUnit::Instructions,
            deaths: Deaths::AtCollections,
            raw: true,
            facts: [("program".into(), "a\nb".into())].into(),
        };
        let bytes = header.to_bytes();
        let read = Header::from_bytes(&bytes, &name).unwrap();
        assert_eq!(read, (header, bytes.len()));
        let said = |bytes: &[u8]| Header::from_bytes(bytes, &name).unwrap_err().to_string();
        for length in 1..bytes.len() {
            assert!(said(&bytes[..length]).contains("cut"), "{length}");
        }
        assert!(said(&[]).contains("it is empty"));
        assert!(said(b"trace 1").contains("convert"));
        assert!(said(b"\x89PLT\n\x1a\n").contains("line ends"));
        let mut newer = bytes.clone();
        newer[8] = 2;
        assert!(said(&newer).contains("newer than format 1"));
        let mut damaged = bytes;
        damaged[20] ^= 1;
        assert!(said(&damaged).contains("checksum"));
    }
}
