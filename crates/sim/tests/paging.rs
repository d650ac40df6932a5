//! Holds the model to the shape of the paper's Figure 3, and Isla Vista to what it promises in it.

use plimsoll_policy::sizing::Ratios;
use plimsoll_sim::paging::setups::{LARGE, Rule, Setup};
use plimsoll_sim::paging::{Costs, Outcome, Plan, Signal};
use plimsoll_unit::{Bytes, MIB, Nanos};
use proptest::prelude::*;

const PLANS: [Plan; 3] = [Plan::MarkSweep, Plan::SemiSpace, Plan::Generational];
const SWAPS: [Costs; 2] = [Costs::DISK, Costs::SOLID_STATE];
const MENDED: Rule = Rule::IslaVista(Ratios::MENDED);
/// The rule of an adapter that sees stalls from outside.
const ALL_TIME: Rule = Rule::IslaVista(Ratios::ALL_TIME);
const PAPER: Rule = Rule::IslaVista(Ratios::PAPER);
/// Maximum heaps: from tight to more than three times the room.
const SIZES: [Bytes; 9] = [
    Bytes::mib(56),
    Bytes::mib(64),
    Bytes::mib(80),
    Bytes::mib(96),
    Bytes::mib(160),
    Bytes::mib(192),
    Bytes::mib(256),
    Bytes::mib(320),
    LARGE,
];
/// The memory under pressure.
const ROOM: Bytes = Bytes::mib(144);

/// All setups with this rule that do not give memory back, as in the paper.
fn setups(rule: Rule) -> impl Iterator<Item = Setup> {
    let with = move |costs| {
        PLANS.map(|plan| Setup {
            costs,
            ..Setup::new(plan, rule)
        })
    };
    SWAPS.into_iter().flat_map(with)
}

fn time(setup: Setup, most: Bytes, room: Option<Bytes>) -> f64 {
    setup.alone(most, room).ended.0 as f64
}

fn work(outcomes: &[Outcome]) -> f64 {
    outcomes.iter().map(|one| one.allocated).sum::<Bytes>().0 as f64
}

#[test]
fn without_pressure_larger_heaps_are_never_slower() {
    for plan in PLANS {
        let setup = Setup::new(plan, Rule::Maximum);
        let times = SIZES.map(|most| time(setup, most, None));
        assert!(times.is_sorted_by(|a, b| a >= b), "{plan:?}: {times:?}");
        let gained = times.map(|time| times[0] / time);
        assert!(gained[8] > 1.02, "{plan:?}: {gained:?}");
        assert!(gained[8] - gained[5] < 0.05, "a plateau: {gained:?}");
    }
}

#[test]
fn under_pressure_the_default_falls_off_a_cliff() {
    for setup in setups(Rule::Maximum) {
        let ratios = SIZES.map(|most| time(setup, most, Some(ROOM)) / time(setup, most, None));
        assert!(
            ratios[..4].iter().all(|r| *r == 1.0),
            "{setup:?}: {ratios:?}"
        );
        let cliff = if setup.costs == Costs::DISK { 6.0 } else { 1.9 };
        assert!(ratios[8] > cliff, "{setup:?}: {ratios:?}");
        assert!(
            ratios[4..].iter().all(|r| *r > 1.1),
            "{setup:?}: {ratios:?}"
        );
    }
}

#[test]
fn isla_vista_stays_on_the_plateau() {
    for setup in setups(MENDED) {
        for most in SIZES {
            let default = time(setup.with(Rule::Maximum), most, None);
            let calm = time(setup, most, None) / default;
            assert!(calm <= 1.02, "{setup:?} of {} MiB: {calm}", most.0 / MIB);
            let pressed = time(setup, most, Some(ROOM)) / default;
            assert!(
                pressed <= 1.2,
                "{setup:?} of {} MiB: {pressed}",
                most.0 / MIB
            );
        }
    }
}

