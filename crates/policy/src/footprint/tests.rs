//! A heap beside others: its growth, what it pages out, and what it leaves free.

use super::*;
use plimsoll_unit::{MIB, Nanos};
use proptest::prelude::*;

fn seen(bound: Bound, stalls: u64) -> Seen {
    let ended = Ended {
        live: Bytes::mib(160),
        growth: Bytes::mib(100),
        stalls,
        ..Ended::default()
    };
    Seen {
        ended,
        holes: Bytes::ZERO,
        bound,
    }
}

fn domain(free: u64) -> Bound {
    Bound::Domain {
        capacity: Bytes::mib(512),
        free: Bytes::mib(free),
    }
}

/// Growth without paging out, what is to be paged out, and whether memory is short.
fn after(footprint: &mut Footprint, seen: &Seen) -> (u64, u64, bool) {
    let decision = footprint.after(seen);
    (
        decision.growth(Bytes::ZERO).0 / MIB,
        decision.shed.0 / MIB,
        decision.short,
    )
}

#[test]
fn where_there_is_room_a_heap_grows_as_usual() {
    let mut footprint = Footprint::default();
    let usual = (100, 0, false);
    assert_eq!(after(&mut footprint, &seen(domain(300), 0)), usual);
    assert_eq!(after(&mut footprint, &seen(Bound::None, 0)), usual);
}

#[test]
fn it_stays_a_reserve_below_what_is_free_and_sheds_the_rest() {
    let short = after(&mut Footprint::default(), &seen(domain(72), 0));
    assert_eq!(short, (30, 40, true));
}

#[test]
fn what_there_is_room_for_is_said_even_if_a_heap_would_grow_by_less() {
    let most = |bound| Footprint::default().after(&seen(bound, 0)).most;
    assert_eq!(most(Bound::None), Bytes::MAX);
    assert_eq!(most(Bound::Granted(Bytes::mib(400))), Bytes::mib(240));
    assert_eq!(most(domain(232)), Bytes::mib(150));
    assert_eq!(
        most(domain(0)),
        Bytes::mib(10),
        "as much as may be in any case"
    );
}

#[test]
fn it_always_makes_progress() {
    let none = after(&mut Footprint::default(), &seen(domain(0), 9));
    assert_eq!(none, (10, 40, true));
}

#[test]
fn holes_are_progress_while_memory_is_not_short() {
    let mut footprint = Footprint::default();
    let holes = |mib| {
        let mut seen = seen(Bound::None, 0);
        (seen.ended.growth, seen.holes) = (Bytes::ZERO, Bytes::mib(mib));
        seen
    };
    assert_eq!(
        footprint.after(&holes(0)).growth(Bytes::ZERO),
        Bytes::mib(10)
    );
    assert_eq!(
        footprint.after(&holes(4)).growth(Bytes::ZERO),
        Bytes::mib(6)
    );
    assert_eq!(footprint.after(&holes(90)).growth(Bytes::ZERO), Bytes::ZERO);
    let short = Seen {
        holes: Bytes::mib(90),
        ..seen(domain(0), 0)
    };
    assert_eq!(footprint.after(&short).growth(Bytes::ZERO), Bytes::mib(10));
}

#[test]
fn what_a_broker_grants_is_used() {
    let mut footprint = Footprint::default();
    let much = seen(Bound::Granted(Bytes::mib(400)), 5);
    assert_eq!(after(&mut footprint, &much), (240, 0, false));
    let little = seen(Bound::Granted(Bytes::mib(100)), 0);
    assert_eq!(after(&mut footprint, &little), (10, 70, true));
}

