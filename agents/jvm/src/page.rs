//! The page of collections: a sealed memory file of this process, mapped for its life.

use plimsoll_kernel::sealed_memfd;
use plimsoll_kernel::smaps::each_own_mapping;
use plimsoll_wire::collections::{NAME, SIZE, Words};
use rustix::io::Errno;
use std::os::fd::IntoRawFd;

/// Makes the page. The descriptor stays open, for the adapter, and is never used again here: should
/// the program close it, nothing of ours touches what gets its number.
///
/// # Errors
/// The system's error: memory files may be forbidden in a sandbox.
pub fn make() -> Result<Words<'static>, Errno> {
    let (file, mapping) = sealed_memfd::make(NAME, SIZE)?;
    let _stays_open = file.into_raw_fd();
    // SAFETY: page-aligned, SIZE bytes, readable, writable and never unmapped; the size is sealed. The
    // adapter stores by atomics only.
    Ok(unsafe { Words::new(mapping.for_ever()) })
}

/// Whether an agent in this process has a page already: ours, or one that was loaded from another copy of the
/// library. False if the mappings cannot be read.
pub fn is_there() -> bool {
    let name = format!("/memfd:{NAME}");
    let mut found = false;
    let read = each_own_mapping(&mut |area| {
        found = area.name.contains(&name);
        !found
    });
    read.is_ok() && found
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::collections::{About, View, Writer};

    #[test]
    fn a_page_is_sealed_and_is_found() {
        assert!(!is_there());
        let words = make().unwrap();
        assert!(is_there());
        let _ = Writer::new(words, &About::default());
        assert!(View::new(words).is_ok());
        let mut links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let is_ours = |path: &std::path::Path| {
            let target = std::fs::read_link(path).unwrap_or_default();
            target.to_string_lossy().contains(NAME)
        };
        let link = links.find(|link| is_ours(&link.path())).unwrap().path();
        let file = std::fs::OpenOptions::new().write(true).open(link).unwrap();
        assert!(file.set_len(0).is_err(), "it can never be cut");
        assert!(file.set_len(1 << 20).is_err());
    }
}
