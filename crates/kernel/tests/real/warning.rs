//! Early warning and stalls on the real kernel.

use crate::common::{DelayAccounting, PATIENCE, alone, group, start, start_holding, swap};
use plimsoll_kernel::cgroup::Version;
use plimsoll_kernel::pressure::{MACHINE, Psi, Reaction, Threshold, Watermark};
use plimsoll_kernel::process::Process;
use plimsoll_kernel::stalls::{Taskstats, VmstatReader};
use plimsoll_kernel::{Error, capacity::Domain, clock};
use plimsoll_testbed::{Child, TestCgroup, skip};
use plimsoll_unit::MIB;
use std::path::Path;
use std::time::{Duration, Instant};

/// Looks at the pace of the watermark until it is crossed. Returns how late the latest look was,
/// and when it was crossed.
fn first_warning(group: &TestCgroup) -> (Duration, Instant) {
    let mut domain = Domain::of_group(group.cgroup().dir()).unwrap();
    let mut watermark = Watermark::new(Reaction::default());
    let (end, mut late) = (Instant::now() + PATIENCE, Duration::ZERO);
    let mut due = Instant::now();
    loop {
        let reading = domain.read().unwrap();
        watermark.observe(clock::now_ns(), reading.used);
        late = late.max(due.elapsed());
        if watermark.is_crossed(reading.capacity, reading.used) {
            return (late, Instant::now());
        }
        assert!(Instant::now() < end, "never crossed: {reading:?}");
        let pause = Duration::from_nanos(watermark.next_look_ns(reading.capacity, reading.used));
        due = Instant::now() + pause;
        std::thread::sleep(pause);
    }
}

/// The longest time between two reports of a program up to now.
fn longest_wait(program: &mut Child) -> Duration {
    let (now, mut last, mut longest) = (clock::now_ns(), None, 0);
    while last.is_none_or(|last| last < now) {
        let told = program.next(PATIENCE).unwrap().expect("it lives");
        longest = longest.max(told.time_ns - last.unwrap_or(told.time_ns));
        last = Some(told.time_ns);
    }
    Duration::from_nanos(longest)
}

#[test]
fn the_watermark_is_crossed_before_anything_is_swapped_out() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    // A late look sees too much, and a program that was kept waiting takes at once what was due meanwhile.
    // Neither is the watermark's fault, so try again.
    let too_late = Duration::from_secs_f64(Reaction::default().time_s / 2.0);
    let line = ["hog", "--bytes", "320M", "--rate", "80M", "--report", "20"];
    let tries = (0..20).map(|_| {
        let group = group("watermark", Some(256 * MIB))?;
        let mut hog = start(&line, Some(&group));
        let (late, crossed) = first_warning(&group);
        let events = group.cgroup().events().unwrap();
        let swapped = group.cgroup().swapped().unwrap();
        let late = late.max(crossed.elapsed()).max(longest_wait(&mut hog));
        Some((late, events.max, swapped, hog, group))
    });
    let Some((late, hits, swapped, mut hog, group)) = tries
        .take_while(Option::is_some)
        .flatten()
        .find(|(late, ..)| *late < too_late)
    else {
        skip("no group, or this machine was late for a look each time");
        return;
    };
    assert_eq!(hits, 0, "the limit was hit before the warning ({late:?})");
    assert_eq!(
        swapped, 0,
        "something was swapped out before the warning ({late:?})"
    );
    // And it was no idle warning: left alone, the hog does get there.
    hog.until(PATIENCE, |p| p.holding).unwrap();
    assert!(group.cgroup().events().unwrap().max > 0);
    assert!(group.cgroup().swapped().unwrap() > 0);
    assert_eq!(group.cgroup().events().unwrap().oom_kill, 0);
}

#[test]
fn a_threshold_fires_before_the_limit() {
    let _one = alone();
    let Some(group) = group("threshold", Some(128 * MIB)) else {
        return;
    };
    let threshold = match Threshold::set(group.cgroup(), 48 * MIB) {
        Err(e) if e.is_absent() || e.is_denied() => {
            skip(&e);
            assert!(group.cgroup().version() == Version::V2 || e.is_denied());
            return;
        }
        other => other.unwrap(),
    };
    assert_eq!(threshold.take(), 0);
    let _hog = start_holding(&["hog", "--bytes", "64M"], Some(&group));
    assert!(threshold.take() > 0);
    assert_eq!(threshold.take(), 0);
    assert_eq!(group.cgroup().events().unwrap().max, 0);
}

#[test]
fn stalls_are_told_apart_by_process() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("stalls", Some(48 * MIB)) else {
        return;
    };
    let Some(_on) = DelayAccounting::on() else {
        return;
    };
    let mut taskstats = match Taskstats::open() {
        Err(e) if e.is_denied() || e.is_absent() => {
            skip(e);
            return;
        }
        other => other.unwrap(),
    };
    let squeezed = start_holding(&["hog", "--bytes", "96M"], Some(&group));
    let free = start_holding(&["hog", "--bytes", "96M"], None);
    let stalls = taskstats.process(squeezed.pid()).unwrap();
    assert!(
        stalls.reclaim_count > 0 && stalls.reclaim_ns > 0,
        "{stalls:?}"
    );
    assert_eq!(taskstats.process(free.pid()).unwrap().reclaim_count, 0);
    // Its threads go on meanwhile.
    let pid = squeezed.pid();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let threads = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
    let of_thread = |tid: String| {
        taskstats
            .thread(tid.parse().unwrap())
            .unwrap()
            .reclaim_count
    };
    let of_threads: u64 = threads.map(of_thread).sum();
    let later = taskstats.process(pid).unwrap().reclaim_count;
    assert!((stalls.reclaim_count..=later).contains(&of_threads));
    drop(squeezed);
    let gone = taskstats.process(pid);
    assert!(matches!(gone, Err(Error::Gone { .. })), "{gone:?}");
}

#[test]
fn counters_of_the_machine_only_grow() {
    let vmstat = VmstatReader::open().unwrap();
    let first = vmstat.read().unwrap();
    let own = Process::own().unwrap();
    let faults = own.faults().unwrap();
    let memory = vec![1u8; 8 << 20];
    std::hint::black_box(&memory);
    assert!(own.faults().unwrap().minor > faults.minor);
    let second = vmstat.read().unwrap();
    assert!(second.major_faults >= first.major_faults && second.swap_out >= first.swap_out);
    match Psi::open(Path::new(MACHINE)) {
        Ok(psi) => {
            let (a, b) = (psi.read().unwrap(), psi.read().unwrap());
            assert!(b.some_us >= a.some_us && b.some_us >= b.full_us);
        }
        Err(e) => assert!(e.is_absent(), "{e}"),
    }
}
