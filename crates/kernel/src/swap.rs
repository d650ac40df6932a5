//! Swap spaces: `/proc/swaps`. Source: `proc(5)`.

use crate::Result;
use crate::parse::{lines, number, unescape, words};
use crate::reader::read_text;
use plimsoll_unit::{Bytes, KIB};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One swap space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapSpace {
    /// The file or device.
    pub path: PathBuf,
    /// How much it holds.
    pub size: Bytes,
    /// In use.
    pub used: Bytes,
    /// Whether it is compressed memory (zram), which frees less memory than it holds.
    pub in_memory: bool,
}

/// The swap spaces of the machine.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn spaces() -> Result<Vec<SwapSpace>> {
    let mut text = Vec::new();
    match read_text(Path::new("/proc/swaps"), 64 << 10, &mut text) {
        // The kernel was built without swap.
        Err(e) if e.is_absent() => Ok(Vec::new()),
        other => other.map(|()| parse_swaps(&text)),
    }
}

/// Parses the text; lines that make no sense are passed over.
pub fn parse_swaps(text: &[u8]) -> Vec<SwapSpace> {
    lines(text).skip(1).filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<SwapSpace> {
    let mut fields = words(line);
    let path = PathBuf::from(OsString::from_vec(unescape(fields.next()?)));
    let size = Bytes(KIB) * number(fields.nth(1)?)?;
    let used = Bytes(KIB) * number(fields.next()?)?;
    let in_memory = path
        .file_name()
        .and_then(|n| n.to_str())
        .is_some_and(|n| n.starts_with("zram"));
    Some(SwapSpace {
        path,
        size,
        used,
        in_memory,
    })
}
