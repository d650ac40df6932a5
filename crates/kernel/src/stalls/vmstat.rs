//! `/proc/vmstat`: counters of the whole machine. Reclaim at a cgroup's limit does not count in
//! `allocstall`: only global reclaim does.

use crate::Result;
use crate::parse::{lines, pair};
use crate::reader::Reader;

/// Longest text that is read, bytes.
const MAX_TEXT: usize = 16 << 10;

/// Counters since boot, pages or events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vmstat {
    /// Times that an allocating thread had to reclaim for the machine.
    pub allocation_stalls: u64,
    /// Pages scanned by allocating threads.
    pub scan_direct: u64,
    /// Pages scanned by the background reclaimer.
    pub scan_kswapd: u64,
    /// Pages read from swap.
    pub swap_in: u64,
    /// Pages written to swap.
    pub swap_out: u64,
    /// Faults that had to read.
    pub major_faults: u64,
    /// Processes killed for want of memory.
    pub oom_kill: u64,
    /// Pages that came back soon after eviction.
    pub refaults: u64,
}

impl Vmstat {
    /// Parses the text; names that are missing stay 0.
    pub fn parse(text: &[u8]) -> Vmstat {
        let mut v = Vmstat::default();
        for line in lines(text) {
            let Some((name, value)) = pair(line) else {
                continue;
            };
            match name {
                b"pgscan_direct" => v.scan_direct = value,
                b"pgscan_kswapd" => v.scan_kswapd = value,
                b"pswpin" => v.swap_in = value,
                b"pswpout" => v.swap_out = value,
                b"pgmajfault" => v.major_faults = value,
                b"oom_kill" => v.oom_kill = value,
                b"workingset_refault_anon" | b"workingset_refault_file" => {
                    v.refaults = v.refaults.saturating_add(value);
                }
                _ if name.starts_with(b"allocstall_") => {
                    v.allocation_stalls = v.allocation_stalls.saturating_add(value);
                }
                _ => {}
            }
        }
        v
    }
}

/// `/proc/vmstat`, open.
#[derive(Debug)]
pub struct VmstatReader(Reader);

impl VmstatReader {
    /// Opens it.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn open() -> Result<VmstatReader> {
        Ok(VmstatReader(Reader::open("/proc/vmstat")?))
    }

    /// Reads it, 43 us.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn read(&self) -> Result<Vmstat> {
        let mut buffer = [0; MAX_TEXT];
        Ok(Vmstat::parse(self.0.read(&mut buffer)?))
    }
}