/// Stalls as a part of all the time do as well as against that of collections; with the limits of the
/// latter they do not.
#[test]
fn stalls_may_be_weighed_against_all_the_time() {
    let sum = |signal, rule| -> f64 {
        let with = |setup| Setup { signal, ..setup };
        let cases =
            setups(rule).flat_map(|setup| [Bytes::mib(192), LARGE].map(|most| (with(setup), most)));
        let ratios = cases.map(|(setup, most)| {
            let default = time(setup.with(Rule::Maximum), most, None);
            time(setup, most, Some(ROOM)) / default
        });
        let ratios: Vec<f64> = ratios.collect();
        ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64
    };
    let ours = sum(Signal::AllTime, ALL_TIME).exp();
    let best = sum(Signal::Between, MENDED).exp();
    let wrong = sum(Signal::AllTime, MENDED).exp();
    assert!(ours <= 1.06 * best, "{ours} against {best}");
    assert!(wrong > 1.1 * ours, "{wrong} against {ours}");
}

#[test]
fn at_the_largest_maximum_it_gains_what_the_paper_says() {
    let gains = PLANS.map(|plan| {
        let setup = Setup {
            costs: Costs::DISK,
            ..Setup::new(plan, Rule::Maximum)
        };
        time(setup, LARGE, Some(ROOM)) / time(setup.with(MENDED), LARGE, Some(ROOM))
    });
    let mean = gains.iter().product::<f64>().cbrt();
    assert!(mean >= 3.7, "{gains:?}");
}

/// The paper's rule takes the mature space for live data, and a nursery's limit for what the rest leaves.
#[test]
fn the_papers_rule_fails_where_the_mended_one_does_not() {
    let setup = Setup::new(Plan::Generational, PAPER);
    let default = time(setup.with(Rule::Maximum), Bytes::mib(192), None);
    assert!(time(setup, Bytes::mib(192), Some(ROOM)) > 2.0 * default);
    assert!(time(setup.with(MENDED), Bytes::mib(192), Some(ROOM)) < 1.1 * default);
}

/// The program itself walks into pages that went to swap while they were free.
#[test]
fn stalls_outside_of_collections_must_count() {
    let setup = Setup::new(Plan::SemiSpace, MENDED);
    let inside = Setup {
        signal: Signal::Time,
        ..setup
    };
    let (all, inside) = (
        time(setup, LARGE, Some(ROOM)),
        time(inside, LARGE, Some(ROOM)),
    );
    assert!(inside > 1.5 * all, "{inside} against {all}");
}

/// A machine whose memory is full of file pages stalls everybody a little, and no smaller heap helps.
#[test]
fn stalls_that_cost_nothing_change_nothing() {
    for plan in PLANS {
        for gives_back in [false, true] {
            let setup = Setup {
                gives_back,
                ..Setup::new(plan, MENDED)
            };
            let time = |rule| setup.with(rule).among_files(LARGE).ended.0 as f64;
            let ratio = time(MENDED) / time(Rule::Maximum);
            assert!(ratio <= 1.02, "{setup:?}: {ratio}");
        }
    }
}

#[test]
fn where_the_live_data_do_not_fit_it_does_no_harm() {
    for plan in PLANS {
        for room in [60, 80, 95] {
            let mut setup = Setup::new(plan, MENDED);
            setup.live = setup.live * 5 / 2;
            let time = |rule| time(setup.with(rule), LARGE, Some(Bytes::mib(room)));
            let (ours, paper, default) = (time(MENDED), time(PAPER), time(Rule::Maximum));
            assert!(ours < 1.05 * paper, "{setup:?} in {room}: {ours} {paper}");
            assert!(
                ours < 2.0 * default,
                "{setup:?} in {room}: {ours} {default}"
            );
        }
    }
}

