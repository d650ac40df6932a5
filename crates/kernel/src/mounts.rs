//! Which kind of file system a file is on.
//!
//! `/proc/PID/mountinfo` tells the kind of each device that a process sees. It asks no file system, so
//! one whose server does not answer delays nothing; but a device number may have been given to another
//! file system meanwhile. `fstatfs` tells it of an open file for sure, and may wait for a server.
//! Source: kernel document `proc.rst` 3.5; `statfs(2)`, `linux/magic.h`.

use crate::Result;
use crate::parse::{lines, number, words};
use crate::process::proc_path;
use crate::reader::read_text;
use std::collections::HashMap;
use std::os::fd::AsFd;

/// Longest text that is read, bytes.
const MAX_MOUNTINFO: usize = 4 << 20;
/// The most devices that are kept.
const MAX_DEVICES: usize = 16_384;

/// The kind of file system (`ext4`) by device (major, minor).
pub type Kinds = HashMap<(u32, u32), String>;

/// Kinds by `f_type` of `statfs`: those that keep files in memory, those behind a server, and overlay.
const MAGIC: [(u32, &str); 20] = [
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x794c_7630, "overlay"),
    (0x6573_5546, "fuse"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb3"),
    (0x517b, "smb3"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0x0bd0_0bd0, "lustre"),
    (0x2003_0528, "orangefs"),
    (0x786f_4256, "vboxsf"),
    (0x4750_4653, "gpfs"),
];

/// The kind of the file system of an open file, if it is one of those that need care: in memory,
/// behind a server, or an overlay. May wait for a server.
pub fn kind_of(file: impl AsFd) -> Option<&'static str> {
    let status = rustix::fs::fstatfs(file).ok()?;
    // Its type differs between architectures; the numbers have 32 bits.
    let magic = status.f_type as u32;
    let known = MAGIC.iter().find(|(number, _)| *number == magic);
    known.map(|(_, kind)| *kind)
}

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

    #[test]
    fn an_open_file_has_a_kind() {
        assert_eq!(
            kind_of(std::fs::File::open("/proc/self/stat").unwrap()),
            None
        );
        let memory = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(kind_of(memory), Some("tmpfs"));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_kinds(&text);
        }
    }
}
