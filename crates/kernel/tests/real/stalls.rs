//! The stall signal under real pressure: each tier sees stalls at the limit of a group, and none
//! without.

use crate::common::{DelayAccounting, PATIENCE, alone, group, start_holding, swap};
use plimsoll_kernel::Error;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::stalls::{Declined, Stalled, Stalls, Tier};
use plimsoll_testbed::{Child, TestCgroup, children, skip};
use plimsoll_unit::{Bytes, MIB, Nanos};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Opens one tier. If it does not work here, says why and returns `None`.
fn tier(pid: i32, tier: Tier) -> Option<Stalls> {
    match Stalls::among(Process::open(pid).unwrap(), &[tier, Tier::MajorFaults]) {
        Ok(stalls) if stalls.tier() == tier => Some(stalls),
        Ok(stalls) => {
            skip(format_args!("{}: {}", tier.name(), stalls.declined()[0].1));
            None
        }
        Err(e) => panic!("{}: {e}", tier.name()),
    }
}

/// Reads twice with `work` in between.
fn within(stalls: &mut Stalls, work: impl FnOnce()) -> Stalled {
    let before = stalls.read().unwrap();
    work();
    stalls.read().unwrap().since(before)
}

#[test]
fn there_is_always_a_tier_and_each_better_one_says_why_not() {
    let _one = alone();
    for mut stalls in [Stalls::own().unwrap(), Stalls::open(1).unwrap()] {
        let tier = stalls.tier();
        stalls.read().unwrap();
        let declined: Vec<Tier> = stalls.declined().iter().map(|(tier, _)| *tier).collect();
        let better: Vec<Tier> = Tier::ALL.into_iter().take_while(|&t| t != tier).collect();
        assert_eq!(declined, better);
        for (tier, why) in stalls.declined() {
            assert!(why.to_string().len() > 20, "{tier:?}: {why}");
        }
    }
}

#[test]
fn major_faults_are_seen_when_pages_come_back_from_swap() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("faults", Some(24 * MIB)) else {
        return;
    };
    // First: what it uses of this binary is charged to no group that is pressed, and stays.
    let free = start_holding(&["touch", "--bytes", "32M", "--every", "1"], None);
    let mut squeezed = start_holding(&["touch", "--bytes", "48M", "--every", "1"], Some(&group));
    let mut of_free = tier(free.pid(), Tier::MajorFaults).unwrap();
    let mut stalls = tier(squeezed.pid(), Tier::MajorFaults).unwrap();
    let quiet = of_free.read().unwrap();
    let seen = within(&mut stalls, || go_on(&mut squeezed));
    assert!(seen.count > 0 && seen.time == Nanos::ZERO, "{seen:?}");
    assert!(!of_free.read().unwrap().since(quiet).any());
    let pid = squeezed.pid();
    drop(squeezed);
    let gone = stalls.read();
    assert!(
        matches!(gone, Err(Error::Gone { pid: p }) if p == pid),
        "{gone:?}"
    );
}

/// A group of version 2 for a process, without a limit: beside controllers of version 1 it still has a
/// pressure. Goes with the guard.
struct Unified {
    dir: PathBuf,
    pid: i32,
}

impl Unified {
    fn around(pid: i32) -> Option<Unified> {
        let top = Path::new("/sys/fs/cgroup/unified");
        let dir = top.join(format!(
            "plimsoll-test-pressure-{}-{pid}",
            std::process::id()
        ));
        if !top.join("cgroup.procs").exists() || std::fs::create_dir(&dir).is_err() {
            return None;
        }
        std::fs::write(dir.join("cgroup.procs"), pid.to_string()).unwrap();
        Some(Unified { dir, pid })
    }
}

