//! Churn: every collector of every JDK, both ways of loading, wishes that change all the time, requested
//! collections. A G1 heap into which the agent is loaded later shrinks and grows, and is verified by
//! its machine. Seconds in the suite; longer with `make stress-jvm`.

use crate::machine::{COLLECTORS, Sums, Way, totals};
use crate::support::{MIB, jdks};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Seconds in all for which machines churn, summed over machines.
const SECONDS: &str = "PLIMSOLL_CHURN_SECONDS";
/// Machines at a time; together they stay below 1 GiB.
const AT_A_TIME: usize = 2;

fn seconds() -> u64 {
    let given = std::env::var(SECONDS).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// What is churned: a machine, its collector, and how the agent is loaded.
type Case = (u32, PathBuf, &'static str, Way);

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

/// Churns one machine. Returns its pauses and the bytes that it gave back.
fn churn(home: &Path, collector: &str, way: Way, time: Duration) -> (u64, u64) {
    let more = match (collector, way) {
        ("G1", Way::Attach) => &SHRINKING[..],
        _ => &[],
    };
    let (mut sums, page) = Sums::of(home, collector, way, more);
    let until = Instant::now() + time;
    let wishes = [
        Some(0),
        Some(MIB),
        None,
        Some(46 * MIB),
        Some(u64::MAX),
        Some(33 * MIB + 12345),
    ];
    let mut turn = 0;
    while Instant::now() < until {
        page.wish(wishes[turn % wishes.len()]);
        if turn % 7 == 3 {
            sums.tell("gc");
        }
        std::thread::sleep(Duration::from_millis(150));
        sums.checked();
        turn += 1;
    }
    sums.goes_on();
    let told = totals(&page);
    assert_eq!(told.missed, 0);
    let broken = page.view().unwrap().refusal().unwrap_or_default();
    assert!(!broken.contains("stopped making sense"), "{broken}");
    sums.quit();
    (told.pauses, told.given_back)
}

#[test]
fn no_machine_is_harmed() {
    let cases = cases();
    if cases.is_empty() {
        return;
    }
    let each = Duration::from_millis(seconds() * 1000 / cases.len() as u64);
    let number = cases.len();
    let left = Mutex::new(cases);
    let sum = Mutex::new((0, 0));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().pop();
                    let Some((version, home, collector, way)) = next else {
                        break;
                    };
                    let (pauses, bytes) = churn(&home, collector, way, each);
                    println!(
                        "{collector} of {version}, {way:?}: {pauses} pauses, {} MiB",
                        bytes / MIB
                    );
                    let mut sum = sum.lock().unwrap();
                    *sum = (sum.0 + pauses, sum.1 + bytes);
                }
            });
        }
    });
    let (pauses, bytes) = sum.into_inner().unwrap();
    let churned = each.as_secs_f64() * number as f64;
    println!(
        "{number} machines, {churned:.0} s: {pauses} pauses, {} MiB given back, 0 crashes",
        bytes / MIB
    );
    assert!(pauses > number as u64 && bytes > 0);
}
