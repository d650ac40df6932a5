//! Processor time of other processes, and how fast the processor is at the moment.

use rustix::time::{ClockId, clock_gettime};

/// Processor time of all threads of a process that run now, ns; 0 when it is gone. Of a running
/// thread, as of the last tick.
pub fn processor_ns(pid: u32) -> u64 {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0;
    };
    let time = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    tasks.flatten().filter_map(time).sum()
}

/// A fixed piece of work, to tell a slow machine from a slow program: where processors are shared
/// with other machines their speed changes, and no counter of the kernel says so.
pub struct Yardstick {
    /// A permutation with one cycle, larger than a core's own caches.
    next: Vec<u32>,
    at: u32,
}

/// Entries of the permutation: 4 MiB.
const ENTRIES: u32 = 1 << 20;
/// Steps of the piece: below half a millisecond.
const STEPS: u32 = 2000;

impl Yardstick {
    /// Makes the piece of work.
    pub fn new() -> Yardstick {
        // A linear congruential generator of full period (Hull and Dobell): every entry is in its one cycle.
        let next = |at: u32| at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % ENTRIES;
        Yardstick {
            next: (0..ENTRIES).map(next).collect(),
            at: 0,
        }
    }

    /// Does it, and says how much processor time that took, ns.
    pub fn measure(&mut self) -> f64 {
        let before = own_time();
        for _ in 0..STEPS {
            self.at = self.next[self.at as usize];
        }
        std::hint::black_box(self.at);
        own_time() - before
    }
}

impl Default for Yardstick {
    fn default() -> Yardstick {
        Yardstick::new()
    }
}

/// Processor time of this thread, ns.
fn own_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_yardstick_goes_everywhere() {
        let mut yardstick = super::Yardstick::new();
        assert!(yardstick.measure() > 0.0);
        let (mut at, mut count) = (0, 0);
        loop {
            at = yardstick.next[at as usize];
            count += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(count, super::ENTRIES);
    }

    #[test]
    fn our_own_time_grows_and_nobodys_is_none() {
        let own = std::process::id();
        let before = super::processor_ns(own);
        let mut sum = 0u64;
        // Until it has grown: the kernel counts at ticks.
        while super::processor_ns(own) <= before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert_eq!(super::processor_ns(u32::MAX), 0);
    }
}