impl Drop for Unified {
    fn drop(&mut self) {
        let top = self.dir.with_file_name("cgroup.procs");
        // It may have ended.
        let _ = std::fs::write(top, self.pid.to_string());
        // The kernel takes a moment to let an ended process go.
        let end = Instant::now() + PATIENCE;
        while std::fs::remove_dir(&self.dir).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Lowers the limit. The kernel refuses while the program reads its pages back faster than they go.
fn squeeze(group: &TestCgroup, bytes: u64) {
    let end = Instant::now() + PATIENCE;
    while let Err(e) = group.cgroup().set_limit(Some(Bytes(bytes))) {
        assert!(e.is_busy() && Instant::now() < end, "{e}");
    }
}

/// Stops a program.
fn stop(child: &Child) {
    children::stop(child.pid().unsigned_abs(), PATIENCE);
}

/// The signals of two programs by one tier.
type Both = (Stalls, Stalls);

fn read_all(signals: &mut [Both]) -> Vec<(Stalled, Stalled)> {
    let both = signals.iter_mut();
    both.map(|(a, b)| (a.read().unwrap(), b.read().unwrap()))
        .collect()
}

/// Waits until a program has gone on by some rounds.
fn go_on(child: &mut Child) {
    let rounds = child.latest(PATIENCE).unwrap().unwrap().rounds;
    child.until(PATIENCE, |p| p.rounds > rounds + 1).unwrap();
}

/// The exact tiers agree on every stall. Delay accounting begins anew where the kernel found nothing
/// to free and tries harder, at most twice.
fn agree(whole: &[(Tier, Stalled)]) {
    let count = |tier| {
        let seen = whole.iter().find(|(one, _)| *one == tier);
        seen.map(|(_, stalled)| stalled.count)
    };
    let (timed, counted) = (count(Tier::Reclaim), count(Tier::ReclaimCount));
    if let (Some(timed), Some(counted)) = (timed, counted) {
        assert_eq!(timed, counted, "{whole:?}");
    }
    if let (Some(delays), Some(passed)) = (count(Tier::DelayAccounting), timed.or(counted)) {
        assert!((passed..=3 * passed).contains(&delays), "{whole:?}");
    }
}

#[test]
fn each_tier_sees_stalls_at_a_limit_and_none_without() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("tiers", Some(48 * MIB)) else {
        return;
    };
    let Some(_on) = DelayAccounting::on() else {
        return;
    };
    let Some(apart) = self::group("apart", None) else {
        return;
    };
    // Both begin with enough memory.
    let free = start_holding(&["touch", "--bytes", "96M", "--every", "1"], Some(&apart));
    let mut squeezed = start_holding(&["touch", "--bytes", "32M", "--every", "1"], Some(&group));
    let groups = (Unified::around(squeezed.pid()), Unified::around(free.pid()));
    let both = |one| Some((tier(squeezed.pid(), one)?, tier(free.pid(), one)?));
    let mut signals: Vec<Both> = Tier::ALL.into_iter().filter_map(both).collect();
    let start = read_all(&mut signals);
    go_on(&mut squeezed);
    let quiet = read_all(&mut signals);
    squeeze(&group, 16 * MIB);
    let lowered = read_all(&mut signals);
    go_on(&mut squeezed);
    // While it stands still, no stall ends between the readings of two tiers.
    stop(&squeezed);
    let pressed = read_all(&mut signals);
    let mut whole = Vec::new();
    for (index, (signal, _)) in signals.iter().enumerate() {
        let tier = signal.tier();
        let idle = quiet[index].0.since(start[index].0);
        assert!(!idle.any(), "{tier:?} without a reason: {idle:?}");
        let seen = pressed[index].0.since(lowered[index].0);
        assert_eq!(seen.count > 0, tier.counts(), "{tier:?}: {seen:?}");
        assert_eq!(seen.time > Nanos::ZERO, tier.times(), "{tier:?}: {seen:?}");
        if tier < Tier::Pressure {
            whole.push((tier, pressed[index].0.since(start[index].0)));
            let other = pressed[index].1.since(start[index].1);
            assert!(!other.any(), "{tier:?} of another program: {other:?}");
        }
    }
    agree(&whole);
    let pid = squeezed.pid();
    drop((squeezed, free, groups));
    for (signal, _) in &mut signals {
        let gone = signal.read();
        let told = matches!(gone, Err(Error::Gone { pid: p }) if p == pid);
        assert!(told, "{gone:?}");
    }
}

#[test]
fn a_program_that_is_not_counted_is_told_so() {
    let _one = alone();
    // Nothing is switched off for it: either it is off, or the first process is older.
    let child = start_holding(&["hog", "--bytes", "1M"], None);
    let pid = if DelayAccounting::is_on() {
        1
    } else {
        child.pid()
    };
    let on = DelayAccounting::is_on();
    let process = Process::open(pid).unwrap();
    let stalls = Stalls::among(process, &[Tier::DelayAccounting, Tier::MajorFaults]).unwrap();
    match stalls.declined() {
        [] => skip("the first process is counted, so the switch is older than it"),
        [(Tier::DelayAccounting, Declined::OlderThanSwitch { pid: 1 })] => assert!(on),
        [(Tier::DelayAccounting, Declined::SwitchedOff)] => assert!(!on),
        other => skip(format_args!("{}", other[0].1)),
    }
    if let (false, Some(_on)) = (on, DelayAccounting::on()) {
        let process = Process::open(pid).unwrap();
        let stalls = Stalls::among(process, &[Tier::DelayAccounting, Tier::MajorFaults]).unwrap();
        let why = &stalls.declined()[0].1;
        assert!(!matches!(why, Declined::SwitchedOff), "{why}");
    }
}

#[test]
fn threads_that_come_and_go_are_counted_once_each() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("churn", Some(256 * MIB)) else {
        return;
    };
    let Some(_on) = DelayAccounting::on() else {
        return;
    };
    // Between generations there is a moment in which no thread comes, as perf needs it.
    let arguments = ["churn", "--bytes", "12M", "--width", "4", "--every", "30"];
    let mut churn = start_holding(&arguments, Some(&group));
    let exact = [Tier::DelayAccounting, Tier::Reclaim, Tier::ReclaimCount];
    let opened = exact.into_iter().filter_map(|one| tier(churn.pid(), one));
    let mut signals: Vec<Stalls> = opened.collect();
    let read = |signals: &mut Vec<Stalls>| -> Vec<Stalled> {
        signals.iter_mut().map(|s| s.read().unwrap()).collect()
    };
    let start = read(&mut signals);
    squeeze(&group, 24 * MIB);
    let rounds = churn.next(PATIENCE).unwrap().unwrap().rounds;
    let (mut latest, begun) = (start.clone(), Instant::now());
    let mut most = vec![Stalled::default(); signals.len()];
    loop {
        let now = read(&mut signals);
        for (index, most) in most.iter_mut().enumerate() {
            let more = now[index].since(latest[index]);
            *most = Stalled {
                count: most.count.max(more.count),
                time: most.time.max(more.time),
            };
        }
        latest = now;
        let report = churn.next(Duration::from_micros(300)).unwrap();
        if report.is_some_and(|p| p.rounds > rounds + 10) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "its threads do not come round");
    }
    stop(&churn);
    let tiers: Vec<Tier> = signals.iter().map(Stalls::tier).collect();
    let whole = std::iter::zip(read(&mut signals), start).map(|(now, start)| now.since(start));
    let whole: Vec<(Tier, Stalled)> = std::iter::zip(tiers, whole).collect();
    for ((tier, whole), most) in std::iter::zip(&whole, &most) {
        // Nearly all of it was by threads that have ended since.
        let told = (whole.count > 0, whole.time > Nanos::ZERO);
        assert_eq!(told, (tier.counts(), tier.times()), "{tier:?}: {whole:?}");
        let within = most.count <= whole.count && most.time <= whole.time;
        assert!(within, "{tier:?}: {most:?} of {whole:?}");
    }
    agree(&whole);
}