/// The free memory less a margin, as elsewhere. Nothing in addition while there are holes, then a
/// part of what is left.
#[test]
fn on_a_cliff_it_fills_holes_first_and_pages_nothing_out() {
    let cliff = |free, granted, holes| {
        let bound = Bound::Cliff {
            left: Bytes::mib(free),
            free: Bytes::mib(free),
            margin: Bytes::mib(32),
            granted,
        };
        let holes = Bytes::mib(holes);
        let decision = Footprint::default().after(&Seen {
            holes,
            ..seen(bound, 3)
        });
        assert_eq!(decision.shed + decision.debt, Bytes::ZERO);
        (decision.growth(Bytes::ZERO).0 / MIB, decision.short)
    };
    assert_eq!(cliff(300, Bytes::MAX, 0), (100, false));
    assert_eq!(cliff(72, Bytes::MAX, 0), (30, true));
    assert_eq!(
        cliff(300, Bytes::mib(200), 0),
        (40, true),
        "a broker says so"
    );
    assert_eq!(cliff(32, Bytes::MAX, 20), (0, true));
    assert_eq!(
        cliff(32, Bytes::MAX, 0),
        (4, true),
        "a quarter of what is left"
    );
    assert_eq!(cliff(32, Bytes::MAX, 3), (1, true), "with holes");
    assert_eq!(
        cliff(16, Bytes::MAX, 0),
        (0, true),
        "but for half of the margin"
    );
}

#[test]
fn little_swap_is_a_cliff_too() {
    assert!(is_cliff(Bytes::mib(512), Bytes::ZERO) && is_cliff(Bytes::mib(512), Bytes::mib(31)));
    assert!(!is_cliff(Bytes::mib(512), Bytes::mib(32)));
}

#[test]
fn a_margin_is_left_to_what_grows_until_that_ends() {
    let mut beside = Beside::default();
    let (capacity, mut now) = (Bytes::mib(512), Nanos::ZERO);
    let least = Bytes::mib(32);
    let mut after = |milliseconds: u64, bytes: Bytes| {
        now += Nanos::millis(milliseconds);
        beside.look(now, bytes);
        beside.margin(capacity)
    };
    assert_eq!(after(0, Bytes::mib(10)), least);
    assert_eq!(
        after(1, Bytes::mib(20)),
        least,
        "in so little time nothing is told"
    );
    let growing = after(99, Bytes::mib(14));
    assert_eq!(growing, least + Bytes::mib(10), "40 MiB in a second");
    let half = after(1000, Bytes::mib(14));
    assert!(
        (least + Bytes::mib(4)..least + Bytes::mib(6)).contains(&half),
        "{half}"
    );
    assert!(after(20_000, Bytes::mib(5)) < least + Bytes::mib(1));
    assert_eq!(
        after(100, Bytes::mib(400)),
        least + Bytes::mib(64),
        "no more than an 8th"
    );
}

#[test]
fn stalls_shrink_it_and_a_spike_is_forgotten() {
    let mut footprint = Footprint::default();
    let (growth, _, short) = after(&mut footprint, &seen(domain(300), 1));
    assert!(short && growth <= 75, "{growth}");
    let grown = (0..200).find(|_| after(&mut footprint, &seen(domain(300), 0)).0 == 100);
    assert!(grown.is_some());
}

#[test]
fn of_a_small_limit_threshold_and_low_water_are_the_papers() {
    assert_eq!(threshold(Bytes(1600)), Bytes(1500));
    assert_eq!(low_water(Bytes(1600)), Bytes(1313));
    let limit = Bytes::mib(4096);
    assert_eq!(limit - threshold(limit), MOST_UNUSED);
    assert_eq!(threshold(limit) - low_water(limit), MOST_RELEASED);
}

proptest! {
    #[test]
    fn growth_is_bounded_by_the_usual_the_room_and_progress(
        resident in 0u64..1 << 40, growth in 0u64..1 << 40, free: u64, capacity: u64,
        stalls in proptest::collection::vec(0u64..2, 1..20),
    ) {
        let mut footprint = Footprint::default();
        let (resident, growth) = (Bytes(resident), Bytes(growth));
        let (free, capacity) = (Bytes(free), Bytes(capacity));
        for stalls in stalls {
            let bound = Bound::Domain { capacity, free };
            let ended = Ended { live: resident, growth, stalls, ..Ended::default() };
            let decision = footprint.after(&Seen { ended, holes: Bytes::ZERO, bound });
            let least = least(resident);
            prop_assert!(decision.growth(Bytes::ZERO) >= least);
            prop_assert!(decision.growth(Bytes::ZERO) <= growth.max(least));
            prop_assert!(decision.growth(Bytes::ZERO) <= free.max(least));
            prop_assert!(decision.growth(decision.shed) <= growth.max(least));
        }
    }
}
