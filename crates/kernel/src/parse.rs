//! Pure parsers shared by the modules: bytes in, numbers out, no allocation, no panic.

/// A decimal number that fills the whole text; a number too large for 64 bits counts as the largest.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value
            .saturating_mul(10)
            .saturating_add(u64::from(byte - b'0'));
    }
    Some(value)
}

/// A hexadecimal number that fills the whole text, at most 16 digits.
pub fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        value = value << 4 | u64::from((byte as char).to_digit(16)?);
    }
    Some(value)
}

/// The lines of a text; a last line without an end counts only when it is complete enough to parse.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b'\n').filter(|line| !line.is_empty())
}

/// The words of a line, split at blanks and tabs.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&b| b == b' ' || b == b'\t')
        .filter(|word| !word.is_empty())
}

/// Parses `name value` (memory.stat, vmstat) and `name: value kB` (meminfo, status, smaps). Returns
/// the name without its colon, and the value: in bytes if there is a unit, else unchanged.
pub fn pair(line: &[u8]) -> Option<(&[u8], u64)> {
    let (name, rest) = word(line)?;
    let (value, rest) = word(rest)?;
    let value = number(value)?;
    let name = name.strip_suffix(b":").unwrap_or(name);
    match word(rest) {
        Some((b"kB", _)) => Some((name, value.saturating_mul(1024))),
        _ => Some((name, value)),
    }
}

/// The first word of a line, and what follows it.
pub(crate) fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let begin = line.iter().position(|byte| !is_blank(byte))?;
    let line = &line[begin..];
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    Some(line.split_at(end))
}

/// Undoes the octal escapes of mountinfo and maps (`\040` is a blank).
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut i = 0;
    while i < text.len() {
        let octal = text
            .get(i + 1..i + 4)
            .filter(|d| text[i] == b'\\' && d.iter().all(|b| (b'0'..=b'7').contains(b)));
        match octal {
            Some(digits) => {
                let value = digits
                    .iter()
                    .fold(0u32, |v, &b| v * 8 + u32::from(b - b'0'));
                out.push(value as u8);
                i += 4;
            }
            None => {
                out.push(text[i]);
                i += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_saturate_and_refuse_signs() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"99999999999999999999999999"), Some(u64::MAX));
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b""), None);
        assert_eq!(
            hexadecimal(b"ffffffffff600000"),
            Some(0xffff_ffff_ff60_0000)
        );
        assert_eq!(hexadecimal(b"1ffffffffffffffff"), None);
    }

    #[test]
    fn pairs_know_both_styles() {
        assert_eq!(pair(b"anon 4096"), Some((&b"anon"[..], 4096)));
        assert_eq!(pair(b"VmSwap:\t   12 kB"), Some((&b"VmSwap"[..], 12288)));
        assert_eq!(
            pair(b"Active(anon):  1 kB"),
            Some((&b"Active(anon)"[..], 1024))
        );
        assert_eq!(pair(b"anon"), None);
        assert_eq!(
            pair(b"VmSwap:\t999999999999999999999 kB"),
            Some((&b"VmSwap"[..], u64::MAX))
        );
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape(br"/a\040b\134\9"), b"/a b\\\\9");
        assert_eq!(unescape(br"\04"), br"\04");
    }

    proptest! {
        #[test]
        fn nothing_panics(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (number(&text), hexadecimal(&text), pair(&text));
            prop_assert!(unescape(&text).len() <= text.len());
            for line in lines(&text) {
                prop_assert!(words(line).count() <= line.len());
            }
        }

        #[test]
        fn every_number_comes_back(n in any::<u64>()) {
            prop_assert_eq!(number(n.to_string().as_bytes()), Some(n));
            prop_assert_eq!(hexadecimal(format!("{n:x}").as_bytes()), Some(n));
        }
    }
}
