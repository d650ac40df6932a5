//! Churn: every collector of every JDK, both ways of loading, wishes that change all the time, requested
//! collections. A G1 heap into which the agent is loaded later shrinks and grows, and is verified by
//! its machine. One machine in three is in a group whose limit is below its heap, and pages. Seconds in the
//! suite; longer with `make stress-jvm`.

use crate::machine::{COLLECTORS, MODES, Sums, Way, entering, totals};
use crate::support::{LONG, jdks};
use plimsoll_runtimes::hotspot::agent::Page;
use plimsoll_testbed::{SwapFile, TestCgroup, skip};
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::collections::Wish;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Seconds that all of it takes, by the clock.
const SECONDS: &str = "PLIMSOLL_CHURN_SECONDS";
/// The file that what came of it is written into, and the version that it came of.
const RECORD: &str = "PLIMSOLL_CHURN_RECORD";
const COMMIT: &str = "PLIMSOLL_CHURN_COMMIT";
/// Machines at a time; together they stay below 1 GiB.
const AT_A_TIME: usize = 2;

fn seconds() -> u64 {
    let given = std::env::var(SECONDS).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(6)
}

/// One in this many machines is pressed: neither a divisor of the number of JDKs nor of collectors.
const PRESSED: usize = 3;
/// The limit of its group, bytes: more than lives, less than heap and native memory together.
const LIMIT: u64 = 144 * MIB;
/// Bytes of swap behind the groups.
const SWAP: u64 = 512 * MIB;

