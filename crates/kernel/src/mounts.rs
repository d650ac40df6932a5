//! `/proc/PID/mountinfo`: which kind of file system a device is, as a process sees it. Asks no file
//! system, so one whose server does not answer delays nothing. Source: kernel document `proc.rst`
//! 3.5.

use crate::Result;
use crate::parse::{lines, number, words};
use crate::process::proc_path;
use crate::reader::read_text;
use std::collections::HashMap;

/// Longest text that is read, bytes.
const MAX_MOUNTINFO: usize = 4 << 20;
/// The most devices that are kept.
const MAX_DEVICES: usize = 16_384;

/// The kind of file system (`ext4`) by device (major, minor).
pub type Kinds = HashMap<(u32, u32), String>;

/// The kinds of the file systems that a process sees.
///
/// # Errors
/// [`crate::Error::Gone`]; [`crate::Error::Denied`] for other users' processes.
pub fn kinds(pid: i32) -> Result<Kinds> {
    let mut text = Vec::new();
    read_text(&proc_path(pid, "mountinfo"), MAX_MOUNTINFO, &mut text)?;
    Ok(parse_kinds(&text))
}

/// Parses the text; lines that make no sense are passed over.
pub fn parse_kinds(text: &[u8]) -> Kinds {
    lines(text)
        .filter_map(parse_kind)
        .take(MAX_DEVICES)
        .collect()
}

/// `36 35 98:0 /root /point options optional... - kind source options`
fn parse_kind(line: &[u8]) -> Option<((u32, u32), String)> {
    let mut fields = words(line);
    let device = fields.nth(2)?;
    let colon = device.iter().position(|&b| b == b':')?;
    let part = |text: &[u8]| u32::try_from(number(text)?).ok();
    let device = (part(&device[..colon])?, part(&device[colon + 1..])?);
    let kind = fields.skip_while(|word| *word != b"-").nth(1)?;
    Some((device, String::from_utf8_lossy(kind).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn devices_have_kinds() {
        let text = b"22 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n\
            23 22 0:21 / /proc rw - proc proc rw\nbroken\n24 22 0:x / /y rw - tmpfs none rw\n";
        let kinds = parse_kinds(text);
        assert_eq!(kinds.len(), 2);
        assert_eq!(kinds[&(254, 0)], "ext4");
        assert_eq!(kinds[&(0, 21)], "proc");
        let own = std::process::id() as i32;
        assert!(!super::kinds(own).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn nothing_panics(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_kinds(&text);
        }
    }
}
