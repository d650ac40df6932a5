//! Processor time of other processes, and how fast the processor is at the moment.

use rustix::time::{ClockId, clock_gettime};

/// Processor time of the threads that a process has now, ns; 0 when the process is gone. The kernel updates
/// the time of a running thread at each clock tick only.
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

/// How often the threads of this name of a process called `write` and its like so far; 0 when the process is
/// gone. Source: kernel document `proc.rst` ("io", `syscw`).
pub fn writes_of(pid: u32, thread: &str) -> u64 {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0;
    };
    let writes = |entry: std::fs::DirEntry| {
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        let text = std::fs::read_to_string(entry.path().join("io")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("syscw:"))?;
        let writes = line.trim().parse::<u64>().ok()?;
        (name.trim_end() == thread).then_some(writes)
    };
    tasks.flatten().filter_map(writes).sum()
}

/// A fixed piece of work. Its time tells a slow machine from a slow program: if other machines share the
/// processors, their speed changes, and no counter of the kernel shows that.
pub struct Yardstick {
    /// A permutation with one cycle, larger than a core's own caches.
    next: Vec<u32>,
    at: u32,
}

/// Number of entries of the permutation, which takes 4 MiB.
const ENTRIES: u32 = 1 << 20;
/// Number of steps of the piece of work, which take less than half a millisecond.
const STEPS: u32 = 2000;

impl Yardstick {
    /// Makes the piece of work.
    pub fn new() -> Yardstick {
        // A linear congruential generator of full period (Hull and Dobell), so that all entries form one
        // cycle.
        let next = |at: u32| at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % ENTRIES;
        Yardstick {
            next: (0..ENTRIES).map(next).collect(),
            at: 0,
        }
    }

    /// Does the work, and returns the processor time that it took, ns.
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
    fn writes_are_counted_by_the_name_of_the_thread() {
        let (sent, told) = std::sync::mpsc::channel();
        let writer = std::thread::Builder::new().name("bench-writer".to_owned());
        let writer = writer.spawn(move || {
            for _ in 0..5 {
                std::fs::write("/dev/null", "x").expect("it takes all");
            }
            let own = std::process::id();
            let counted = ["bench-writer", "nobody"].map(|name| super::writes_of(own, name));
            sent.send(counted).expect("somebody waits");
        });
        assert_eq!(told.recv().expect("it tells"), [5, 0]);
        writer.expect("it was started").join().expect("it ended");
        assert_eq!(super::writes_of(u32::MAX, "bench-writer"), 0);
    }

    #[test]
    fn our_own_time_grows_and_nobodys_is_none() {
        let own = std::process::id();
        let before = super::processor_ns(own);
        let mut sum = 0u64;
        // Spins until the time has grown, because the kernel updates it at clock ticks only.
        while super::processor_ns(own) <= before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert_eq!(super::processor_ns(u32::MAX), 0);
    }
}
