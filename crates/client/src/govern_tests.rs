use super::*;
use plimsoll_unit::MIB;
use proptest::prelude::*;

fn granted(limit: u64, owed: u64, uses: u64) -> Granted {
    Granted {
        limit: Bytes::mib(limit),
        owed: Bytes::mib(owed),
        uses: Bytes::mib(uses),
    }
}

fn own(resident: u64) -> Own {
    Own {
        resident: Bytes::mib(resident),
        guard: Bytes(MIB),
        ..Own::default()
    }
}

/// Whether a release follows at once, when as much is owed as the use exceeds a limit of 512 MiB.
fn asks(governor: &mut Governor, resident: u64, at: Nanos) -> bool {
    let owed = resident.saturating_sub(512);
    let asks = governor
        .step(at, granted(512, owed, resident), own(resident))
        .release_to
        .is_some();
    if asks {
        governor.released(at, at, Bytes::mib(resident));
    }
    asks
}

#[test]
fn what_is_owed_is_asked_for_at_once_and_then_ever_more_rarely() {
    let mut governor = Governor::new(Nanos(1), Bytes::ZERO);
    let half = |halves: u64| Nanos::millis(500) * halves;
    let mut asks = |resident, at| asks(&mut governor, resident, at);
    assert!(!asks(480, half(1)));
    assert!(asks(600, half(2)), "something is owed");
    assert!(!asks(600, half(2) + Nanos(1)));
    assert!(asks(590, half(3)), "something is owed still");
    assert!(!asks(590, half(4)));
    assert!(asks(590, half(5)));
    let asked = (6..606).filter(|&halves| asks(590, half(halves)));
    assert_eq!(asked.count(), 4 + 9, "2, 4, 8, 16 s and then each 30 s");
    assert!(asks(593, half(606)), "it became more");
    assert!(!asks(480, half(700)));
}

#[test]
fn a_debt_that_was_paid_later_does_not_delay_the_next() {
    let mut governor = Governor::new(Nanos(1), Bytes::ZERO);
    for seconds in 1..100 {
        asks(&mut governor, 600, Nanos::seconds(seconds));
    }
    assert!(!asks(&mut governor, 600, Nanos::seconds(100)));
    assert!(!asks(&mut governor, 480, Nanos::seconds(101)));
    assert!(asks(&mut governor, 550, Nanos::seconds(102)));
}

/// After eight looks, members of one family know of each other.
fn members(sizes: &[u64], limit: u64) -> Vec<(Governor, Govern)> {
    let all: u64 = sizes.iter().sum();
    let member = |&size: &u64| {
        let mut governor = Governor::new(Nanos(1), Bytes::ZERO);
        let looks = (1..=WINDOW as u64).map(|look| {
            let now = Nanos::millis(look);
            governor.step(
                now,
                granted(limit, all.saturating_sub(limit), all),
                own(size),
            )
        });
        let last = looks.last().unwrap();
        (governor, last)
    };
    sizes.iter().map(member).collect()
}

#[test]
fn each_member_of_a_family_gives_its_part() {
    let all = members(&[100, 200, 300], 500);
    let low = low_water(Bytes::mib(500));
    let goals = all.iter().map(|(_, then)| then.release_to.unwrap().0);
    assert!(goals.sum::<u64>().abs_diff(low.0) <= 3);
    let limits = all.iter().map(|(_, then)| then.process_limit.0);
    assert!(limits.sum::<u64>().abs_diff(threshold(Bytes::mib(500)).0) <= 3);
}

#[test]
fn where_the_family_cannot_give_one_process_gives_all() {
    let (mut governor, first) = members(&[300, 300], 500).swap_remove(0);
    let part = first.release_to.unwrap();
    assert!(part > Bytes::mib(200), "half of it");
    let at = Nanos::millis(9);
    governor.released(at, at, part);
    let uses = part.0 / MIB + 300;
    let numbers = granted(500, uses.saturating_sub(500), uses);
    let mut step = |millis| governor.step(Nanos::millis(millis), numbers, own(part.0 / MIB));
    assert_eq!(step(10).release_to, None, "the others have time");
    let later = step(10 + FIRST_PAUSE.0 / 1_000_000).release_to.unwrap();
    assert_eq!(later, low_water(Bytes::mib(500)) - Bytes::mib(300));
}

/// Numbers as brokers and kernels give them, and absurd ones.
fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![0..1u64 << 44, any::<u64>()].prop_map(Bytes)
}

proptest! {
    #[test]
    fn the_heap_the_rest_and_the_family_never_exceed_the_limit(
        looks in prop::collection::vec(
            (any::<u64>(), [bytes(), bytes(), bytes()], [bytes(), bytes(), bytes(), bytes()], any::<bool>()),
            1..40,
        ),
    ) {
        let mut governor = Governor::new(Nanos::ZERO, Bytes::ZERO);
        for (now, [limit, owed, uses], [resident, beside, needs, guard], tells) in looks {
            let now = Nanos(now);
            governor.measure(now, resident);
            let own = Own { resident, beside, needs, guard };
            let then = governor.step(now, Granted { limit, owed, uses }, own);
            prop_assert!(then.process_limit <= limit);
            prop_assert!(then.heap_limit <= then.process_limit);
            // Above the limit each member of the family gives its part, and none grows.
            let all = resident + then.family;
            prop_assert!(then.process_limit + then.family <= limit.max(then.family)
                || (all > threshold(limit) && then.process_limit <= resident));
            prop_assert!(then.heap_limit == Bytes::ZERO || then.heap_limit + beside <= then.process_limit);
            prop_assert!(then.release_to.is_none_or(|goal| goal <= then.heap_limit && then.may_release));
            prop_assert!(owed == Bytes::ZERO || then.release_to.is_some() || !then.may_release
                || resident + then.family <= threshold(limit));
            if let Some(report) = then.report {
                prop_assert!(report.floor >= Some(needs.0));
            }
            if tells {
                governor.released(now, now + owed_time(owed), resident);
            }
        }
    }

    #[test]
    fn a_steady_rate_is_measured_whatever_the_looks(
        rate in 0..1u64 << 36,
        pauses in prop::collection::vec(20u64..400, 60..80),
    ) {
        let mut governor = Governor::new(Nanos::ZERO, Bytes::ZERO);
        let mut now = Nanos::ZERO;
        for pause in pauses {
            now += Nanos::millis(pause);
            let allocated = u128::from(rate) * u128::from(now.0) / u128::from(SECOND);
            governor.measure(now, Bytes(u64::try_from(allocated).unwrap()));
        }
        let measured = governor.measure(now, Bytes::ZERO);
        // Each look rounds down.
        prop_assert!(measured.abs_diff(rate) <= 200, "{} of {}", measured, rate);
    }
}

fn owed_time(owed: Bytes) -> Nanos {
    Nanos(owed.0 / 7)
}
