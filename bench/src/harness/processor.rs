//! Processor time of other processes.

/// Processor time of all threads of a process that run now, ns; 0 when it is gone. Of a running thread, as of the last tick.
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

#[cfg(test)]
mod tests {
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
