//! Measures the duration of a decision for 10,000 principals, 8 levels deep and all in one family.
//! Prints one line of JSON for each. Exits with 1 when the median processor time of the thread is 5
//! ms or more; the wall clock time, which other programs stretch, is printed as well.
//!
//! `cargo run --release -p plimsoll-policy --example shares-decide`

use plimsoll_policy::shares::{Collector, Principal, Shares};
use plimsoll_unit::Bytes;
use std::time::Instant;

const PRINCIPALS: u32 = 10_000;
const ROUNDS: usize = 101;

fn principal(i: u32, parent: Option<u32>) -> Principal {
    let scrambled = u64::from(i.wrapping_mul(2_654_435_761));
    Principal {
        parent,
        weight: (scrambled % 1000) as u32 + 1,
        priority: (i % 3) as i32,
        own_weight: 1,
        own_priority: 0,
        uses: scrambled % (4 << 20),
        working_set: scrambled % (1 << 20),
        trend: (scrambled % 4096) as i64 - 2048,
        demand: if i.is_multiple_of(4) {
            u64::MAX
        } else {
            scrambled % (8 << 20)
        },
        max: if i.is_multiple_of(10) {
            32 << 20
        } else {
            u64::MAX
        },
        modest: u64::MAX,
        last_limit: scrambled % (2 << 20),
        last_target: 0,
        reach: u64::MAX,
        claims: 0,
        slight: 0,
        least: 0,
        waits: true,
        collector: Collector {
            live: scrambled % (1 << 20) * u64::from(i % 2),
            allocation_rate: 1 << 20,
            collection_speed: 1 << 28,
        },
        lasts_ms: 20_000,
        resizing_ms: 0,
        apart: false,
    }
}

/// A tree in which each principal has 3 children. A principal that would be deeper than `depth` is put at the
/// top instead.
fn tree(depth: u32) -> Vec<Principal> {
    let mut levels: Vec<u32> = Vec::new();
    let mut all = Vec::new();
    for i in 0..PRINCIPALS {
        let parent = i
            .checked_sub(1)
            .map(|above| above / 3)
            .filter(|&p| levels[p as usize] < depth);
        levels.push(parent.map_or(1, |p| levels[p as usize] + 1));
        all.push(principal(i, parent));
    }
    all
}

/// Nanoseconds of processor time that this thread has used.
fn thread_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing; the clock exists on every Linux.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "the clock of the thread cannot be read");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Median and maximum.
fn summary(mut micros: Vec<f64>) -> (f64, f64) {
    micros.sort_by(f64::total_cmp);
    (micros[micros.len() / 2], micros[micros.len() - 1])
}

fn main() {
    let mut slow = false;
    for depth in [8, 1] {
        let principals = tree(depth);
        let mut shares = Shares::with_capacity(principals.len());
        let (wall, cpu) = (0..ROUNDS)
            .map(|_| {
                let (wall, cpu) = (Instant::now(), thread_time());
                std::hint::black_box(shares.decide(&principals, Bytes(16 << 30)));
                let cpu = (thread_time() - cpu) as f64 / 1e3;
                (wall.elapsed().as_secs_f64() * 1e6, cpu)
            })
            .unzip();
        let ((wall, wall_max), (cpu, cpu_max)) = (summary(wall), summary(cpu));
        slow |= cpu >= 5000.0;
        println!(
            "{{\"name\":\"shares-decide\",\"principals\":{PRINCIPALS},\"depth\":{depth},\
             \"median_cpu_us\":{cpu:.0},\"max_cpu_us\":{cpu_max:.0},\
             \"median_us\":{wall:.0},\"max_us\":{wall_max:.0}}}"
        );
    }
    std::process::exit(i32::from(slow));
}