/// One case: a machine, its collector, and how the agent is loaded.
type Case = (u32, PathBuf, &'static str, Way);

/// Counts of a machine, and of those that took its place when the kernel had killed it.
#[derive(Clone, Copy, Debug, Default)]
struct Churned {
    started: u64,
    pauses: u64,
    given_back: u64,
    /// It read pages of its own from swap or files, within pauses.
    faults: u64,
    /// The kernel killed it, because it found nothing in the group that could go to swap at once.
    killed: u64,
}

impl std::ops::AddAssign for Churned {
    fn add_assign(&mut self, more: Churned) {
        self.started += more.started;
        self.pauses += more.pauses;
        self.given_back += more.given_back;
        self.faults += more.faults;
        self.killed += more.killed;
    }
}

fn cases() -> Vec<Case> {
    let is_long = std::env::var_os(SECONDS).is_some();
    let mut cases = Vec::new();
    for (version, home) in jdks() {
        for collector in COLLECTORS {
            // The short form is for what gives memory back; all are loaded by other tests.
            if is_long || ["Serial", "Parallel", "G1"].contains(&collector) {
                for way in [Way::Start, Way::Attach] {
                    if is_long || (version + u32::from(way == Way::Start)) % 4 != 1 {
                        cases.push((version, home.clone(), collector, way));
                    }
                }
            }
        }
    }
    // Last: with six collectors for each JDK, the same third of them would be pressed in all.
    for (version, home) in jdks().into_iter().filter(|_| is_long) {
        for (_, mode) in MODES.into_iter().filter(|mode| mode.0 == version) {
            cases.extend([Way::Start, Way::Attach].map(|way| (version, home.clone(), mode, way)));
        }
    }
    cases
}

/// Flags with which G1's heap becomes small at each collection that was asked for, and is verified by the
/// machine itself before and after each.
const SHRINKING: [&str; 5] = [
    "-XX:MinHeapFreeRatio=5",
    "-XX:MaxHeapFreeRatio=15",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:+VerifyBeforeGC",
    "-XX:+VerifyAfterGC",
];

/// Churns a machine for this long, in the group if it is to be pressed. One that is killed there is started
/// again.
fn churn(case: &Case, group: Option<&TestCgroup>, time: Duration) -> Churned {
    let (mut churned, mut left) = (Churned::default(), time);
    while !left.is_zero() {
        let (one, took) = churn_once(case, group, left);
        churned += one;
        left = left.saturating_sub(took);
    }
    churned
}

/// A machine with the agent, under the group's limit, if there is a group.
fn started(case: &Case, group: Option<&TestCgroup>) -> (Sums, Page) {
    let (_, home, collector, way) = case;
    // It starts without a limit, so that it is there when it is pressed.
    if let Some(group) = group {
        group.cgroup().set_limit(None).unwrap();
    }
    let more = match (*collector, way) {
        ("G1", Way::Attach) => &SHRINKING[..],
        _ => &[],
    };
    let enter = group.map(entering);
    let before = enter.as_ref().map(|enter| ["sh", "-c", enter]);
    let before = before.as_ref().map_or(&[][..], |before| before);
    let (sums, page) = Sums::after(before, home, collector, *way, more);
    if let Some(group) = group {
        sums.press(group, LIMIT);
    }
    (sums, page)
}

/// Returns also for how long it churned, without its start.
fn churn_once(case: &Case, group: Option<&TestCgroup>, time: Duration) -> (Churned, Duration) {
    let killed = || group.map_or(0, TestCgroup::killed);
    let killed_before = killed();
    let (mut sums, page) = started(case, group);
    let begin = Instant::now();
    let until = begin + time;
    let wishes = [
        Some(0),
        Some(MIB),
        None,
        Some(46 * MIB),
        Some(u64::MAX),
        Some(33 * MIB + 12345),
    ];
    let (mut turn, mut checked) = (0, 0);
    let mut gone = None;
    // On to the end of the time, and until it has checked some more objects after that.
    let mut last = 0;
    while Instant::now() < until || checked <= last {
        if Instant::now() < until {
            last = checked;
            page.wish(wishes[turn % wishes.len()].map(|most| Wish::stay(Bytes(most))));
            if turn % 7 == 3 {
                sums.tell("gc");
            }
        }
        assert!(Instant::now() < until + LONG, "it does not go on");
        std::thread::sleep(Duration::from_millis(150));
        match sums.look() {
            Ok(now) => checked = now,
            Err(why) => {
                gone = Some(why);
                break;
            }
        }
        turn += 1;
    }
    let told = totals(&page);
    let broken = page.view().unwrap().refusal().unwrap_or_default();
    // The kernel may end one that is pressed at any time, also while it ends.
    let gone = gone.or_else(|| {
        let (status, printed) = sums.end();
        (!status.success()).then(|| format!("{status}: {printed}"))
    });
    let churned = Churned {
        started: 1,
        pauses: told.pauses,
        given_back: told.given_back,
        faults: told.major_faults,
        killed: killed() - killed_before,
    };
    assert_eq!(told.missed, 0);
    assert!(!broken.contains("stopped making sense"), "{broken}");
    if let Some(why) = gone {
        assert!(churned.killed > 0, "{why}");
    }
    (churned, begin.elapsed())
}

/// A group with a limit for a machine that is pressed; `None` for the others, and where there can be none.
fn group(number: usize, swap: Option<&SwapFile>) -> Option<TestCgroup> {
    let is_pressed = number.is_multiple_of(PRESSED) && swap.is_some();
    let group = is_pressed.then(|| TestCgroup::new(&format!("churn-{number}"), Some(Bytes(LIMIT))));
    group.and_then(|group| group.map_err(|why| skip(format_args!("{why}"))).ok())
}

#[test]
fn no_machine_is_harmed() {
    let cases = cases();
    if cases.is_empty() {
        return;
    }
    let number = cases.len();
    let rounds = number.div_ceil(AT_A_TIME) as u64;
    let each = Duration::from_millis(seconds() * 1000 / rounds);
    let swap = SwapFile::new(Path::new("/var/tmp"), Bytes(SWAP));
    let swap = swap.map_err(|why| skip(format_args!("{why}"))).ok();
    let left = Mutex::new(cases);
    let done = Mutex::new(Vec::new());
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let (next, number) = {
                        let mut left = left.lock().unwrap();
                        (left.pop(), left.len())
                    };
                    let Some(case) = next else {
                        break;
                    };
                    let group = group(number, swap.as_ref());
                    let churned = churn(&case, group.as_ref(), each);
                    let (version, _, collector, way) = case;
                    let pressed = if group.is_some() { ", pressed" } else { "" };
                    println!("{collector} of {version}, {way:?}{pressed}: {churned:?}");
                    done.lock().unwrap().push((group.is_some(), churned));
                }
            });
        }
    });
    assert!(begin.elapsed() >= Duration::from_secs(seconds()));
    told(&done.into_inner().unwrap(), begin.elapsed(), swap.is_some());
}

fn told(done: &[(bool, Churned)], took: Duration, is_pressed: bool) {
    let sum = |of: fn(&Churned) -> u64| -> u64 { done.iter().map(|(_, one)| of(one)).sum() };
    let (pauses, bytes) = (sum(|one| one.pauses), sum(|one| one.given_back));
    let pressed: Vec<_> = done.iter().filter(|(pressed, _)| *pressed).collect();
    let faults: u64 = pressed.iter().map(|(_, one)| one.faults).sum();
    let line = format!(
        "{} cases, {} of them pressed, {AT_A_TIME} at a time, {} JVMs in all, in {:.0} s: {pauses} \
         pauses, {} MiB given back, {faults} major faults in pauses of those pressed, {} killed by \
         the kernel, 0 crashes",
        done.len(),
        pressed.len(),
        sum(|one| one.started),
        took.as_secs_f64(),
        bytes / MIB,
        sum(|one| one.killed),
    );
    println!("{line}");
    assert!(pauses > done.len() as u64 && bytes > 0);
    assert!(!is_pressed || !pressed.is_empty());
    // Where anything crashed, nothing gets here.
    if let Some(path) = std::env::var_os(RECORD) {
        let commit = std::env::var(COMMIT).unwrap_or_default();
        std::fs::write(path, format!("{line} (commit {commit}).\n")).unwrap();
    }
}