/// The least and the largest size of a heap between two seconds.
fn ends(outcome: &Outcome, from: u64, to: u64) -> (u64, u64) {
    let within = |now: Nanos| (Nanos::seconds(from)..Nanos::seconds(to)).contains(&now);
    let points = outcome.points.iter().filter(|point| within(point.now));
    points.fold((u64::MAX, 0), |(least, most), point| {
        (least.min(point.size.0), most.max(point.size.0))
    })
}

/// Jain's index of what was allocated in the second half: 1 where all got the same.
fn fairness(outcomes: &[Outcome]) -> f64 {
    let got = outcomes.iter().map(|one| {
        let mut late = one
            .points
            .iter()
            .filter(|point| point.now > Nanos::seconds(150));
        let (first, last) = (late.clone().next(), late.next_back());
        let bytes = |point: Option<&plimsoll_sim::paging::Point>| {
            point.map_or(Bytes::ZERO, |p| p.allocated)
        };
        (bytes(last) - bytes(first)).0 as f64
    });
    let got: Vec<f64> = got.collect();
    let sum: f64 = got.iter().sum();
    sum * sum / got.len() as f64 / got.iter().map(|one| one * one).sum::<f64>()
}

#[test]
fn four_heaps_settle_and_share_what_there_is() {
    for setup in setups(MENDED) {
        let four = setup.four(LARGE);
        let even = work(&setup.with(Rule::Maximum).four(Bytes::mib(140)));
        let ratio = work(&four) / even;
        assert!(ratio >= 0.9, "{setup:?}: {ratio} of the even split");
        assert!(fairness(&four) >= 0.99, "{setup:?}: {}", fairness(&four));
        for one in &four {
            let swing = |from, to| {
                let (least, most) = ends(one, from, to);
                most as f64 / least as f64
            };
            let (before, after) = (swing(100, 200), swing(200, 300));
            assert!(before.max(after) < 4.5, "{setup:?}: {before} {after}");
            assert!(
                after < 1.6 * before,
                "{setup:?} swings more: {before} {after}"
            );
        }
    }
}

#[test]
fn beside_a_hog_it_does_more_than_the_paper_and_than_a_large_heap() {
    for plan in PLANS {
        let setup = Setup::new(plan, MENDED);
        let work = |rule, most| setup.with(rule).beside_a_hog(most).allocated.0 as f64;
        let ours = work(MENDED, LARGE);
        assert!(ours > work(PAPER, LARGE), "{plan:?}");
        assert!(
            ours > 1.2 * work(Rule::Maximum, Bytes::mib(320)),
            "{plan:?}"
        );
        assert!(
            ours > 0.9 * work(Rule::Maximum, Bytes::mib(128)),
            "{plan:?}"
        );
    }
}

#[test]
fn the_same_world_runs_the_same() {
    let setup = Setup::new(Plan::Generational, MENDED);
    assert_eq!(setup.beside_a_hog(LARGE), setup.beside_a_hog(LARGE));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Not only with the sizes of the figures.
    #[test]
    fn it_stays_on_the_plateau_of_any_program(
        plan in prop_oneof![Just(Plan::MarkSweep), Just(Plan::SemiSpace), Just(Plan::Generational)],
        live in 10u64..60,
        spare in 1.0..4.0f64,
        most in 1.2..6.0f64,
        gives_back in any::<bool>(),
    ) {
        let mut setup = Setup { gives_back, ..Setup::new(plan, MENDED) };
        setup.live = Bytes::mib(live);
        let taken = if plan == Plan::SemiSpace { 2 * live } else { live };
        let room = ((taken * MIB) as f64 * (1.0 + spare)) as u64;
        let most = (room as f64 * most) as u64;
        // The best that a fixed size can do in this memory is a little less than all of it.
        let default = time(setup.with(Rule::Maximum), Bytes(room), None);
        let ours = time(setup, Bytes(most), Some(Bytes(room)));
        prop_assert!(ours <= 1.5 * default, "{ours} {default}");
    }
}