#[test]
fn without_rights_each_tier_says_what_it_needs() {
    let _one = alone();
    // Rights belong to threads: only this one gives its own up.
    let declined = std::thread::spawn(|| {
        let mut held = capabilities(None).unwrap();
        held.effective = CapabilitySet::empty();
        set_capabilities(None, held).unwrap();
        let mut stalls = Stalls::own().unwrap();
        stalls.read().unwrap();
        assert!(stalls.tier() >= Tier::Pressure, "{:?}", stalls.tier());
        stalls
            .declined()
            .iter()
            .map(|(tier, why)| (*tier, why.to_string()))
            .collect::<Vec<_>>()
    });
    let declined = declined.join().unwrap();
    let says = |tier: Tier, words: &[&str]| {
        let why = &declined.iter().find(|(one, _)| *one == tier).unwrap().1;
        assert!(
            words.iter().any(|word| why.contains(word)),
            "{tier:?}: {why}"
        );
    };
    says(
        Tier::DelayAccounting,
        &["CAP_NET_ADMIN", "CONFIG_TASKSTATS"],
    );
    says(Tier::Reclaim, &["CAP_BPF", "CONFIG_BPF", "pid namespace"]);
    says(Tier::ReclaimCount, &["tracefs", "CAP_PERFMON", "threads"]);
}

#[test]
fn a_process_that_is_gone_is_told_so() {
    let child = start_holding(&["hog", "--bytes", "1M"], None);
    let (pid, started) = (child.pid(), Process::open(child.pid()).unwrap());
    drop(child);
    assert!(matches!(Stalls::open(pid), Err(Error::Gone { pid: p }) if p == pid));
    // Held since before, it is gone for each tier, and none is declined for another reason.
    let gone = Stalls::of(started);
    assert!(
        matches!(&gone, Err(Error::Gone { pid: p }) if *p == pid),
        "{gone:?}"
    );
    assert!(matches!(Stalls::open(0), Err(Error::Argument { .. })));
}
