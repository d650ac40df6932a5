//! How long reads of block devices take. Source: kernel document `block/stat.rst`.

use crate::parse::{number, words};
use crate::reader::Reader;
use crate::{Result, swap};
use rustix::fs::{FileType, stat};
use std::path::{Path, PathBuf};

/// Most devices that are looked at.
const MOST: usize = 256;
/// Bytes of a sector in these statistics, whatever the device calls one.
const SECTOR: u64 = 512;

/// Reads of a device since it appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// How many, after neighbours were merged.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time from their submission to their end, summed over all reads, milliseconds.
    pub ms: u64,
}

impl Reads {
    /// Parses `/sys/dev/block/MAJOR:MINOR/stat`: number of reads, merged ones, sectors,
    /// milliseconds, and more that is not used.
    pub fn parse(text: &[u8]) -> Option<Reads> {
        let mut fields = words(text.trim_ascii());
        let count = number(fields.next()?)?;
        let sectors = number(fields.nth(1)?)?;
        Some(Reads {
            count,
            bytes: sectors.saturating_mul(SECTOR),
            ms: number(fields.next()?)?,
        })
    }

    /// The difference from an earlier sample.
    #[must_use]
    pub fn since(self, before: Reads) -> Reads {
        Reads {
            count: self.count.saturating_sub(before.count),
            bytes: self.bytes.saturating_sub(before.bytes),
            ms: self.ms.saturating_sub(before.ms),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Reads) -> Reads {
        Reads {
            count: self.count.saturating_add(other.count),
            bytes: self.bytes.saturating_add(other.bytes),
            ms: self.ms.saturating_add(other.ms),
        }
    }
}

/// Devices whose reads are summed up.
#[derive(Debug, Default)]
pub struct Disks {
    readers: Vec<Reader>,
}

impl Disks {
    /// The devices of all swap spaces: for a swap file, the device of its file system. A file system
    /// without one device (overlay, Btrfs) is passed over.
    ///
    /// # Errors
    /// When `/proc/swaps` cannot be read.
    pub fn of_swap() -> Result<Disks> {
        let spaces = swap::spaces()?;
        let mut paths: Vec<PathBuf> = spaces
            .iter()
            .take(MOST)
            .filter_map(|space| device_of(&space.path))
            .collect();
        paths.sort();
        paths.dedup();
        Ok(Disks::open(paths.into_iter()))
    }

    /// The disks of this machine, which may hold files. Partitions are part of them; devices in
    /// memory, and files in the place of devices, are not among them.
    #[must_use]
    pub fn of_files() -> Disks {
        let entries = std::fs::read_dir("/sys/block").into_iter().flatten();
        let disks = entries.flatten().take(MOST).filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            !["zram", "ram", "loop", "dm-", "md"]
                .iter()
                .any(|other| name.starts_with(other))
        });
        Disks::open(disks.map(|entry| entry.path().join("stat")))
    }

    /// The block device with these numbers. Empty where there is none: file systems that span several
    /// devices, or lie on others, have numbers of their own.
    #[must_use]
    pub fn of_device(major: u32, minor: u32) -> Disks {
        Disks::open(std::iter::once(statistics_of(major, minor)))
    }

    fn open(paths: impl Iterator<Item = PathBuf>) -> Disks {
        Disks {
            readers: paths.filter_map(|path| Reader::open(path).ok()).collect(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// The reads of all of them so far. A device that is gone counts nothing.
    #[must_use]
    pub fn reads(&self) -> Reads {
        let mut sum = Reads::default();
        for reader in &self.readers {
            let mut buffer = [0; 512];
            let read = reader.read_line(&mut buffer).ok().and_then(Reads::parse);
            sum = sum.and(read.unwrap_or_default());
        }
        sum
    }
}

/// The statistics of the device that a file lies on, or that a device file stands for.
fn device_of(path: &Path) -> Option<PathBuf> {
    let status = stat(path).ok()?;
    let device = match FileType::from_raw_mode(status.st_mode) {
        FileType::BlockDevice => status.st_rdev,
        _ => status.st_dev,
    };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (major != 0).then(|| statistics_of(major, minor))
}

fn statistics_of(major: u32, minor: u32) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sectors_and_milliseconds_are_read() {
        let text =
            b" 34827307 27454296 577476794  6811054 17678155 30051935 653236232 16438356 0 1\n";
        let reads = Reads::parse(text).unwrap();
        assert_eq!(reads.count, 34_827_307);
        assert_eq!(reads.bytes, 577_476_794 * 512);
        assert_eq!(reads.ms, 6_811_054);
        assert_eq!(Reads::parse(b"1 2 3"), None);
    }

    #[test]
    fn what_came_since_is_never_negative() {
        let reads = |count, bytes, ms| Reads { count, bytes, ms };
        let (one, more) = (reads(1, 1, 5), reads(2, 3, 4));
        assert_eq!(more.since(one), reads(1, 2, 0));
        assert_eq!(one.and(more), reads(3, 4, 9));
    }

    #[test]
    fn this_machine_is_read() {
        let disks = Disks::of_files();
        assert!(disks.is_empty() || disks.reads().bytes > 0);
        assert!(Disks::of_swap().is_ok());
        assert!(Disks::of_device(0, 0).is_empty());
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Reads::parse(&bytes);
        }
    }
}
