//! The cost of a read from a disk: the time from its submission to its end, measured for each device
//! that files lie on. Programs wait for that long, however many reads the disk serves at a time.

use plimsoll_kernel::disk::{Disks, Reads};
use plimsoll_kernel::smaps::FileKey;
use std::collections::BTreeMap;

/// The cost of a read where nothing was measured, ns.
pub const UNKNOWN: f64 = 100_000.0;
/// The least and the most that a read counts, ns: statistics are in ms, and a disk that stands still
/// for a minute is no measure of what a page is worth.
const LEAST: f64 = 1_000.0;
const MOST: f64 = 100_000_000.0;
/// The most devices that are measured.
const MAX_DEVICES: usize = 64;
/// The weight of earlier reads after one more measurement.
const MEMORY: f64 = 0.7;
/// Fewer reads than this show nothing.
const LEAST_READS: f64 = 16.0;

/// Reads of one device, or of several together.
#[derive(Debug, Default)]
struct Device {
    disks: Disks,
    before: Option<Reads>,
    /// Decayed sums.
    count: f64,
    ms: f64,
}

impl Device {
    fn new(disks: Disks) -> Device {
        Device {
            disks,
            ..Device::default()
        }
    }

    fn measure(&mut self) {
        let now = self.disks.reads();
        let before = self.before.replace(now);
        self.take_in(before.map(|before| now.since(before)));
    }

    fn take_in(&mut self, new: Option<Reads>) {
        let Some(new) = new else {
            return;
        };
        self.count = self.count * MEMORY + new.count as f64;
        self.ms = self.ms * MEMORY + new.ms as f64;
    }

    /// ns; `None` while too few reads are known.
    fn read_ns(&self) -> Option<f64> {
        let known = self.count >= LEAST_READS;
        known.then(|| (self.ms * 1e6 / self.count).clamp(LEAST, MOST))
    }
}

/// The devices of the files that are followed.
#[derive(Debug)]
pub struct Costs {
    devices: BTreeMap<(u32, u32), Device>,
    /// All disks: for file systems that are not of one device (overlay, Btrfs).
    all: Device,
}

impl Costs {
    /// Begins to measure.
    pub fn new() -> Costs {
        let mut all = Device::new(Disks::of_files());
        all.measure();
        Costs {
            devices: BTreeMap::new(),
            all,
        }
    }

    /// Takes in what was read since the last call. `files` are those that are followed, in order.
    pub fn measure<'a>(&mut self, files: impl Iterator<Item = &'a FileKey>) {
        self.all.measure();
        let mut known = std::mem::take(&mut self.devices);
        for key in files {
            let device = (key.major, key.minor);
            let new = key.major != 0 && !self.devices.contains_key(&device);
            if new && self.devices.len() < MAX_DEVICES {
                let measured = known.remove(&device);
                let disks = || Device::new(Disks::of_device(key.major, key.minor));
                self.devices.insert(device, measured.unwrap_or_else(disks));
            }
        }
        for device in self.devices.values_mut() {
            device.measure();
        }
    }

    /// The cost of a read of a file, ns.
    pub fn read_ns(&self, key: &FileKey) -> f64 {
        let own = self.devices.get(&(key.major, key.minor));
        let measured = own.and_then(Device::read_ns).or_else(|| self.all.read_ns());
        measured.unwrap_or(UNKNOWN)
    }
}

impl Default for Costs {
    fn default() -> Costs {
        Costs::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reads(count: u64, ms: u64) -> Option<Reads> {
        let bytes = count * 4096;
        Some(Reads { count, bytes, ms })
    }

    fn key(major: u32) -> FileKey {
        FileKey {
            major,
            minor: 1,
            inode: 7,
        }
    }

    #[test]
    fn a_file_costs_what_its_disk_does_and_else_what_all_do() {
        let mut costs = Costs {
            devices: BTreeMap::new(),
            all: Device::default(),
        };
        assert_eq!(costs.read_ns(&key(8)), UNKNOWN);
        costs.all.take_in(reads(100, 50));
        assert_eq!(costs.read_ns(&key(8)), 500_000.0);
        let mut slow = Device::default();
        slow.take_in(reads(15, 150));
        costs.devices.insert((8, 1), slow);
        assert_eq!(costs.read_ns(&key(8)), 500_000.0, "too few to tell");
        costs
            .devices
            .entry((8, 1))
            .or_default()
            .take_in(reads(100, 1000));
        assert_eq!(costs.read_ns(&key(8)), 10_000_000.0);
        assert_eq!(costs.read_ns(&key(9)), 500_000.0);
    }

    #[test]
    fn real_devices_are_kept_while_files_are_on_them() {
        let path = std::env::current_exe().unwrap();
        let device = std::os::unix::fs::MetadataExt::dev(&path.metadata().unwrap());
        let here = FileKey {
            major: rustix::fs::major(device),
            minor: rustix::fs::minor(device),
            inode: 1,
        };
        let mut costs = Costs::new();
        costs.measure([here, here, key(0)].iter());
        assert!(costs.devices.len() <= 1);
        let cost = costs.read_ns(&here);
        assert!((LEAST..=MOST).contains(&cost), "{cost}");
        costs.measure([].iter());
        assert!(costs.devices.is_empty());
    }

    proptest! {
        #[test]
        fn a_cost_is_always_a_number_within_bounds(
            all in proptest::collection::vec((0u64..1 << 50, any::<u32>()), 0..20),
        ) {
            let mut device = Device::default();
            for (count, ms) in all {
                device.take_in(Some(Reads { count, bytes: 0, ms: ms.into() }));
                if let Some(cost) = device.read_ns() {
                    prop_assert!((LEAST..=MOST).contains(&cost));
                }
            }
        }
    }
}
